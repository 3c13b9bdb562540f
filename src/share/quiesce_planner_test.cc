// The specification of QuiescePlanner, case by case.
#include "share/quiesce_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace gpuman::share {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using Kind = QuiesceDecision::Kind;
using testing::HasSubstr;
using testing::IsEmpty;

// "7" is process 7 on GPU 0, "7.1" on GPU 1.
ProcessGpuId Unit(const std::string& name) {
  const auto point = name.find('.');
  return {{static_cast<pid_t>(std::stoi(name)), 1},
          point == std::string::npos ? 0 : static_cast<unsigned>(std::stoul(name.substr(point + 1)))};
}

// Words as "1w 2g 3x 4 5r 6g#90": unit 1 works, 2 waits at its gate, 3 waits and cannot be granted calls, 4
// does neither, 5 waits for room, the process of 6 has made 90 calls.
QuiesceView View(const std::string& words) {
  QuiesceView view;
  view.all_shut = true;
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    const auto has = [&word](char what) { return word.find(what) != std::string::npos; };
    const std::uint64_t calls = has('#') ? std::stoull(word.substr(word.find('#') + 1)) : 0;
    view.units.push_back({Unit(word), has('w'), has('g') || has('x'), !has('x'), has('r'), calls});
  }
  return view;
}

class QuiescePlannerTest : public testing::Test {
 protected:
  QuiesceDecision Decide(const std::string& words, std::vector<GateCallResult> ended = {}) {
    QuiesceView view = View(words);
    view.ended = std::move(ended);
    return planner_.Decide(view, now_);
  }
  // After the view has stayed like that for `span`.
  QuiesceDecision After(Span span, const std::string& words, std::vector<GateCallResult> ended = {}) {
    Decide(words, std::move(ended));
    now_ += span;
    return Decide(words);
  }
  // "1x64 2x64": which units get grants, and of how many calls; with "/8" where that many pass between
  // looks, "!" careful, "b" behind.
  static std::string Grants(const QuiesceDecision& decision) {
    std::string said;
    for (const GateCallGrant& grant : decision.grants) {
      said += (said.empty() ? "" : " ") + std::to_string(grant.unit.process.pid);
      if (grant.unit.gpu != 0) said += "." + std::to_string(grant.unit.gpu);
      said += "x" + std::to_string(grant.calls);
      if (grant.stride > 0) said += "/" + std::to_string(1 << grant.stride);
      said += std::string(grant.careful ? "!" : "") + (grant.behind ? "b" : "");
    }
    return said;
  }
  // Unit 1 waits for unit 2; that is granted calls, and gets so far that it waits for unit 1.
  void Leap(Span patience = 1s) {
    std::string first = "1", second = "2";
    if (leaps_++ % 2 == 1) std::swap(first, second);
    EXPECT_THAT(Grants(After(patience, first + "w " + second + "g")), HasSubstr(second + "x"));
    Decide(first + "g " + second + "w", {{Unit(second), 1}});
  }
  void Restart(QuiesceHistory history) {
    now_ += 1min;
    planner_ = QuiescePlanner({}, std::move(history), now_, now_ + 100s);
    leaps_ = 0;
  }

  base::MonoTime now_{1h};
  // A long time, in which no limit that depends on it counts.
  QuiescePlanner planner_{{}, {}, now_, now_ + 100s};
  int leaps_ = 0;
};

// --- the cut

TEST_F(QuiescePlannerTest, RestsAsSoonAsNothingWorksAndAllGatesAreClosed) {
  EXPECT_EQ(Decide("1w 2g").kind, Kind::kWait);
  EXPECT_EQ(Decide("1 2g").kind, Kind::kRested);
}

TEST_F(QuiescePlannerTest, AJobWithoutAnyContextRests) { EXPECT_EQ(Decide("").kind, Kind::kRested); }

TEST_F(QuiescePlannerTest, DoesNotRestWhileAGateIsOpen) {
  QuiesceView view = View("1 2g");
  view.all_shut = false;
  EXPECT_EQ(planner_.Decide(view, now_).kind, Kind::kWait);
}

