// Turn by turn, for each policy; scheduler_test.cc tests the whole.
#include "share/policy.h"

#include <gtest/gtest.h>

namespace gpuman::share {
namespace {

using base::GiB;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

constexpr base::MonoTime kNow{1h};

class SharePolicy : public testing::Test {
 protected:
  SharePolicy() {
    meter_.Add(100ms, {GiB(4), GiB(4)});  // a quantum of 2 s
    holder_.id = TenantId{1};
    holder_.activity = TenantActivity::kBusy;
    holder_.turn_since = kNow - 1s;
    waiter_.id = TenantId{2};
    waiter_.gate = GatePosition::kClosed;
    waiter_.activity = TenantActivity::kWaiting;
    waiter_.waiting_since = kNow - 1s;
    waiter_.parts["gpu"].demand.away = GiB(4);
  }
  // How long from now; max: only when something else happens.
  Span Leaves() {
    const base::MonoTime when = LeavesAt(holder_, waiter_, {settings_, meter_, kNow});
    return when == base::MonoTime::max() ? Span::max() : when - kNow;
  }

  SchedulerSettings settings_;
  HandOverCostEstimator meter_;
  Tenant holder_, waiter_;
};

// The holder has a turn of 2 s, which began 1 s ago, and the waiter is not behind.
class ShareInteractive : public SharePolicy {
 protected:
  ShareInteractive() { waiter_.waiting_since = kNow - 400ms; }
  void Decide() {
    const PolicyContext at{settings_, meter_, kNow};
    holder_.urgent = IsUrgent(holder_, at);
    waiter_.urgent = IsUrgent(waiter_, at);
  }
  static void WorksInShortBursts(Tenant& tenant) {
    for (int i = 0; i < 3; ++i) {
      tenant.rhythm.AddBurst(500ms);
      tenant.rhythm.AddGap(5s);
    }
  }
};

TEST_F(ShareInteractive, GetsInAfterItsWaitThoughTheTurnIsNotOver) {
  Decide();
  EXPECT_EQ(Leaves(), 1s) << "the rest of the turn";
  waiter_.options.interactive = true;
  Decide();
  EXPECT_EQ(Leaves(), 600ms) << "a second after it began to wait";
  settings_.interactive_wait = 300ms;
  EXPECT_EQ(Leaves(), 0ms);
}

TEST_F(ShareInteractive, IsLearnedFromShortBurstsAndLongGaps) {
  WorksInShortBursts(waiter_);
  waiter_.ahead = 1;  // so that it gets in for no other reason
  Decide();
  EXPECT_EQ(Leaves(), 600ms);
  waiter_.burst = 3s;  // longer than all before
  Decide();
  EXPECT_FALSE(waiter_.urgent);
}

TEST_F(ShareInteractive, LongBurstsOrShortGapsAreNotInteractive) {
  for (int i = 0; i < 3; ++i) {
    waiter_.rhythm.AddBurst(1500ms);
    waiter_.rhythm.AddGap(5s);
    holder_.rhythm.AddBurst(100ms);
    holder_.rhythm.AddGap(150ms);
  }
  EXPECT_TRUE((Decide(), holder_.urgent)) << "a gap, where its memory is there";
  holder_.parts["gpu"].demand.away = GiB(4);  // which takes 100 ms to move
  Decide();
  EXPECT_FALSE(waiter_.urgent);
  EXPECT_FALSE(holder_.urgent);
  holder_.parts.clear();
  settings_.idle = 200ms;
  EXPECT_FALSE((Decide(), holder_.urgent)) << "a gap that is no pause";
}

TEST_F(ShareInteractive, ThatSaysSoAndWorksForLongerThanATurnWaitsLikeAll) {
  waiter_.options.interactive = true;
  waiter_.burst = 2100ms;
  Decide();
  EXPECT_FALSE(waiter_.urgent);
}

TEST_F(ShareInteractive, GainsNoTime) {
  waiter_.options.interactive = true;
  waiter_.ahead = 4;
  Decide();
  EXPECT_TRUE(waiter_.urgent);
  waiter_.ahead = 4.1;  // more than two turns
  Decide();
  EXPECT_FALSE(waiter_.urgent);
}

TEST_F(ShareInteractive, LetsTheHolderHaveTheTimeThatItsMovingTook) {
  waiter_.options.interactive = true;
  waiter_.waiting_since = kNow - 5s;
  holder_.turn_since = kNow - 30ms;
  Decide();
  EXPECT_EQ(Leaves(), 70ms);
}

TEST_F(ShareInteractive, LetsAnotherInteractiveFinishItsBurstWithinTheShortestTurn) {
  waiter_.options.interactive = true;
  waiter_.waiting_since = kNow - 5s;
  WorksInShortBursts(holder_);
  holder_.burst = 300ms;
  holder_.turn_since = kNow - 300ms;
  Decide();
  EXPECT_EQ(Leaves(), 200ms);
  holder_.turn_since = kNow - 900ms;
  EXPECT_EQ(Leaves(), 100ms);
}

TEST_F(ShareInteractive, ComesFirstAmongThoseThatWait) {
  waiter_.options.interactive = true;
  waiter_.ahead = 1;
  Decide();
  EXPECT_TRUE(IsBefore(waiter_, holder_, PolicyKind::kFair));
  EXPECT_TRUE(IsBefore(waiter_, holder_, PolicyKind::kPriority));
  EXPECT_FALSE(IsBefore(waiter_, holder_, PolicyKind::kFcfs));
  holder_.options.priority = 1;
  EXPECT_FALSE(IsBefore(waiter_, holder_, PolicyKind::kPriority));
}

TEST_F(SharePolicy, FairIsBeforeWhoHadLessThenWhoWaitsForLonger) {
  holder_.ahead = 2;
  waiter_.ahead = 1;
  EXPECT_TRUE(IsBefore(waiter_, holder_, PolicyKind::kFair));
  waiter_.ahead = 2;
  holder_.waiting_since = kNow - 5s;
  EXPECT_TRUE(IsBefore(holder_, waiter_, PolicyKind::kFair));
}

TEST_F(SharePolicy, FirstComeIsBeforeWhoeverHadLess) {
  holder_.ahead = 100;
  holder_.waiting_since = kNow - 5s;
  EXPECT_TRUE(IsBefore(holder_, waiter_, PolicyKind::kFcfs));
  EXPECT_FALSE(IsBefore(waiter_, holder_, PolicyKind::kFcfs));
}

TEST_F(SharePolicy, ThePriorityIsBeforeAllElse) {
  waiter_.ahead = 100;
  waiter_.options.priority = 1;
  EXPECT_TRUE(IsBefore(waiter_, holder_, PolicyKind::kPriority));
  EXPECT_FALSE(IsBefore(waiter_, holder_, PolicyKind::kFair));
}

TEST_F(SharePolicy, OfTwoThatAreAlikeTheOlderJobIsFirst) {
  waiter_.waiting_since = holder_.waiting_since;
  EXPECT_TRUE(IsBefore(holder_, waiter_, PolicyKind::kFair));
  EXPECT_FALSE(IsBefore(waiter_, holder_, PolicyKind::kFair));
}

TEST_F(SharePolicy, ATurnIsLetComeToItsEnd) {
  holder_.ahead = 1;
  EXPECT_EQ(Leaves(), Span(1s));
  holder_.turn_since = kNow - 3s;
  EXPECT_EQ(Leaves(), Span(0s));
}

TEST_F(SharePolicy, AJobAheadWaitsUnderFairAndNotUnderFcfs) {
  waiter_.ahead = 10;
  holder_.turn_since = kNow - 3s;
  EXPECT_EQ(Leaves(), Span(2s)) << "the holder begins another turn";
  holder_.turn_since = kNow - 3s;
  settings_.policy = PolicyKind::kFcfs;
  EXPECT_EQ(Leaves(), Span(0s));
}

TEST_F(SharePolicy, ABurstThatSoonEndsIsLetComeToItsEndButNotForLongerThanTwoTurns) {
  holder_.ahead = 1;
  holder_.turn_since = kNow - 2s;
  holder_.burst = 2s;
  holder_.rhythm.AddBurst(3s);
  EXPECT_EQ(Leaves(), Span(1s));
  holder_.rhythm.AddBurst(30s);
  EXPECT_EQ(Leaves(), Span(0s)) << "that would be too long";
}

TEST_F(SharePolicy, AHolderThatIdlesLeavesAfterTheIdleTime) {
  holder_.activity = TenantActivity::kIdle;
  holder_.since = kNow - 20ms;
  EXPECT_EQ(Leaves(), Span(settings_.idle) - 20ms);
  holder_.since = kNow - 200ms;
  EXPECT_EQ(Leaves(), Span(0s));
}

TEST_F(SharePolicy, AHolderWhosePausesWereAllLongLeavesAtTheBeginOfTheNext) {
  holder_.activity = TenantActivity::kIdle;
  holder_.since = kNow - 20ms;
  holder_.rhythm.AddGap(5s);
  EXPECT_EQ(Leaves(), Span(settings_.idle) - 20ms) << "one tells nothing";
  holder_.rhythm.AddGap(5s);
  EXPECT_EQ(Leaves(), Span(0s));
  holder_.rhythm.AddGap(40ms);
  EXPECT_EQ(Leaves(), Span(settings_.idle) - 20ms) << "this may be a short one too";
}

TEST_F(SharePolicy, AGapThatUsuallyEndsBeforeTheMoveIsOverIsNoReasonToLeave) {
  holder_.activity = TenantActivity::kIdle;
  holder_.rhythm.AddGap(150ms);
  holder_.since = kNow - 120ms;
  EXPECT_EQ(Leaves(), Span(30ms)) << "asked again where it should have ended";
}

TEST_F(SharePolicy, TheHigherPriorityPushesOffAtOnceAndTheLowerNever) {
  settings_.policy = PolicyKind::kPriority;
  waiter_.options.priority = 1;
  EXPECT_EQ(Leaves(), Span(0s));
  waiter_.options.priority = -1;
  holder_.turn_since = kNow - 1h;
  EXPECT_EQ(Leaves(), Span::max());
}

TEST_F(SharePolicy, AVisitorGetsInAtOnceWhereItsVisitFitsIntoWhatItIsBehind) {
  holder_.ahead = 5;
  waiter_.rhythm.AddGap(10s);
  waiter_.rhythm.AddBurst(50ms);
  EXPECT_EQ(Leaves(), Span(0s));
  holder_.ahead = 0;
  EXPECT_GT(Leaves(), Span(0s));
  EXPECT_LT(Leaves(), Span(1s)) << "as soon as it is behind enough";
}

TEST_F(SharePolicy, AHolderThatEndsBeforeTheShortTurnWouldFinishes) {
  holder_.ahead = 5;
  holder_.rhythm.AddBurst(1200ms);
  holder_.burst = 1s;
  waiter_.rhythm.AddGap(10s);
  waiter_.rhythm.AddBurst(1s);
  EXPECT_EQ(Leaves(), Span(200ms)) << "asked again when it should be done";
  holder_.burst = 1300ms;
  EXPECT_EQ(Leaves(), Span(0s)) << "nobody knows for how long any more";
}

TEST_F(SharePolicy, AJobWithoutPausesGetsNoShortTurn) {
  holder_.ahead = 5;
  waiter_.rhythm.AddGap(50ms);
  waiter_.rhythm.AddBurst(50ms);
  EXPECT_EQ(Leaves(), Span(1s));
}

TEST_F(SharePolicy, FirstComeKnowsNoVisitors) {
  settings_.policy = PolicyKind::kFcfs;
  holder_.ahead = 5;
  waiter_.rhythm.AddGap(10s);
  waiter_.rhythm.AddBurst(50ms);
  EXPECT_EQ(Leaves(), Span(1s));
}

TEST_F(SharePolicy, ARunIsChargedByWeightAndAGapOnlyWhereSomebodyWaits) {
  holder_.options.weight = 2;
  Charge({&holder_, &waiter_}, 4s);
  EXPECT_DOUBLE_EQ(holder_.ahead, 2);
  EXPECT_DOUBLE_EQ(waiter_.ahead, 0);
  EXPECT_EQ(holder_.had_turn, Span(4s));
  holder_.activity = TenantActivity::kIdle;
  Charge({&holder_}, 4s);
  EXPECT_DOUBLE_EQ(holder_.ahead, 2);
  Charge({&holder_, &waiter_}, 4s);
  EXPECT_DOUBLE_EQ(holder_.ahead, 4);
}

TEST_F(SharePolicy, AnIdleJobSavesUpNoMoreThanItsCredit) {
  waiter_.activity = TenantActivity::kIdle;
  waiter_.ahead = -100;
  holder_.ahead = 3;
  Rebase({&holder_, &waiter_}, 2s);
  EXPECT_DOUBLE_EQ(holder_.ahead, 0);
  EXPECT_DOUBLE_EQ(waiter_.ahead, -kCredit * 2.0);
}

}  // namespace
}  // namespace gpuman::share
