#include "base/time_token_bucket.h"

#include <gtest/gtest.h>

namespace gpuman::base {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(TimeTokenBucket, AllowsSoMuchAtOnceAndAShareInTheLongRun) {
  TimeTokenBucket budget(milliseconds(100), 20);
  MonoTime now{};
  now += seconds(1000);
  int done = 0;
  for (; budget.Allows(now); ++done) budget.Spend(now, milliseconds(10));
  EXPECT_EQ(done, 10);
  int later = 0;
  for (int i = 0; i < 10'000; ++i, now += milliseconds(1))
    for (; budget.Allows(now); ++later) budget.Spend(now, milliseconds(10));
  EXPECT_NEAR(later, 50, 1) << "a twentieth of 10 s";
}

TEST(TimeTokenBucket, ALongTaskLeadsToALongWait) {
  TimeTokenBucket budget(milliseconds(100), 20);
  MonoTime now{};
  budget.Spend(now, seconds(1));
  EXPECT_FALSE(budget.Allows(now + seconds(17)));
  EXPECT_TRUE(budget.Allows(now + seconds(19)));
}

TEST(TimeTokenBucket, IdleTimeSavesNoAllowanceBeyondTheBound) {
  TimeTokenBucket budget(milliseconds(100), 20);
  MonoTime now{};
  now += std::chrono::hours(1);
  int done = 0;
  for (; budget.Allows(now); ++done) budget.Spend(now, milliseconds(10));
  EXPECT_EQ(done, 10);
}

}  // namespace
}  // namespace gpuman::base