TEST_F(QuiescePlannerTest, DoesNotRestWhileAGrantIsOpen) {
  EXPECT_EQ(After(3ms, "1w 2g").kind, Kind::kGrant);
  EXPECT_EQ(After(1s, "1g 2g").kind, Kind::kWait);
  EXPECT_EQ(Decide("1g 2g", {{Unit("2"), 1}}).kind, Kind::kRested);
}

TEST_F(QuiescePlannerTest, StaysRestedAndStepsNobodyAnyMore) {
  Decide("1g 2g");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(After(200s, "1g 2g").kind, Kind::kRested);
}

TEST_F(QuiescePlannerTest, ACutThatDoesNotHoldFails) {
  Decide("1g 2g");
  EXPECT_EQ(Decide("1w 2g").kind, Kind::kFailed);
  EXPECT_EQ(After(1s, "1g 2g").kind, Kind::kFailed);
}

// --- which units are granted calls

TEST_F(QuiescePlannerTest, NothingIsDecidedBeforeTheViewHasStayedTheSame) {
  EXPECT_EQ(Decide("1w 2").kind, Kind::kWait);
  now_ += 2ms;
  const QuiesceDecision decision = Decide("1w 2g");
  EXPECT_EQ(decision.kind, Kind::kWait);
  EXPECT_EQ(decision.look_at, now_ + 3ms);
  now_ += 3ms;
  EXPECT_EQ(Decide("1w 2g").kind, Kind::kGrant);
}

TEST_F(QuiescePlannerTest, AllThatRestAndWaitAreGrantedCallsTogether) {
  EXPECT_EQ(Grants(After(3ms, "1w 2g 3 4wg 5g 6x")), "2x64 5x64");
}

TEST_F(QuiescePlannerTest, AProcessHasOneGrantAtATime) {
  EXPECT_EQ(Grants(After(3ms, "1w 2g 2.1g 3g")), "2x64 3x64");
  Decide("1w 2g 2.1g 3g", {{Unit("2"), 9}, {Unit("3"), 64}});
  EXPECT_EQ(Grants(After(3ms, "1w 2g 2.1g 3g")), "2.1x64 3x512/8") << "the unit that was granted fewer calls";
}

TEST_F(QuiescePlannerTest, AGrantIsWaitedForUnlessItsUnitWorks) {
  After(3ms, "1w 2g 3");
  EXPECT_EQ(After(1s, "1w 2g 3g").kind, Kind::kWait);
  EXPECT_EQ(Grants(After(3ms, "1w 2w 3g")), "3x64") << "the grant lets no call through while 2 works";
  EXPECT_EQ(Grants(After(3ms, "1w 2w 3w 4g", {{Unit("3"), 1}})), "4x64");
}

TEST_F(QuiescePlannerTest, TheGrantOfAProcessThatEndedIsOver) {
  After(3ms, "1w 2g 3g");
  Decide("1w 3g", {{Unit("3"), 64}});
  EXPECT_EQ(Decide("1 3g").kind, Kind::kRested);
}

TEST_F(QuiescePlannerTest, AUnitFarBehindMakesMoreCallsBetweenTwoLooks) {
  std::string before;
  const auto grants_after = [&](unsigned calls) {
    before = Grants(
        After(3ms, "1w 2g",
              calls == 0 ? std::vector<GateCallResult>{} : std::vector<GateCallResult>{{Unit("2"), calls}}));
    return before;
  };
  EXPECT_EQ(grants_after(0), "2x64");
  EXPECT_EQ(grants_after(15), "2x64");
  EXPECT_EQ(grants_after(1), "2x64/2");
  EXPECT_EQ(grants_after(16), "2x64/4");
  EXPECT_EQ(grants_after(32), "2x512/8");
  EXPECT_EQ(grants_after(512), "2x512/8");
  // It had to wait: that was all.
  EXPECT_EQ(Grants(After(3ms, "1w 2w 3g", {{Unit("2"), 40}})), "3x64");
  Decide("1w 2g 3w", {{Unit("3"), 1}});
  EXPECT_EQ(Grants(After(1s, "1w 2g 3w")), "2x64");
}

