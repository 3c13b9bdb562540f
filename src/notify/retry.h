// What becomes of a message after an attempt. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/units.h"
#include "notify/message.h"
#include "notify/settings.h"

namespace gpuman::notify {

// How one attempt went.
struct Attempt {
  int status = 0;         // of HTTP's or SMTP's answer; 0: no answer
  std::string problem;    // what was wrong with the connection, or why there was none; empty: nothing
  bool hopeless = false;  // another attempt cannot succeed
  std::optional<base::Millis> retry_after{};  // as the receiver asks
};

enum class Verdict { kDelivered, kRetry, kGivenUp };

// HTTP: 2xx is delivered; 408, 429 and 5xx are tried again, as is everything without an answer; other answers
// are final (redirects are not followed). SMTP: 5yz is final, 4yz is tried again (RFC 5321, 4.2.1).
Verdict Judge(const Message& message, const Attempt& attempt);
// A sentence for people; empty when it was delivered.
std::string ProblemOf(const Message& message, const Attempt& attempt);

// How long to wait after attempt number `attempts` (1: the first). It doubles each time, up to and including
// the longest, and is up to a fifth shorter, differently for each `seed`, so that many messages that failed
// together do not come back together. If the receiver asks for a longer time, that counts, up to the longest.
base::Millis DelayOf(const RetrySettings& settings, int attempts, std::uint64_t seed,
                     const std::optional<base::Millis>& retry_after);

}  // namespace gpuman::notify
