#include "health/rates.h"

#include <chrono>

namespace gpuman::health {

using base::MonoTime;

void GrowthMeter::Add(MonoTime now, std::uint64_t counter) {
  const bool first = steps_.empty();
  const std::uint64_t added = first ? 0 : counter >= last_ ? counter - last_ : counter;
  last_ = counter;
  steps_.push_back({now, added});
  // Keeps the last step that is older than the window, because the window begins there.
  while (steps_.size() > 2 && steps_[1].at <= now - window_) steps_.pop_front();
}

std::optional<std::uint64_t> GrowthMeter::Growth() const {
  if (steps_.size() < 2) return std::nullopt;
  std::uint64_t sum = 0;
  for (std::size_t i = 1; i < steps_.size(); ++i) sum += steps_[i].added;
  return sum;
}

std::optional<double> GrowthMeter::RatePer(base::Millis unit) const {
  const auto growth = Growth();
  if (!growth || steps_.back().at - steps_.front().at < window_) return std::nullopt;
  const std::chrono::duration<double> known = steps_.back().at - steps_.front().at;
  return static_cast<double>(*growth) * (std::chrono::duration<double>(unit) / known);
}

void ConditionMinuteCounter::Add(MonoTime now, bool seen) {
  const auto minute = std::chrono::duration_cast<std::chrono::minutes>(now.time_since_epoch()).count();
  if (seen && (seen_.empty() || seen_.back() != minute)) seen_.push_back(minute);
  while (!seen_.empty() && seen_.front() <= minute - minutes_) seen_.pop_front();
}

}  // namespace gpuman::health