TEST_F(QuiescePlannerTest, AnOpenGateIsWaitedForFirst) {
  QuiesceView view = View("1wg 2g");
  view.all_shut = false;  // a stream is captured there
  planner_.Decide(view, now_);
  now_ += 49ms;
  EXPECT_EQ(planner_.Decide(view, now_).kind, Kind::kWait);
  now_ += 1ms;
  EXPECT_EQ(Grants(planner_.Decide(view, now_)), "2x64");
}

// --- phases

TEST_F(QuiescePlannerTest, AfterTwoLeapsUnitsAreGrantedCallsOneByOneAndAfterSixOneCall) {
  Leap();
  EXPECT_EQ(Grants(After(1s, "1g 2w 3g")), "1x64") << "which met 2 before";
  Decide("1w 2g 3g", {{Unit("1"), 1}});
  EXPECT_EQ(Grants(After(1s, "1w 2g 3g")), "2x64!");
  EXPECT_EQ(planner_.figures().leaps, 2u);
  Decide("1g 2w 3g", {{Unit("2"), 1}});
  leaps_ = 3;
  for (int i = 0; i < 3; ++i) Leap();
  EXPECT_EQ(Grants(After(10s, "1w 2g 3g")), "2x1!");
  EXPECT_EQ(planner_.figures().leaps, 6u);
}

TEST_F(QuiescePlannerTest, ARoundInWhichNobodyOvershotIsNoLeap) {
  After(3ms, "1w 2g");
  After(3ms, "1w 2wg", {{Unit("2"), 1}});  // nobody rests
  After(3ms, "1wg 2g 3g");                 // the granted unit rests
  EXPECT_EQ(planner_.figures().leaps, 0u);
}

TEST_F(QuiescePlannerTest, WithEachLeapAUnitHasToWorkLongerBeforeOthersAreGrantedCallsForIt) {
  Leap();
  EXPECT_EQ(After(5ms, "1g 2w").kind, Kind::kWait);
  EXPECT_EQ(After(1ms, "1g 2w").kind, Kind::kGrant);
}

TEST_F(QuiescePlannerTest, ThePatienceIsA64thOfTheLimitAtMost) {
  planner_ = QuiescePlanner({}, {}, now_, now_ + 640ms);
  for (int i = 0; i < 3; ++i) Leap(10ms);
  EXPECT_EQ(After(10ms, "1w 2g").kind, Kind::kGrant);
}

TEST_F(QuiescePlannerTest, OneByOneTheUnitWithTheFewestGrantedCallsIsNext) {
  Leap(), Leap();
  EXPECT_EQ(Grants(After(1s, "1w 3g 4g")), "3x64!");
  EXPECT_EQ(Grants(After(3ms, "1w 3g 4g", {{Unit("3"), 2}})), "4x64!");
  EXPECT_EQ(Grants(After(3ms, "1w 3g 4g", {{Unit("4"), 1}})), "4x64!");
  EXPECT_EQ(Grants(After(3ms, "1w 3g 4g", {{Unit("4"), 2}})), "3x64!");
}

// --- what is learned

TEST_F(QuiescePlannerTest, TheUnitThatFreedTheWorkingOneBeforeIsGrantedCalls) {
  EXPECT_EQ(Grants(After(3ms, "1w 3g")), "3x64");
  Decide("1g 3g", {{Unit("3"), 1}});
  Restart(std::move(planner_).Take());
  EXPECT_EQ(Grants(After(20s, "1w 2g 3g 4g")), "3x64");
}

TEST_F(QuiescePlannerTest, LinksAreFollowedThroughUnitsThatWork) {
  QuiesceHistory history;
  history.freed_by[Unit("1")][Unit("2")] = 8;
  history.freed_by[Unit("2")][Unit("4")] = 8;
  Restart(history);
  EXPECT_EQ(Grants(After(20s, "1w 2w 3g 4g")), "4x64");
}

TEST_F(QuiescePlannerTest, WeakLinksCountOnlyWithoutStrongOnes) {
  QuiesceHistory history;
  history.freed_by[Unit("1")] = {{Unit("2"), 16}, {Unit("3"), 6}};
  Restart(history);
  EXPECT_EQ(Grants(After(20s, "1w 2g 3g 4g")), "2x64");
}

