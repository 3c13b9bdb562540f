// The messages between the daemon and gpuman-notifier: a JSON object a line, over a unix socket that is the
// notifier's descriptor 0. Orders go in, one report for each comes out, in any order. The notifier ends when
// the socket is closed. It keeps nothing: the daemon gives an order without a report again.
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
  std::vector<std::string> allow;  // as in Settings
  std::string proxy;
};

struct SendMail {
  std::string server;
  std::uint32_t port = 0;
  Tls tls = Tls::kStart;
  std::string user, password;
  std::string from, to;
  std::string text;
};

struct Order {
  std::int64_t number = 0;
  base::Millis timeout{10'000};
  std::string agent;    // how the sender names itself
  std::string ca_file;  // empty: the system's
  std::variant<HttpPost, SendMail> what;
};

struct Report {
  std::int64_t number = 0;
  Attempt attempt;
};

// One line, with its end.
std::string Serialize(const Order& order);
std::string Serialize(const Report& report);
// kCorrupt for text that Serialize did not write.
base::Result<Order> ParseOrder(std::string_view line);
base::Result<Report> ParseReport(std::string_view line);

// Takes the first line off the text read so far; false: there is none yet.
bool TakeLine(std::string& buffer, std::string& line);

}  // namespace gpuman::notify
