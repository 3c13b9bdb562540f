#include "keeper/run_clock.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace gpuman::keeper {
namespace {

using base::Millis;

base::MonoTime MonoAt(int ms) { return base::MonoTime(Millis(5000 + ms)); }
const TimeLimit kSecond{Millis(1000), SIGUSR1, Millis(200)};

TEST(RunClock, SaysNothingBeforeTheRunOrWithoutALimit) {
  EXPECT_FALSE(RunClock(kSecond).Due());
  RunClock unlimited{TimeLimit{}};
  unlimited.Start(MonoAt(0));
  EXPECT_FALSE(unlimited.Due());
  EXPECT_FALSE(unlimited.Expired(MonoAt(1'000'000)));
}

TEST(RunClock, WarnsOnceAndThenExpires) {
  RunClock clock(kSecond);
  clock.Start(MonoAt(0));
  EXPECT_EQ(clock.Due(), MonoAt(800));
  EXPECT_FALSE(clock.TakeWarning(MonoAt(799)));
  EXPECT_TRUE(clock.TakeWarning(MonoAt(800)));
  EXPECT_FALSE(clock.TakeWarning(MonoAt(801)));
  EXPECT_EQ(clock.Due(), MonoAt(1000));
  EXPECT_FALSE(clock.Expired(MonoAt(999)));
  EXPECT_TRUE(clock.Expired(MonoAt(1000)));
}

TEST(RunClock, StandsStillWhilePausedHoweverOften) {
  RunClock clock(kSecond);
  clock.Start(MonoAt(0));
  clock.Pause(true, MonoAt(500));
  clock.Pause(true, MonoAt(600));
  EXPECT_EQ(clock.Ran(MonoAt(9000)), Millis(500));
  EXPECT_FALSE(clock.Expired(MonoAt(9000)));
  clock.Pause(false, MonoAt(9000));
  clock.Pause(true, MonoAt(9100));
  clock.Pause(false, MonoAt(9500));
  EXPECT_EQ(clock.Due(), MonoAt(9700));
  clock.Start(MonoAt(20'000));
  EXPECT_EQ(clock.Ran(MonoAt(20'001)), Millis(1)) << "a new run has its whole time";
}

TEST(RunClock, WarnsAgainWhereALongerLimitLeavesTimeForIt) {
  RunClock clock(kSecond);
  clock.Start(MonoAt(0));
  EXPECT_TRUE(clock.TakeWarning(MonoAt(900)));
  clock.SetLimit(Millis(1050), MonoAt(900));
  EXPECT_FALSE(clock.TakeWarning(MonoAt(950))) << "the warning was given, and there is no time for another";
  clock.SetLimit(Millis(2000), MonoAt(950));
  EXPECT_EQ(clock.Due(), MonoAt(1800));
  EXPECT_TRUE(clock.TakeWarning(MonoAt(1800)));
}

TEST(RunClock, AWarningThatIsLongerThanTheLimitComesAtOnce) {
  RunClock clock(TimeLimit{Millis(100), SIGUSR1, Millis(5000)});
  clock.Start(MonoAt(0));
  EXPECT_TRUE(clock.TakeWarning(MonoAt(0)));
}

}  // namespace
}  // namespace gpuman::keeper