TEST_F(QuiescePlannerTest, LinksThatDoNotHelpAreNotFollowedAlone) {
  QuiesceHistory history;
  history.freed_by[Unit("1")] = {{Unit("2"), 16}};
  Restart(history);
  QuiesceDecision decision = After(20s, "1w 2g 3g");
  for (int i = 0; i < 24; ++i) {
    EXPECT_EQ(decision.grants.size(), 1u);
    decision = After(3ms, "1w 2g 3g", {{Unit("2"), 1}});
  }
  EXPECT_THAT(Grants(decision), HasSubstr("3x64"));
}

TEST_F(QuiescePlannerTest, NothingIsLearnedWhereSeveralWereGrantedCalls) {
  After(3ms, "1w 2g 3g");
  Decide("1g 2g 3g", {{Unit("2"), 1}, {Unit("3"), 1}});
  EXPECT_THAT(std::move(planner_).Take().freed_by, IsEmpty());
}

TEST_F(QuiescePlannerTest, AnObservationIsForgottenAfterThreeAttempts) {
  After(3ms, "1w 3g");
  Decide("1g 3g", {{Unit("3"), 1}});
  for (int i = 0; i < 3; ++i) {
    QuiesceHistory history = std::move(planner_).Take();
    EXPECT_EQ(history.freed_by.size(), 2u);
    Restart(std::move(history));
  }
  EXPECT_THAT(std::move(planner_).Take().freed_by, IsEmpty());
}

TEST_F(QuiescePlannerTest, QueuesThatDrainAsUsualAreLeftToDrain) {
  Decide("1w 2w");
  now_ += 80ms;
  EXPECT_EQ(Decide("1 2g").kind, Kind::kRested);
  QuiesceHistory history = std::move(planner_).Take();
  EXPECT_EQ(history.usual, 80ms);
  Restart(std::move(history));
  EXPECT_EQ(After(99ms, "1w 2g").kind, Kind::kWait);
  EXPECT_EQ(After(1ms, "1w 2g").kind, Kind::kGrant);
}

TEST_F(QuiescePlannerTest, TheFirstStepIsMadeInTheFirstEighthOfTheTime) {
  QuiesceHistory history;
  history.usual = 1h;
  Restart(std::move(history));
  EXPECT_EQ(After(12499ms, "1w 2g").kind, Kind::kWait);
  EXPECT_EQ(After(1ms, "1w 2g").kind, Kind::kGrant);
}

// --- processes of one program

// Processes 1 to 3 were at the same place of their program after 100 calls of each.
QuiesceHistory InLockstep() {
  QuiesceHistory history;
  history.lockstep.holds = true;
  for (const pid_t process : {1, 2, 3}) history.lockstep.calls_at_cut[{process, 1}] = 100;
  return history;
}

TEST_F(QuiescePlannerTest, UnitBehindInLockstepMakesTheMissingCallsFirst) {
  Restart(InLockstep());
  EXPECT_EQ(Grants(After(3ms, "1wg#160 2wg#120 3g#159")), "2x40b 3x1b") << "also behind work";
  EXPECT_EQ(After(49ms, "1wg#160 2wg#130 3g#160", {{Unit("3"), 1}}).kind, Kind::kWait) << "2 is on its way";
  Decide("1wg#160 2wg#160 3wg#160", {{Unit("2"), 40}});
  EXPECT_EQ(Decide("1g#160 2g#160 3g#160").kind, Kind::kRested);
  EXPECT_EQ(planner_.figures().calls, 41u);
  EXPECT_EQ(planner_.figures().leaps, 0u);
}

TEST_F(QuiescePlannerTest, AHostThatWaitedForItsGpuOnTheWayMakesTheRestLater) {
  Restart(InLockstep());
  EXPECT_EQ(Grants(After(3ms, "1wg#160 2wg#120 3wg#160")), "2x40b");
  EXPECT_EQ(After(3ms, "1wg#160 2w#130 3wg#160", {{Unit("2"), 10}}).kind, Kind::kWait);
  EXPECT_EQ(Grants(After(3ms, "1wg#160 2g#130 3wg#160")), "2x30b");
}

