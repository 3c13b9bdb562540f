#include "queue/usage.h"

#include <gtest/gtest.h>

namespace gpuman::queue {
namespace {

using namespace std::chrono_literals;
using base::Millis;
using base::WallTime;

constexpr WallTime At(Millis time) { return WallTime(std::chrono::hours(24 * 365 * 50)) + time; }

TEST(QueueUsage, HalvesWithEachHalfLife) {
  AccountUsage usage;
  usage.Add({2, 1}, At(0s), At(10s), 24h);
  EXPECT_NEAR(usage.At(At(10s), 24h, 0), 20, 0.01);
  EXPECT_NEAR(usage.At(At(10s), 24h, 1), 10, 0.01);
  EXPECT_NEAR(usage.At(At(10s), 24h, 0.5), 15, 0.01);
  EXPECT_NEAR(usage.At(At(24h + 10s), 24h, 0), 10, 0.01);
  EXPECT_NEAR(usage.At(At(48h + 10s), 24h, 0), 5, 0.01);
}

TEST(QueueUsage, ALongRunIsTheSameInPiecesAndInAnyOrder) {
  AccountUsage whole, pieces;
  whole.Add({3, 2}, At(0h), At(30h), 10h);
  pieces.Add({3, 2}, At(20h), At(30h), 10h);
  pieces.Add({3, 2}, At(0h), At(20h), 10h);
  EXPECT_NEAR(whole.At(At(40h), 10h, 0.3), pieces.At(At(40h), 10h, 0.3), 0.001);
  EXPECT_LT(whole.gpu_seconds, 3 * 30 * 3600 * 0.5);
}

TEST(QueueUsage, AClockThatWasSetBackAddsNothing) {
  AccountUsage usage;
  usage.Add({1, 1}, At(10s), At(5s), 24h);
  EXPECT_EQ(usage.gpu_seconds, 0);
  usage.Add({1, 1}, At(0s), At(10s), 24h);
  EXPECT_NEAR(usage.At(At(-100h), 24h, 0), 10, 0.01);
}

TEST(QueueUsageWindow, ForgetsWhatIsOlder) {
  UsageWindow window(24h);
  EXPECT_EQ(window.Relief(), WallTime::max());
  window.Add(2, At(0h), At(1h));
  window.Add(1, At(10h), At(12h));
  EXPECT_NEAR(window.GpuSeconds(), 4 * 3600, 0.01);
  EXPECT_EQ(window.Relief(), At(24h + 15min));
  window.Forget(At(24h + 14min));
  EXPECT_NEAR(window.GpuSeconds(), 4 * 3600, 0.01);
  window.Forget(At(25h));
  EXPECT_NEAR(window.GpuSeconds(), 2 * 3600, 0.01);
  window.Forget(At(48h));
  EXPECT_EQ(window.GpuSeconds(), 0);
}

}  // namespace
}  // namespace gpuman::queue
