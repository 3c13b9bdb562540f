#include "share/lockstep_tracker.h"

#include <gtest/gtest.h>

namespace gpuman::share {
namespace {

using Way = LockstepTracker::Way;
using std::chrono::milliseconds;

base::ProcessId Process(pid_t pid) { return {pid, 1}; }

CallsByProcess Calls(std::uint64_t first, std::uint64_t second) {
  return {{Process(1), first}, {Process(2), second}};
}

unsigned BehindOf(const LockstepTracker& lockstep, std::uint64_t first, std::uint64_t second,
                  pid_t process = 2) {
  const auto behind = lockstep.Behind(Calls(first, second));
  return behind.empty() ? 999 : behind.at(Process(process));
}

LockstepTracker AfterTwoCuts() {
  LockstepTracker lockstep;
  lockstep.LearnCut(Calls(100, 70), Way::kNoCalls, milliseconds(1));
  lockstep.LearnCut(Calls(600, 570), Way::kNoCalls, milliseconds(1));
  return lockstep;
}

TEST(LockstepTracker, BeforeTheFirstCutAllHaveMadeEquallyManyCalls) {
  const LockstepTracker lockstep;
  EXPECT_EQ(BehindOf(lockstep, 100, 70), 30u);
  EXPECT_EQ(BehindOf(lockstep, 100, 100), 0u);
  EXPECT_EQ(BehindOf(lockstep, 100, 30), 999u) << "these are no such program";
  EXPECT_EQ(BehindOf(lockstep, 100, 0), 999u);
}

TEST(LockstepTracker, EqualNumbersThatWereEnoughAreThePlaces) {
  LockstepTracker lockstep;
  lockstep.LearnCut(Calls(100, 98), Way::kAligned, milliseconds(1));
  EXPECT_TRUE(lockstep.proven);
  EXPECT_EQ(BehindOf(lockstep, 200, 195), 5u);
}

TEST(LockstepTracker, NumbersOneCallApartAtACutCountAsEqual) {
  LockstepTracker lockstep;
  lockstep.LearnCut(Calls(100, 98), Way::kWithout, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 200, 198), 2u);
  lockstep.LearnCut(Calls(200, 199), Way::kNoCalls, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 300, 298), 2u);
}

TEST(LockstepTracker, IsWhatTheCutsSayWhereEqualNumbersWereNotEnoughTwice) {
  LockstepTracker lockstep;
  for (std::uint64_t calls = 100; calls < 300; calls += 100)
    lockstep.LearnCut(Calls(calls, calls - 3), Way::kAlignedAndMore, milliseconds(1));
  lockstep.LearnCut(Calls(300, 297), Way::kNoCalls, milliseconds(1));
  lockstep.LearnCut(Calls(400, 397), Way::kNoCalls, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 500, 497), 0u);
  for (std::uint64_t calls = 500; calls < 700; calls += 100)
    lockstep.LearnCut(Calls(calls, calls - 3), Way::kAlignedAndMore, milliseconds(1));
  for (std::uint64_t calls = 700; calls < 1200; calls += 100)
    lockstep.LearnCut(Calls(calls, calls - 3), Way::kNoCalls, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 1200, 1197), 3u) << "each has its turn";
}

TEST(LockstepTracker, ComparesPlacesAndNotNumbers) {
  const LockstepTracker lockstep = AfterTwoCuts();
  EXPECT_EQ(BehindOf(lockstep, 700, 670), 0u);
  EXPECT_EQ(BehindOf(lockstep, 700, 660), 10u);
  EXPECT_EQ(BehindOf(lockstep, 690, 670, 1), 10u);
}

TEST(LockstepTracker, DoesNotHoldWhereOneMakesMoreCallsThanAnother) {
  LockstepTracker lockstep;
  lockstep.LearnCut(Calls(100, 100), Way::kNoCalls, milliseconds(1));
  lockstep.LearnCut(Calls(600, 400), Way::kNoCalls, milliseconds(1));
  EXPECT_FALSE(lockstep.holds);
  lockstep.LearnCut(Calls(1600, 1400), Way::kNoCalls, milliseconds(1));
  EXPECT_TRUE(lockstep.holds) << "from now on they do the same";
}

TEST(LockstepTracker, SaysNothingOfOneThatIsFarBehindIsNewOrIsUnknown) {
  const LockstepTracker lockstep = AfterTwoCuts();
  EXPECT_EQ(BehindOf(lockstep, 1200, 670), 999u);
  EXPECT_EQ(BehindOf(lockstep, 700, 0), 999u);
  EXPECT_EQ(BehindOf(lockstep, 700, UINT64_MAX), 999u) << "a process may write anything";
  CallsByProcess three = Calls(700, 660);
  three[Process(3)] = 5;
  EXPECT_TRUE(lockstep.Behind(three).empty());
  EXPECT_TRUE(lockstep.Behind({{Process(1), 700}}).empty());
}

TEST(LockstepTracker, PlacesAreWhatMostOfTheLastCutsSay) {
  LockstepTracker lockstep;
  lockstep.usual = milliseconds(50);  // so what Behind says helps
  // At a cut each of them may be anywhere before its next collective.
  lockstep.LearnCut(Calls(100, 75), Way::kWithout, milliseconds(1));
  lockstep.LearnCut(Calls(600, 562), Way::kWithout, milliseconds(1));
  lockstep.LearnCut(Calls(700, 670), Way::kAlignedAndMore, milliseconds(1));
  lockstep.LearnCut(Calls(800, 770), Way::kAlignedAndMore, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 900, 870), 0u) << "30 apart, and not 25 or 38";
  lockstep.LearnCut(Calls(1000, 950), Way::kAlignedAndMore, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 1100, 1070), 0u) << "as most say";
}