TEST_F(QuiescePlannerTest, UnitsAtTheSamePlaceThatWaitAreGrantedAFewCallsTogether) {
  QuiesceHistory history = InLockstep();
  history.lockstep.proven = true;
  Restart(std::move(history));
  EXPECT_EQ(After(2ms, "1wg#160 2g#160 3wg#160").kind, Kind::kWait);
  EXPECT_EQ(Grants(After(1ms, "1wg#160 2g#160 3wg#160")), "1x8b 2x8b 3x8b");
  Decide("1wg#168 2wg#165 3wg#168", {{Unit("1"), 8}, {Unit("2"), 5}, {Unit("3"), 8}});
  EXPECT_EQ(Grants(After(3ms, "1wg#168 2wg#165 3wg#168")), "2x3b") << "its host had to wait";
  Decide("1wg#168 2wg#168 3wg#168", {{Unit("2"), 3}});
  EXPECT_EQ(Grants(After(3ms, "1wg#168 2g#168 3wg#168")), "1x8b 2x8b 3x8b") << "once more";
  Decide("1wg#176 2g#176 3wg#176", {{Unit("1"), 8}, {Unit("2"), 8}, {Unit("3"), 8}});
  EXPECT_EQ(Grants(After(3ms, "1wg#176 2g#176 3wg#176")), "2x64") << "and no more than that";
  Restart(InLockstep());
  EXPECT_EQ(Grants(After(3ms, "1wg#160 2g#160 3wg#160")), "2x64") << "it was never right before";
}

TEST_F(QuiescePlannerTest, UnitsOutOfLockstepGetUsualGrants) {
  for (const std::string words : {"1w#160 2g#120", "1w#160 2g#120 3g#0", "1w#900 2g#120 3g#120"}) {
    Restart(InLockstep());
    EXPECT_THAT(Grants(After(3ms, words)), HasSubstr("2x64")) << words;
  }
}

TEST_F(QuiescePlannerTest, LockstepRuleDoesNotApplyAtOpenGateOrDuringWaitForRoom) {
  Restart(InLockstep());
  QuiesceView view = View("1wg#160 2g#120 3g#160");
  view.all_shut = false;
  planner_.Decide(view, now_);
  now_ += 10ms;
  EXPECT_EQ(planner_.Decide(view, now_).kind, Kind::kWait);
  Restart(InLockstep());
  EXPECT_THAT(Grants(After(3ms, "1wr#160 2g#120 3g#160")), HasSubstr("2x64"));
}

TEST_F(QuiescePlannerTest, LockstepIsLearnedFromTwoCuts) {
  Restart({});
  Decide("1g#100 2g#90");
  Restart(std::move(planner_).Take());
  Decide("1g#300 2g#291");
  QuiesceHistory history = std::move(planner_).Take();
  EXPECT_TRUE(history.lockstep.holds);
  Restart(std::move(history));
  EXPECT_EQ(Grants(After(3ms, "1wg#340 2g#310")), "2x20b");
}

// --- behind work

TEST_F(QuiescePlannerTest, IfAllWorkEachProcessMayMakeACallBehindItsWorkNowAndThen) {
  EXPECT_EQ(After(249ms, "1wg 2w 3wg 3.1wg 4wx").kind, Kind::kWait);
  EXPECT_EQ(Grants(After(1ms, "1wg 2w 3wg 3.1wg 4wx")), "1x1b 3x1b");
  const std::vector<GateCallResult> ended{{Unit("1"), 1}, {Unit("3"), 1}};
  EXPECT_EQ(After(374ms, "1wg 2w 3wg 3.1wg 4wx", ended).kind, Kind::kWait);
  EXPECT_EQ(Grants(After(1ms, "1wg 2w 3wg 3.1wg 4wx")), "1x1b 3.1x1b");
}

TEST_F(QuiescePlannerTest, WhileAHostComputesOneUnitAtATimeMayMakeACallBehindItsWork) {
  EXPECT_EQ(Grants(After(50ms, "1wg 2 3wg")), "1x1b");
  EXPECT_EQ(After(99ms, "1wg 2 3wg", {{Unit("1"), 1}}).kind, Kind::kWait);
  EXPECT_EQ(Grants(After(1ms, "1wg 2 3wg")), "3x1b");
  EXPECT_EQ(Grants(After(200ms, "1wg 2 3wg", {{Unit("3"), 1}})), "1x1b");
}

