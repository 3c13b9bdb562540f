#include "daemon/energy/holders.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using energy::Holders;

constexpr base::JobId kJobA{1}, kJobB{2};

TEST(Holders, RunningJobsHoldGpuInEqualParts) {
  EXPECT_EQ(HoldersOf({}), Holders{});
  EXPECT_EQ(HoldersOf({{.job = kJobB, .process = true}, {.job = kJobA, .process = true}}),
            (Holders{{kJobA}, {kJobB}}));
}

TEST(Holders, JobWithoutProcessHoldsOnlyWhereNoneHasOne) {
  EXPECT_EQ(HoldersOf({{.job = kJobA}}), Holders{{kJobA}}) << "it is about to begin";
  EXPECT_EQ(HoldersOf({{.job = kJobA}, {.job = kJobB, .process = true}}), Holders{{kJobB}});
}

TEST(Holders, PartsFollowWorkWhereItIsKnownOfAllJobs) {
  EXPECT_EQ(
      HoldersOf({{.job = kJobA, .process = true, .work = 75}, {.job = kJobB, .process = true, .work = 25}}),
      (Holders{{kJobA, 1.5}, {kJobB, 0.5}}));
  EXPECT_EQ(
      HoldersOf({{.job = kJobA, .process = true, .work = 75}, {.job = kJobB, .process = true, .work = 0}}),
      Holders{{kJobA}});
  EXPECT_EQ(HoldersOf({{.job = kJobA, .process = true, .work = 75}, {.job = kJobB, .process = true}}),
            (Holders{{kJobA}, {kJobB}}));
  EXPECT_EQ(
      HoldersOf({{.job = kJobA, .process = true, .work = 0}, {.job = kJobB, .process = true, .work = 0}}),
      (Holders{{kJobA}, {kJobB}}));
}

TEST(Holders, IdleJobHoldsOnlyWhereAllAreIdle) {
  EXPECT_EQ(HoldersOf({{.job = kJobA, .idle = true, .process = true}, {.job = kJobB, .process = true}}),
            Holders{{kJobB}});
  EXPECT_EQ(HoldersOf({{.job = kJobA, .idle = true, .process = true}}), Holders{{kJobA}});
}

TEST(Holders, MovingJobHoldsBesideRunningJobs) {
  EXPECT_EQ(HoldersOf({{.job = kJobB, .moves = true}, {.job = kJobA, .process = true}}),
            (Holders{{kJobA}, {kJobB, 1, true}}));
}

}  // namespace
}  // namespace gpuman::daemon
