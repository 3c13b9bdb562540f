#include "history/query.h"

#include <algorithm>

#include "history/rollup.h"

namespace gpuman::history {
namespace {

std::int64_t UpTo(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

Plan PlanOf(const Query& question, const std::array<std::optional<std::int64_t>, kTiers>& oldest) {
  const std::int64_t points = std::clamp<std::int64_t>(question.points, kMinPoints, kMaxPoints);
  const std::int64_t since = std::clamp<std::int64_t>(question.since, 0, kLastTime);
  const std::int64_t until = std::clamp<std::int64_t>(question.until, since + 1, kLastTime + 1);
  const std::int64_t wanted = std::max<std::int64_t>(1, (until - since + points - 1) / points);
  Plan plan;
  while (plan.tier + 1 < kTiers && kSteps[plan.tier + 1] <= wanted) ++plan.tier;
  const auto reaches = [&](std::size_t tier) { return oldest[tier].value_or(INT64_MAX); };
  for (std::size_t tier = plan.tier + 1; tier < kTiers; ++tier)
    if (reaches(plan.tier) > since && reaches(tier) < reaches(plan.tier) - kSteps[tier]) plan.tier = tier;
  plan.step = UpTo(wanted, kSteps[plan.tier]);
  // Whole buckets may be one more than were asked for; longer ones are fewer.
  for (;; plan.step = UpTo(plan.step + plan.step / 64 + 1, kSteps[plan.tier])) {
    plan.since = BucketOf(since, plan.step);
    plan.until = UpTo(until, plan.step);
    if (static_cast<std::int64_t>(plan.buckets()) <= points) break;
  }
  return plan;
}

Buckets::Buckets(const Plan& plan) : plan_(plan), rows_(plan.buckets()) {
  for (std::size_t i = 0; i < rows_.size(); ++i)
    rows_[i].at = plan.since + static_cast<std::int64_t>(i) * plan.step;
}

void Buckets::Add(const Row& row) {
  if (row.at < plan_.since || row.at >= plan_.until) return;
  AddTo(rows_[static_cast<std::size_t>((row.at - plan_.since) / plan_.step)], row);
}

}  // namespace gpuman::history
