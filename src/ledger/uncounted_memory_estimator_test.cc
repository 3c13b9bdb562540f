// Sizes in MiB.
#include "ledger/uncounted_memory_estimator.h"

#include <gtest/gtest.h>

namespace gpuman::ledger {
namespace {

using base::MiB;

ProcessSample Of(pid_t pid, std::uint64_t shown, std::optional<std::uint64_t> counted) {
  return {{pid, 1}, MiB(shown), counted ? std::optional(MiB(*counted)) : std::nullopt};
}

TEST(UncountedMemoryEstimator, IsWhatContextsAndCodeTake) {
  UncountedMemoryEstimator uncounted;
  EXPECT_EQ(uncounted.Observe({Of(1, 618, 100), Of(2, 718, 200)}), MiB(2 * 518));
  EXPECT_EQ(uncounted.Observe({Of(2, 718, 200)}), MiB(518)) << "a process has ended";
}

TEST(UncountedMemoryEstimator, IsAllOfAProcessThatDoesNotCount) {
  UncountedMemoryEstimator uncounted;
  EXPECT_EQ(uncounted.Observe({Of(1, 618, std::nullopt)}), MiB(618));
  EXPECT_EQ(uncounted.Observe({Of(1, 718, std::nullopt)}), MiB(718)) << "at once";
  EXPECT_FALSE(uncounted.context());
}

TEST(UncountedMemoryEstimator, OneSampleInTheMiddleOfAnAllocationChangesNothing) {
  UncountedMemoryEstimator uncounted;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(uncounted.Observe({Of(1, 618, 100)}), MiB(518));
  EXPECT_EQ(uncounted.Observe({Of(1, 618, 600)}), MiB(518)) << "counted, and the driver not asked yet";
  EXPECT_EQ(uncounted.Observe({Of(1, 1118, 100)}), MiB(518)) << "freed since the driver was asked";
}

TEST(UncountedMemoryEstimator, OfAProgramThatAllocatesAllTheTimeIsNotLessThanBefore) {
  UncountedMemoryEstimator uncounted;
  uncounted.Observe({Of(1, 200, 0)});  // its context is only half made
  for (int i = 0; i < 3; ++i) uncounted.Observe({Of(1, 518, 0)});
  for (std::uint64_t counted = 100; counted < 3000; counted += 100)
    EXPECT_EQ(uncounted.Observe({Of(1, 518 + counted - 8, counted)}), MiB(518))
        << "8 MiB came after the driver's figure";
  for (int i = 0; i < 3; ++i) uncounted.Observe({Of(1, 3420, 2900)});
  EXPECT_EQ(uncounted.Observe({Of(1, 3520, 3000)}), MiB(520)) << "its code";
}

TEST(UncountedMemoryEstimator, OfAProgramThatNeverRestsIsWhatWasSeenLast) {
  UncountedMemoryEstimator uncounted;
  for (int i = 0; i < 6; ++i) uncounted.Observe({Of(1, 618, 100)});
  base::Bytes last;
  for (std::uint64_t i = 0; i < 60; ++i)
    last = uncounted.Observe({Of(1, 400 + 100 * (i % 7), 100 * (i % 7))});
  EXPECT_EQ(last, MiB(400)) << "a context of it is gone, and it has allocated and freed since";
}

TEST(UncountedMemoryEstimator, LastsWhereThreeSamplesShowIt) {
  UncountedMemoryEstimator uncounted;
  uncounted.Observe({Of(1, 1118, 100)});
  EXPECT_EQ(uncounted.lasting(), MiB(0)) << "it may have freed memory since the driver was asked";
  uncounted.Observe({Of(1, 618, 100)});
  uncounted.Observe({Of(1, 618, 100)});
  EXPECT_EQ(uncounted.lasting(), MiB(518));
  uncounted.Observe({});
  EXPECT_EQ(uncounted.lasting(), MiB(0));
}

TEST(UncountedMemoryEstimator, StaysAsItWasWhileMemoryMoves) {
  UncountedMemoryEstimator uncounted;
  const auto moving = [](std::uint64_t shown, std::uint64_t counted) {
    auto sample = Of(1, shown, counted);
    sample.moving = true;
    return sample;
  };
  for (int i = 0; i < 6; ++i) uncounted.Observe({Of(1, 618, 100)});
  for (int i = 0; i < 9; ++i) EXPECT_EQ(uncounted.Observe({moving(530, 100)}), MiB(518)) << "on its way out";
  EXPECT_EQ(uncounted.Observe({Of(1, 518, 0)}), MiB(518)) << "out";
  for (int i = 0; i < 9; ++i) EXPECT_EQ(uncounted.Observe({moving(616, 0)}), MiB(518)) << "on its way back";
  EXPECT_EQ(uncounted.context(), MiB(518));
  UncountedMemoryEstimator fresh;
  EXPECT_EQ(fresh.Observe({moving(618, 0)}), MiB(0)) << "a checkpointed process that comes back";
  EXPECT_EQ(fresh.Observe({Of(1, 618, 100)}), MiB(518));
}

TEST(UncountedMemoryEstimator, StaysAsItWasWhereMemoryMovedBetweenTheDriversFigureAndTheLedgers) {
  std::uint64_t orders = 0;
  const auto after_an_order = [&](std::uint64_t shown, std::uint64_t counted) {
    auto sample = Of(1, shown, counted);
    sample.orders = ++orders;
    return sample;
  };
  UncountedMemoryEstimator uncounted;
  for (int i = 0; i < 5; ++i) uncounted.Observe({Of(1, 618, 100)});
  for (int i = 0; i < 9; ++i)
    EXPECT_EQ(uncounted.Observe({after_an_order(618, 0)}), MiB(518)) << "it was still there, and is away now";
  UncountedMemoryEstimator fresh;
  for (int i = 0; i < 9; ++i)
    EXPECT_EQ(fresh.Observe({after_an_order(618, 0)}), MiB(618)) << "nothing better";
  EXPECT_FALSE(fresh.context()) << "it would be too large by what moves";
  auto steady = Of(1, 518, 0);
  steady.orders = orders;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fresh.Observe({steady}), MiB(518));
  EXPECT_EQ(fresh.context(), MiB(518));
}

TEST(UncountedMemoryEstimator, IsNeverLessThanNothing) {
  UncountedMemoryEstimator uncounted;
  EXPECT_EQ(uncounted.Observe({Of(1, 10, 600)}), MiB(0)) << "managed memory that the driver does not show";
}

TEST(UncountedMemoryEstimator, LearnsWhatAContextCostsFromTheLeastOfAll) {
  UncountedMemoryEstimator uncounted;
  for (int i = 0; i < 5; ++i) uncounted.Observe({Of(1, 618, 100)});
  EXPECT_FALSE(uncounted.context()) << "not often enough";
  uncounted.Observe({Of(1, 618, 100)});
  EXPECT_EQ(uncounted.context(), MiB(518));
  for (int i = 0; i < 6; ++i) uncounted.Observe({Of(1, 700, 100), Of(2, 610, 100)});
  EXPECT_EQ(uncounted.context(), MiB(510));
  for (int i = 0; i < 6; ++i) uncounted.Observe({Of(3, 100, 100)});
  EXPECT_EQ(uncounted.context(), MiB(510)) << "no context at all";
}

}  // namespace
}  // namespace gpuman::ledger
