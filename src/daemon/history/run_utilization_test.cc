#include "daemon/history/run_utilization.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

constexpr base::Millis kMinute{60'000};

TEST(RunUtilization, IsTheMeanOverTheTimeInWhichItWasKnown) {
  RunUtilization utilization;
  utilization.Add(30, 30, 90);
  utilization.Add(40, 10, 50);
  utilization.Add(60, 20, std::nullopt);  // it waited for its turn
  EXPECT_EQ(utilization.Mean(kMinute), 80);
}

TEST(RunUtilization, IsUnknownWhereNothingWasMeasured) {
  RunUtilization utilization;
  EXPECT_EQ(utilization.Mean(base::Millis{0}), std::nullopt);
  utilization.Add(60, 60, std::nullopt);
  EXPECT_EQ(utilization.Mean(kMinute), std::nullopt);
  utilization.Add(120, 60, 0);
  EXPECT_EQ(utilization.Mean(kMinute), 0) << "0 is a figure";
}

TEST(RunUtilization, IsUnknownWhereLessThanHalfOfTheRunWasSeen) {
  RunUtilization utilization;
  utilization.Add(29, 29, 90);
  EXPECT_EQ(utilization.Mean(kMinute), std::nullopt);
  utilization.Add(30, 1, 90);
  EXPECT_EQ(utilization.Mean(kMinute), 90);
}

TEST(RunUtilization, HasNothingOfTheTimeBeforeTheRun) {
  RunUtilization utilization(/*started=*/100, /*hold=*/2);
  utilization.Add(101, 1, 0);
  utilization.Add(102, 2, 0);
  EXPECT_EQ(utilization.Mean(base::Millis{1200}), std::nullopt) << "it was over before the driver knew of it";
  utilization.Add(104, 30, 100);
  EXPECT_EQ(utilization.Mean(base::Millis{6000}), 100);
  EXPECT_EQ(utilization.Mean(base::Millis{6100}), std::nullopt)
      << "two seconds of it count, whatever was asked";
}

// The last whole second of a run that is a little longer than six seconds may be unseen, too.
TEST(RunUtilization, IsKnownOfAShortRunThatWasSeenWhole) {
  RunUtilization utilization(/*started=*/100, /*hold=*/2);
  for (const std::int64_t second : {101, 102, 103, 104, 105}) utilization.Add(second, 1, 80);
  EXPECT_EQ(utilization.Mean(base::Millis{6250}), 80);
}

}  // namespace
}  // namespace gpuman::daemon
