#include "daemon/history/run_utilization.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

constexpr base::Millis kMinute{60'000};

TEST(RunUtilization, IsTheMeanOverTheTimeInWhichItWasKnown) {
  RunUtilization utilization;
  utilization.Add(30, 90);
  utilization.Add(10, 50);
  utilization.Add(20, std::nullopt);  // it waited for its turn
  EXPECT_EQ(utilization.Mean(kMinute), 80);
}

TEST(RunUtilization, IsUnknownWhereNothingWasMeasured) {
  RunUtilization utilization;
  EXPECT_EQ(utilization.Mean(base::Millis{0}), std::nullopt);
  utilization.Add(60, std::nullopt);
  EXPECT_EQ(utilization.Mean(kMinute), std::nullopt);
  utilization.Add(60, 0);
  EXPECT_EQ(utilization.Mean(kMinute), 0) << "0 is a figure";
}

TEST(RunUtilization, IsUnknownWhereLessThanHalfOfTheRunWasSeen) {
  RunUtilization utilization;
  utilization.Add(29, 90);
  EXPECT_EQ(utilization.Mean(kMinute), std::nullopt);
  utilization.Add(1, 90);
  EXPECT_EQ(utilization.Mean(kMinute), 90);
}

}  // namespace
}  // namespace gpuman::daemon
