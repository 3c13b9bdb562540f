#include "keeper/run_clock.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace gpuman::keeper {
namespace {

using base::Millis;

base::MonoTime At(int ms) { return base::MonoTime(Millis(5000 + ms)); }
const TimeLimit kSecond{Millis(1000), SIGUSR1, Millis(200)};

TEST(RunClock, SaysNothingBeforeTheRunOrWithoutALimit) {
  EXPECT_FALSE(RunClock(kSecond).Due());
  RunClock unlimited{TimeLimit{}};
  unlimited.Start(At(0));
  EXPECT_FALSE(unlimited.Due());
  EXPECT_FALSE(unlimited.Expired(At(1'000'000)));
}

TEST(RunClock, WarnsOnceAndThenExpires) {
  RunClock clock(kSecond);
  clock.Start(At(0));
  EXPECT_EQ(clock.Due(), At(800));
  EXPECT_FALSE(clock.TakeWarning(At(799)));
  EXPECT_TRUE(clock.TakeWarning(At(800)));
  EXPECT_FALSE(clock.TakeWarning(At(801)));
  EXPECT_EQ(clock.Due(), At(1000));
  EXPECT_FALSE(clock.Expired(At(999)));
  EXPECT_TRUE(clock.Expired(At(1000)));
}

TEST(RunClock, StandsStillWhilePausedHoweverOften) {
  RunClock clock(kSecond);
  clock.Start(At(0));
  clock.Pause(true, At(500));
  clock.Pause(true, At(600));
  EXPECT_EQ(clock.Ran(At(9000)), Millis(500));
  EXPECT_FALSE(clock.Expired(At(9000)));
  clock.Pause(false, At(9000));
  clock.Pause(true, At(9100));
  clock.Pause(false, At(9500));
  EXPECT_EQ(clock.Due(), At(9700));
  clock.Start(At(20'000));
  EXPECT_EQ(clock.Ran(At(20'001)), Millis(1)) << "a new run has its whole time";
}

TEST(RunClock, WarnsAgainWhereALongerLimitLeavesTimeForIt) {
  RunClock clock(kSecond);
  clock.Start(At(0));
  EXPECT_TRUE(clock.TakeWarning(At(900)));
  clock.SetLimit(Millis(1050), At(900));
  EXPECT_FALSE(clock.TakeWarning(At(950))) << "the warning was given, and there is no time for another";
  clock.SetLimit(Millis(2000), At(950));
  EXPECT_EQ(clock.Due(), At(1800));
  EXPECT_TRUE(clock.TakeWarning(At(1800)));
}

TEST(RunClock, AWarningThatIsLongerThanTheLimitComesAtOnce) {
  RunClock clock(TimeLimit{Millis(100), SIGUSR1, Millis(5000)});
  clock.Start(At(0));
  EXPECT_TRUE(clock.TakeWarning(At(0)));
}

}  // namespace
}  // namespace gpuman::keeper