TEST_F(QuiescePlannerTest, WithoutWaitingUnitNoCallIsGranted) {
  const QuiesceDecision decision = After(50s, "1w 2w 3");
  EXPECT_EQ(decision.kind, Kind::kWait);
  EXPECT_EQ(decision.look_at, now_ + 50s) << "the deadline";
}

TEST_F(QuiescePlannerTest, AUnitThatIsAloneIsLeftInPeace) {
  EXPECT_EQ(After(99s, "1wg").kind, Kind::kWait);
  EXPECT_EQ(Decide("1g").kind, Kind::kRested);
}

TEST_F(QuiescePlannerTest, WithoutStepsItWaitsUntilAllRestOrTheTimeIsOver) {
  planner_ = QuiescePlanner({.call_grants = false}, {}, now_, now_ + 100s);
  EXPECT_EQ(After(99s, "1w 2g").kind, Kind::kWait);
  EXPECT_EQ(Decide("1g 2g").kind, Kind::kRested);
  planner_ = QuiescePlanner({.call_grants = false}, {}, now_, now_ + 100s);
  EXPECT_EQ(After(100s, "1w 2g").kind, Kind::kFailed);
}

TEST_F(QuiescePlannerTest, CallsBehindWorkAreNoLeaps) {
  After(250ms, "1wg 2wg");
  Decide("1g 2wg", {{Unit("1"), 1}, {Unit("2"), 1}});
  EXPECT_EQ(Grants(After(1s, "1g 2wg")), "1x64");
  EXPECT_EQ(planner_.figures().leaps, 0u);
}

// --- failures

TEST_F(QuiescePlannerTest, FailsAtItsDeadline) {
  EXPECT_EQ(After(100s, "1w 2.1wg 3 4x 5g").kind, Kind::kFailed);
}

TEST_F(QuiescePlannerTest, FailsWhereAGateDoesNotClose) {
  QuiesceView view = View("1g");
  view.all_shut = false;
  now_ += 100s;
  EXPECT_EQ(planner_.Decide(view, now_).kind, Kind::kFailed);
}

TEST_F(QuiescePlannerTest, FailsAtOnceIfNoCutCanBe) {
  QuiesceView view = View("1w 2g");
  view.broken = true;
  EXPECT_EQ(planner_.Decide(view, now_).kind, Kind::kFailed);
  EXPECT_EQ(After(1s, "1w 2g").kind, Kind::kFailed) << "and grants nobody a call any more";
}

TEST_F(QuiescePlannerTest, FailsSoonWhereTheUnitThatOthersWaitForWaitsForRoom) {
  EXPECT_EQ(After(49ms, "1w 2r").kind, Kind::kWait);
  EXPECT_EQ(After(50ms, "1w 2r").kind, Kind::kFailed);
}

TEST_F(QuiescePlannerTest, UnitAtTheGateIsGrantedCallsThoughAnotherWaitsForRoom) {
  EXPECT_EQ(Grants(After(60ms, "1w 2r 3g")), "3x64");
  EXPECT_EQ(Decide("1 2r 3g", {{Unit("3"), 1}}).kind, Kind::kRested);
}

TEST_F(QuiescePlannerTest, ABrokenViewIsNotAtRest) {
  QuiesceView view = View("1 2g");
  view.broken = true;
  EXPECT_EQ(planner_.Decide(view, now_).kind, Kind::kFailed);
}

TEST_F(QuiescePlannerTest, CountsWhatItDid) {
  After(3ms, "1w 2g 3g");
  After(3ms, "1w 2g 3g", {{Unit("2"), 64}, {Unit("3"), 2}});
  now_ += 4ms;
  Decide("1 2g 3g", {{Unit("2"), 1}, {Unit("3"), 0}});
  EXPECT_EQ(planner_.figures().calls, 67u);
  EXPECT_EQ(planner_.figures().rounds, 2u);
  EXPECT_EQ(planner_.figures().took, 10ms);
}

}  // namespace
}  // namespace gpuman::share
