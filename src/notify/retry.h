// Decides what happens to a message after an attempt. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/units.h"
#include "notify/outbox_message.h"
#include "notify/settings.h"

namespace gpuman::notify {

// The result of one attempt.
struct Attempt {
  int status = 0;         // of HTTP's or SMTP's answer; 0: no answer
  std::string problem;    // why the connection failed, or why there was none; empty: no problem
  bool hopeless = false;  // another attempt cannot succeed
  std::optional<base::Millis> retry_after{};  // as the receiver asks
};

enum class DeliveryOutcome { kDelivered, kRetry, kGivenUp };

// HTTP: 2xx means delivered. After 408, 429, 5xx, or no answer, the message is tried again. Other answers are
// final (redirects are not followed). SMTP: 5yz is final, 4yz is tried again (RFC 5321, 4.2.1).
DeliveryOutcome Judge(const OutboxMessage& message, const Attempt& attempt);
// A sentence for people; empty when it was delivered.
std::string ProblemOf(const OutboxMessage& message, const Attempt& attempt);

// How long to wait after attempt number `attempts` (1: the first). The delay doubles each time, up to
// RetrySettings::longest. It is then shortened by up to a fifth, by an amount that depends on `seed`, so that
// messages that failed together are not tried again together. If the receiver asks for a longer delay, that
// delay counts, up to RetrySettings::longest.
base::Millis DelayOf(const RetrySettings& settings, int attempts, std::uint64_t seed,
                     const std::optional<base::Millis>& retry_after);

}  // namespace gpuman::notify
