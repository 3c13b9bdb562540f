#include "history/rollup.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "history/test_rows.h"

namespace gpuman::history {
namespace {

TEST(Rollup, AddsTheRowsOfABucketAndEndsItWithTheNext) {
  Rollup rollup(10);
  EXPECT_FALSE(rollup.Add(MemoryRow(100, 4)));
  EXPECT_FALSE(rollup.Add(RowOf(101, {})));
  EXPECT_FALSE(rollup.Add(RowOf(109, Of(8, JobActivityState::kWaiting))));
  const auto row = rollup.Add(MemoryRow(110, 1));
  ASSERT_TRUE(row);
  EXPECT_EQ(row->at, 100);
  EXPECT_EQ(row->seconds, 3u);
  EXPECT_EQ(row->waiting, 1u);
  EXPECT_EQ((*row)[Metric::kMemory], (Aggregate{2, 12, 4, 8}));
  EXPECT_EQ((*row)[Metric::kPower], Aggregate{});
}

TEST(Rollup, EndsTheBucketWhereTheClockIsSetBack) {
  Rollup rollup(10);
  rollup.Add(MemoryRow(1000, 1));
  const auto row = rollup.Add(MemoryRow(500, 2));
  ASSERT_TRUE(row);
  EXPECT_EQ(row->at, 1000);
  EXPECT_EQ(rollup.End()->at, 500);
  EXPECT_FALSE(rollup.End());
}

TEST(Rollup, OfAClockThatStandsStillMakesNoBucketLongerThanItIs) {
  Rollup rollup(10);
  int ended = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto row = rollup.Add(MemoryRow(100, 1));
    if (!row) continue;
    ++ended;
    EXPECT_EQ(row->seconds, 10u);
  }
  EXPECT_EQ(ended, 99);
}

RC_GTEST_PROP(Rollup, OfTensIsThatOfSeconds, ()) {
  Rollup tens(10), of_tens(300), of_seconds(300);
  std::vector<Row> a, b;
  std::int64_t at = 1'000'000;
  const auto count = *rc::gen::inRange(1, 2000);
  for (int i = 0; i < count; ++i) {
    const Row row = RowOf(at, Of(*AnyValue(), static_cast<JobActivityState>(*rc::gen::inRange(0, 3))));
    if (const auto done = of_seconds.Add(row)) a.push_back(*done);
    if (const auto ten = tens.Add(row))
      if (const auto done = of_tens.Add(*ten)) b.push_back(*done);
    at += *rc::gen::oneOf(rc::gen::just<std::int64_t>(1), rc::gen::inRange<std::int64_t>(1, 400));
  }
  if (const auto done = of_seconds.End()) a.push_back(*done);
  if (const auto done = of_tens.Add(*tens.End())) b.push_back(*done);
  if (const auto done = of_tens.End()) b.push_back(*done);
  RC_ASSERT(a == b);
}

}  // namespace
}  // namespace gpuman::history
