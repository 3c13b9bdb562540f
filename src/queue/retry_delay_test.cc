#include "queue/retry_delay.h"

#include <gtest/gtest.h>

namespace gpuman::queue {
namespace {

using namespace std::chrono_literals;
using base::MonoTime;
using base::WallTime;

constexpr WallTime kNow{std::chrono::hours(24 * 365 * 56)};
constexpr MonoTime kMono{100h};

TEST(QueueRetryDelay, IsHeldByTheClockThatNobodySets) {
  const RetryDelay delay(kNow + 10min, 10min, kNow, kMono);
  EXPECT_EQ(delay.until(), kNow + 10min);
  EXPECT_EQ(delay.EndsAt(kNow + 4min, kMono + 4min), kNow + 10min);
  EXPECT_EQ(delay.EndsAt(kNow - 5h, kMono + 4min), kNow - 5h + 6min) << "set back";
  EXPECT_EQ(delay.EndsAt(kNow + 5h, kMono + 4min), kNow + 5h + 6min) << "set forward";
  EXPECT_EQ(delay.EndsAt(kNow - 5h, kMono + 11min), kNow - 5h - 1min) << "over stays over";
}

TEST(QueueRetryDelay, OfADaemonBeforeIsNeverLongerThanTheWholeFromNow) {
  const auto found = [](WallTime until) { return RetryDelay(until, 10min, kNow, kMono).EndsAt(kNow, kMono); };
  EXPECT_EQ(found(kNow + 3min), kNow + 3min);
  EXPECT_EQ(found(kNow + 5h), kNow + 10min);
  EXPECT_EQ(found(kNow - 5h), kNow - 5h);
}

}  // namespace
}  // namespace gpuman::queue
