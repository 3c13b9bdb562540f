// The administrator's settings of notifications: [notify] of the configuration (docs/notifications.md). Plain
// values; thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/units.h"
#include "base/words.h"

namespace gpuman::notify {

// When a message is tried again, and for how long.
struct RetrySettings {
  base::Millis first{10'000};         // the delay after the first failure; it doubles each time,
  base::Millis longest{3'600'000};    // up to this
  base::Millis give_up{259'200'000};  // a message that is older is not tried again
  friend bool operator==(const RetrySettings&, const RetrySettings&) = default;
};

struct OutboxSettings {
  RetrySettings retry;
  std::size_t in_flight = 4;     // at a time
  std::size_t per_user = 1'000;  // messages of one user that wait
  base::Millis keep_failed{604'800'000};
};

enum class Tls { kStart, kWhole, kNone };  // STARTTLS, TLS from the beginning of the connection, no TLS
constexpr auto WordsOf(Tls) {
  return base::Words<Tls, 3>{{{Tls::kStart, "starttls"}, {Tls::kWhole, "tls"}, {Tls::kNone, "none"}}};
}

struct SmtpSettings {
  std::string server;      // empty: no mail is sent
  std::uint32_t port = 0;  // 0: the usual port for `tls`: 587, 465 or 25
  Tls tls = Tls::kStart;
  std::string from;
  std::string user;  // empty: no login
  std::filesystem::path password_file;
};

struct NotificationSettings {
  std::vector<std::string> webhooks;  // of the administrators
  std::vector<std::string> events;    // kinds of events that are posted to these webhooks
  std::filesystem::path secret_file;  // has the key that signs posts; empty: only those in `secrets`
  std::filesystem::path secrets;      // a directory with one file for each user who has a secret
  std::vector<std::string> allow;     // networks that are allowed though not public (ParseNetwork)
  std::string proxy;                  // URL; empty: none
  std::filesystem::path ca_file;      // certificate authorities; empty: those of the system
  base::Millis timeout{10'000};       // of one attempt
  OutboxSettings outbox;
  SmtpSettings smtp;
};

}  // namespace gpuman::notify
