// The messages between the daemon and gpuman-notifier: one JSON object on each line, over a unix socket that
// is the notifier's descriptor 0. The daemon sends orders; the notifier sends one report for each order, in
// any order. The notifier ends when the socket is closed. The notifier stores nothing: if an order got no
// report, the daemon sends the order again.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "notify/retry.h"
#include "notify/settings.h"

namespace gpuman::notify {

inline constexpr int kNotifierSocket = 0;
inline constexpr std::size_t kLongestLine = 256 * 1024;

struct HttpPost {
  std::string url;
  std::string delivery, event;  // headers
  std::string body;
  std::string secret;              // empty: not signed
  std::vector<std::string> allow;  // as in NotificationSettings
  std::string proxy;
};

struct OutgoingMail {
  std::string server;
  std::uint32_t port = 0;
  Tls tls = Tls::kStart;
  std::string user, password;
  std::string from, to;
  std::string text;
};

struct DeliveryRequest {
  std::int64_t number = 0;
  base::Millis timeout{10'000};
  std::string agent;    // the name of the sender, for the receiver
  std::string ca_file;  // empty: the system's
  std::variant<HttpPost, OutgoingMail> what;
};

struct DeliveryReport {
  std::int64_t number = 0;
  Attempt attempt;
};

// Returns one line, with the newline.
std::string Serialize(const DeliveryRequest& order);
std::string Serialize(const DeliveryReport& report);
// kCorrupt: Serialize did not write the text.
base::Result<DeliveryRequest> ParseOrder(std::string_view line);
base::Result<DeliveryReport> ParseReport(std::string_view line);

// Moves the first line of `buffer`, the text read so far, to `line`. False: `buffer` has no whole line yet.
bool TakeLine(std::string& buffer, std::string& line);

}  // namespace gpuman::notify