TEST(LockstepTracker, NumbersThatAProcessMadeUpDoNoHarm) {
  LockstepTracker lockstep;
  for (const std::uint64_t number : {std::uint64_t{1} << 63, UINT64_MAX, std::uint64_t{1}, UINT64_MAX})
    for (int cut = 0; cut < 3; ++cut) lockstep.LearnCut(Calls(number, 5), Way::kWithout, milliseconds(1));
  lockstep.LearnCut({{Process(3), 7}}, Way::kWithout, milliseconds(1));
  lockstep.LearnCut({}, Way::kNoCalls, milliseconds(1));
  EXPECT_TRUE(lockstep.Behind(Calls(UINT64_MAX, 5)).empty());
}

TEST(LockstepTracker, RestartedLockstepLearnsItsPlacesAgain) {
  LockstepTracker lockstep;
  for (std::uint64_t cut = 1; cut < 5; ++cut)
    lockstep.LearnCut(Calls(100 * cut, 100 * cut), Way::kWithout, milliseconds(1));
  lockstep.LearnCut(Calls(1000, 600), Way::kWithout, milliseconds(1));
  EXPECT_FALSE(lockstep.holds);
  lockstep.LearnCut(Calls(1100, 700), Way::kWithout, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 1200, 800), 0u);
}

TEST(LockstepTracker, PlacesThatWereRightOnceAreDoubtedOnlyAfterTwoFailures) {
  LockstepTracker lockstep = AfterTwoCuts();
  lockstep.LearnCut(Calls(700, 670), Way::kAligned, milliseconds(1));
  for (std::uint64_t calls = 800; calls < 1200; calls += 100) {
    EXPECT_EQ(BehindOf(lockstep, calls, calls - 30), 0u) << "as before";
    lockstep.LearnCut(Calls(calls, calls - 10), Way::kNoCalls, milliseconds(1));
  }
  lockstep.LearnCut(Calls(1200, 1190), Way::kAlignedAndMore, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 1300, 1270), 0u) << "once may be chance";
  lockstep.LearnCut(Calls(1300, 1290), Way::kAlignedAndMore, milliseconds(1));
  lockstep.LearnCut(Calls(1400, 1390), Way::kNoCalls, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 1500, 1490), 0u) << "20 further than it seemed";
}

TEST(LockstepTracker, ACutWithoutCallsLeavesThePlaces) {
  LockstepTracker lockstep = AfterTwoCuts();
  lockstep.LearnCut(Calls(700, 680), Way::kNoCalls, milliseconds(1));
  EXPECT_EQ(BehindOf(lockstep, 800, 780, 1), 10u);
}

TEST(LockstepTracker, PausesLongerEachTimeItDidNotHelp) {
  LockstepTracker lockstep = AfterTwoCuts();
  std::uint64_t calls = 700;
  lockstep.LearnCut(Calls(calls, calls), Way::kAlignedAndMore, milliseconds(9));
  EXPECT_NE(BehindOf(lockstep, calls + 10, calls), 999u) << "once may be chance";
  for (const int pause : {1, 2, 4}) {
    calls += 100;
    lockstep.LearnCut(Calls(calls, calls), Way::kAlignedAndMore, milliseconds(9));
    for (int i = 0; i < pause; ++i) {
      EXPECT_EQ(BehindOf(lockstep, calls + 10, calls), 999u) << pause;
      calls += 100;
      lockstep.LearnCut(Calls(calls, calls), Way::kWithout, milliseconds(1));
    }
    EXPECT_NE(BehindOf(lockstep, calls + 10, calls), 999u) << pause;
  }
}

// They are not known to be in lockstep yet, so Behind is not asked.
LockstepTracker WhereACutTakesFiftyMilliseconds() {
  LockstepTracker lockstep;
  lockstep.LearnCut(Calls(300, 100), Way::kWithout, milliseconds(50));
  lockstep.LearnCut(Calls(400, 200), Way::kWithout, milliseconds(50));
  lockstep.LearnCut(Calls(600, 600), Way::kNoCalls, milliseconds(50));
  lockstep.LearnCut(Calls(700, 700), Way::kNoCalls, milliseconds(50));
  return lockstep;
}

TEST(LockstepTracker, CountsAsNoHelpWhereItTakesLongerThanWithout) {
  LockstepTracker lockstep = WhereACutTakesFiftyMilliseconds();
  lockstep.LearnCut(Calls(800, 800), Way::kAligned, milliseconds(62));
  EXPECT_EQ(lockstep.failures, 0u);
  lockstep.LearnCut(Calls(900, 900), Way::kAligned, milliseconds(63));
  EXPECT_EQ(lockstep.failures, 1u);
}

TEST(LockstepTracker, HelpedWhereMoreCallsWereNeededAndItTookNoLongerThanWithout) {
  LockstepTracker lockstep = WhereACutTakesFiftyMilliseconds();
  for (std::uint64_t calls = 800; calls < 2000; calls += 100)
    lockstep.LearnCut(Calls(calls, calls), Way::kAlignedAndMore, milliseconds(60));
  EXPECT_EQ(lockstep.failures, 0u);
  EXPECT_EQ(BehindOf(lockstep, 2010, 2000), 10u);
}

TEST(LockstepTracker, EasyCutsDoNotCountAsTheTimeWithout) {
  LockstepTracker lockstep = WhereACutTakesFiftyMilliseconds();
  for (std::uint64_t calls = 800; calls < 2000; calls += 100)
    lockstep.LearnCut(Calls(calls, calls), Way::kWithout, milliseconds(5));
  lockstep.LearnCut(Calls(2100, 2100), Way::kAligned, milliseconds(40));
  EXPECT_EQ(lockstep.failures, 0u);
}

}  // namespace
}  // namespace gpuman::share
