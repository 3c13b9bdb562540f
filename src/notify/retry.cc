#include "notify/retry.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace gpuman::notify {
namespace {

constexpr int kRequestTimeout = 408, kTooManyRequests = 429;

bool Succeeded(const OutboxMessage& message, const Attempt& attempt) {
  if (!attempt.problem.empty()) return false;
  if (message.channel == ChannelKind::kMail) return true;
  return attempt.status >= 200 && attempt.status < 300;
}

}  // namespace

DeliveryOutcome Judge(const OutboxMessage& message, const Attempt& attempt) {
  if (Succeeded(message, attempt)) return DeliveryOutcome::kDelivered;
  if (attempt.hopeless) return DeliveryOutcome::kGivenUp;
  const int status = attempt.status;
  if (message.channel == ChannelKind::kMail)
    return status >= 500 ? DeliveryOutcome::kGivenUp : DeliveryOutcome::kRetry;
  const bool again = status == 0 || status >= 500 || status == kRequestTimeout || status == kTooManyRequests;
  return again ? DeliveryOutcome::kRetry : DeliveryOutcome::kGivenUp;
}

std::string ProblemOf(const OutboxMessage& message, const Attempt& attempt) {
  if (Succeeded(message, attempt)) return {};
  if (!attempt.problem.empty()) return attempt.problem;
  if (attempt.status >= 300 && attempt.status < 400)
    return fmt::format("the receiver answered {}, and redirects are not followed", attempt.status);
  return fmt::format("the receiver answered {}", attempt.status);
}

base::Millis DelayOf(const RetrySettings& settings, int attempts, std::uint64_t seed,
                     const std::optional<base::Millis>& retry_after) {
  constexpr int kMaxDoublings = 40;
  base::Millis delay = std::min(settings.first, settings.longest);
  for (int i = 1; i < std::min(attempts, kMaxDoublings) && delay < settings.longest; ++i)
    delay = std::min(2 * delay, settings.longest);
  const auto fifth = static_cast<std::uint64_t>(delay.count()) / 5;
  if (fifth > 0) delay -= base::Millis(base::SplitMix64(seed ^ static_cast<std::uint64_t>(attempts)) % fifth);
  if (retry_after) delay = std::max(delay, std::min(*retry_after, settings.longest));
  return delay;
}

}  // namespace gpuman::notify
