#include "share/lockstep.h"

#include <gtest/gtest.h>

namespace gpuman::share {
namespace {

using Way = Lockstep::Way;
using std::chrono::milliseconds;

base::ProcessId Process(pid_t pid) { return {pid, 1}; }

CallsByProcess Calls(std::uint64_t first, std::uint64_t second) {
  return {{Process(1), first}, {Process(2), second}};
}

unsigned BehindOf(const Lockstep& lockstep, std::uint64_t first, std::uint64_t second, pid_t process = 2) {
  const auto behind = lockstep.Behind(Calls(first, second));
  return behind.empty() ? 999 : behind.at(Process(process));
}

Lockstep AfterTwoCuts() {
  Lockstep lockstep;
  lockstep.LearnCut(Calls(100, 70), Way::kNoCalls, milliseconds(1));
  lockstep.LearnCut(Calls(600, 570), Way::kNoCalls, milliseconds(1));
  return lockstep;
}

TEST(Lockstep, IsNotKnownBeforeTwoCuts) {
  Lockstep lockstep;
  EXPECT_EQ(BehindOf(lockstep, 100, 70), 999u);
  lockstep.LearnCut(Calls(100, 70), Way::kNoCalls, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 100, 70), 999u);
}

TEST(Lockstep, ComparesPlacesAndNotNumbers) {
  const Lockstep lockstep = AfterTwoCuts();
  EXPECT_EQ(BehindOf(lockstep, 700, 670), 0u);
  EXPECT_EQ(BehindOf(lockstep, 700, 660), 10u);
  EXPECT_EQ(BehindOf(lockstep, 690, 670, 1), 10u);
}

TEST(Lockstep, DoesNotHoldWhereOneMakesMoreCallsThanAnother) {
  Lockstep lockstep;
  lockstep.LearnCut(Calls(100, 100), Way::kNoCalls, milliseconds(1));
  lockstep.LearnCut(Calls(600, 400), Way::kNoCalls, milliseconds(1));
  EXPECT_FALSE(lockstep.holds);
  lockstep.LearnCut(Calls(1600, 1400), Way::kNoCalls, milliseconds(1));
  EXPECT_TRUE(lockstep.holds) << "from now on they do the same";
}

TEST(Lockstep, SaysNothingOfOneThatIsFarBehindIsNewOrIsUnknown) {
  const Lockstep lockstep = AfterTwoCuts();
  EXPECT_EQ(BehindOf(lockstep, 1200, 670), 999u);
  EXPECT_EQ(BehindOf(lockstep, 700, 0), 999u);
  EXPECT_EQ(BehindOf(lockstep, 700, UINT64_MAX), 999u) << "a process may write anything";
  CallsByProcess three = Calls(700, 660);
  three[Process(3)] = 5;
  EXPECT_TRUE(lockstep.Behind(three).empty());
  EXPECT_TRUE(lockstep.Behind({{Process(1), 700}}).empty());
}

TEST(Lockstep, ACutThatNeededMoreMovesThePlaces) {
  Lockstep lockstep = AfterTwoCuts();
  lockstep.LearnCut(Calls(700, 690), Way::kAlignedAndMore, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 800, 790), 0u) << "20 further than it seemed";
}

TEST(Lockstep, PlacesThatWereRightOnceAreDoubtedOnlyAfterTwoFailures) {
  Lockstep lockstep = AfterTwoCuts();
  lockstep.LearnCut(Calls(700, 670), Way::kAligned, milliseconds(1));
  lockstep.LearnCut(Calls(800, 790), Way::kAlignedAndMore, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 900, 870), 0u) << "as before";
  lockstep.LearnCut(Calls(900, 890), Way::kAlignedAndMore, milliseconds(1));
  lockstep.LearnCut(Calls(1000, 990), Way::kNoCalls, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 1100, 1090), 0u) << "20 further than it seemed";
}

TEST(Lockstep, ACutWithoutCallsLeavesThePlaces) {
  Lockstep lockstep = AfterTwoCuts();
  lockstep.LearnCut(Calls(700, 680), Way::kNoCalls, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 800, 780, 1), 10u);
}

TEST(Lockstep, PausesLongerEachTimeItDidNotHelp) {
  Lockstep lockstep = AfterTwoCuts();
  std::uint64_t calls = 700;
  lockstep.LearnCut(Calls(calls, calls), Way::kAlignedAndMore, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, calls + 10, calls), 10u) << "once may be chance";
  for (const int pause : {1, 2, 4}) {
    calls += 100;
    lockstep.LearnCut(Calls(calls, calls), Way::kAlignedAndMore, milliseconds(1));
    for (int i = 0; i < pause; ++i) {
      EXPECT_EQ(BehindOf(lockstep, calls + 10, calls), 999u) << pause;
      calls += 100;
      lockstep.LearnCut(Calls(calls, calls), Way::kWithout, milliseconds(1));
    }
    EXPECT_EQ(BehindOf(lockstep, calls + 10, calls), 10u) << pause;
  }
}

TEST(Lockstep, CountsAsNoHelpWhereItTakesLongerThanWithout) {
  Lockstep lockstep = AfterTwoCuts();
  lockstep.LearnCut(Calls(700, 700), Way::kWithout, milliseconds(50));
  lockstep.LearnCut(Calls(800, 800), Way::kAligned, milliseconds(62));
  EXPECT_EQ(lockstep.failures, 0u);
  lockstep.LearnCut(Calls(900, 900), Way::kAligned, milliseconds(63));
  EXPECT_EQ(lockstep.failures, 1u);
}

}  // namespace
}  // namespace gpuman::share
