// Tests that the timer expires in time, and that it tells when the clock is set. The second part sets the
// machine's clock, so it runs only where GPUMAN_TEST_MAY_SET_CLOCK allows that (tools/own_machine_test.sh).
#include "daemon/queue/wall_clock_timer.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <chrono>

namespace gpuman::daemon {
namespace {

using namespace std::chrono_literals;

class WallClockTimerTest : public ::testing::Test {
 protected:
  static base::WallTime Now() {
    return std::chrono::time_point_cast<base::WallTime::duration>(std::chrono::system_clock::now());
  }
  // Runs the loop until the timer tells something, or there is nothing left to wait for.
  void Run() {
    const int before = told_;
    while (told_ == before) loop_.run_one();
  }

  boost::asio::io_context loop_;
  int told_ = 0;
  WallClockTimer timer_{loop_, [this] { ++told_; }};
};

TEST_F(WallClockTimerTest, FiresNotBeforeItsTime) {
  const auto at = Now() + 30ms;
  timer_.SetTime(at);
  Run();
  EXPECT_GE(Now(), at);
}

TEST_F(WallClockTimerTest, PastTimeFiresAtOnce) {
  for (const auto at : {Now() - 1h, base::WallTime{}, base::WallTime{} - 1h}) {
    timer_.SetTime(at);
    Run();
  }
  EXPECT_EQ(told_, 3);
}

TEST_F(WallClockTimerTest, NewTimeReplacesTheOneBefore) {
  timer_.SetTime(Now() - 1s);
  timer_.SetTime(Now() + 1h);
  loop_.poll();
  EXPECT_EQ(told_, 0);
  timer_.SetTime({});
  loop_.poll();
  EXPECT_EQ(told_, 0);
  timer_.SetTime(Now() + 1ms);
  Run();
}

TEST_F(WallClockTimerTest, FiresOncePerSetTime) {
  timer_.SetTime(Now());
  Run();
  loop_.poll();
  EXPECT_EQ(told_, 1);
}

TEST_F(WallClockTimerTest, DestroyedTimerDoesNotFire) {
  {
    WallClockTimer gone(loop_, [] { FAIL(); });
    gone.SetTime(Now() - 1s);
  }
  timer_.SetTime(Now() + 1ms);
  Run();
}

TEST_F(WallClockTimerTest, FiresWhenTheClockWasSet) {
  if (!getenv("GPUMAN_TEST_MAY_SET_CLOCK")) GTEST_SKIP() << "sets the machine's clock";
  const auto set = [](std::chrono::seconds by) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += by.count();
    ASSERT_EQ(clock_settime(CLOCK_REALTIME, &now), 0);
  };
  for (const auto by : {24h, -24h}) {
    timer_.SetTime(by > 0h ? std::optional<base::WallTime>() : Now() + 1h);
    set(by);
    Run();
  }
  // The clock is set before the timer is read; then the timer gets a new time.
  set(24h);
  timer_.SetTime(Now() + 1h);
  Run();
  timer_.SetTime(Now() + 1h);
  set(2h);  // past that time
  Run();
  set(-26h);
  EXPECT_EQ(told_, 4);
}

}  // namespace
}  // namespace gpuman::daemon
