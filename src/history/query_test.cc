#include "history/query.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "history/test_rows.h"

namespace gpuman::history {
namespace {

using Oldest = std::array<std::optional<std::int64_t>, kTiers>;
constexpr std::int64_t kNow = 1'700'000'000;

Plan PlanFor(std::int64_t range, std::int64_t points, const Oldest& oldest = {0, 0, 0}) {
  return PlanOf({kNow - range, kNow, points}, oldest);
}

TEST(Plan, TakesTheCoarsestResolutionThatGivesAsManyPoints) {
  EXPECT_EQ(PlanFor(300, 300).tier, 0u);
  EXPECT_EQ(PlanFor(2 * 3600, 300).tier, 1u);
  EXPECT_EQ(PlanFor(90 * 86'400, 300).tier, 2u);
  EXPECT_EQ(PlanFor(90 * 86'400, 300).step % 300, 0);
}

TEST(Plan, TakesACoarserResolutionWhereTheFinerDoesNotReachBack) {
  const Oldest oldest{kNow - 3600, kNow - 86'400, kNow - 90 * 86'400};
  EXPECT_EQ(PlanFor(1800, 2000, oldest).tier, 0u);
  EXPECT_EQ(PlanFor(2 * 3600, 2000, oldest).tier, 1u);
  EXPECT_EQ(PlanFor(2 * 86'400, 2000, oldest).tier, 2u);
  EXPECT_EQ(PlanFor(200 * 86'400, 2000, oldest).tier, 2u);
}

TEST(Plan, OfAYoungDaemonStaysWithTheSeconds) {
  const Oldest oldest{kNow - 100, kNow - 105, std::nullopt};
  EXPECT_EQ(PlanFor(1800, 2000, oldest).tier, 0u);
}

RC_GTEST_PROP(Plan, CoversTheQuestionWithNoMorePointsThanAsked, ()) {
  const auto since = *rc::gen::inRange<std::int64_t>(0, kNow);
  const auto until = since + *rc::gen::inRange<std::int64_t>(1, kNow);
  const auto points = *rc::gen::inRange<std::int64_t>(kMinPoints, kMaxPoints + 1);
  const Plan plan = PlanOf({since, until, points}, {0, 0, 0});
  RC_ASSERT(plan.since <= since);
  RC_ASSERT(plan.until >= until);
  RC_ASSERT(plan.step % kSteps[plan.tier] == 0);
  RC_ASSERT(plan.since % plan.step == 0);
  RC_ASSERT(plan.buckets() <= static_cast<std::size_t>(points));
}

TEST(Buckets, LeaveGapsAndAddUpTheRest) {
  const Plan plan{0, 100, 130, 10};
  Buckets buckets(plan);
  buckets.Add(MemoryRow(129, 4));
  buckets.Add(MemoryRow(100, 1));
  buckets.Add(MemoryRow(105, 3));
  buckets.Add(MemoryRow(99, 50));
  buckets.Add(MemoryRow(130, 50));
  ASSERT_EQ(buckets.rows().size(), 3u);
  EXPECT_EQ(buckets.rows()[0][Metric::kMemory], (Aggregate{2, 4, 1, 3}));
  EXPECT_EQ(buckets.rows()[1].seconds, 0u);
  EXPECT_EQ(buckets.rows()[2][Metric::kMemory], (Aggregate{1, 4, 4, 4}));
  EXPECT_EQ(buckets.rows()[2].at, 120);
}

}  // namespace
}  // namespace gpuman::history
