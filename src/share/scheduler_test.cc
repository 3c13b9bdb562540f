// What the scheduler does, event by event. Reads as the specification of scheduler.h.
#include "share/scheduler.h"

#include <gmock/gmock.h>

namespace gpuman::share {
namespace {

using base::GiB;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

constexpr TenantId kA{1}, kB{2}, kC{3};

// Tells a scheduler of one GPU of 16 GiB what happens, and keeps what it says until it is looked at.
class ShareScheduler : public testing::Test {
 protected:
  ShareScheduler() { Tell(event::CapacityChanged{"gpu", GiB(16)}); }

  void Tell(const Event& event) {
    for (Action& action : scheduler_.On(event, now_)) said_.push_back(std::move(action));
  }
  void Pass(Span span) { now_ += span; }
  void Tick() {
    const auto deadline = scheduler_.Deadline();
    ASSERT_TRUE(deadline);
    now_ = std::max(now_, *deadline);
    Tell(event::Tick{});
  }
  void Has(TenantId tenant, base::Bytes resident, base::Bytes away = {}, base::Bytes wants = {}) {
    Tell(event::DemandIs{tenant, {{"gpu", {resident, away, {}, wants}}}});
  }
  // One that runs with so much.
  void Join(TenantId tenant, base::Bytes resident, double weight = 1, int priority = 0) {
    Tell(event::Joined{tenant, weight, priority});
    Has(tenant, resident);
    Is(tenant, Activity::kBusy);
  }
  // One whose memory is away, and that stands at its gate.
  void JoinAway(TenantId tenant, base::Bytes away, double weight = 1, int priority = 0) {
    Tell(event::Joined{tenant, weight, priority, Gate::kClosed});
    Tell(event::ActivityIs{tenant, Activity::kIdle, now_});
    Has(tenant, {}, away);
  }
  void Is(TenantId tenant, Activity activity) { Tell(event::ActivityIs{tenant, activity, now_}); }

  // What was said since the last look, without reports.
  template <typename Kind>
  std::vector<Kind> Said() {
    std::vector<Kind> found;
    std::vector<Action> rest;
    for (Action& action : said_) {
      if (auto* each = std::get_if<Kind>(&action))
        found.push_back(std::move(*each));
      else
        rest.push_back(std::move(action));
    }
    said_ = std::move(rest);
    return found;
  }
  template <typename Kind>
  Kind One() {
    std::vector<Kind> found = Said<Kind>();
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? Kind{} : found.front();
  }
  bool Silent() { return said_.empty(); }
  void CloseNow(TenantId tenant) {
    const auto close = One<action::Close>();
    EXPECT_EQ(close.tenant, tenant);
    Tell(event::Closed{tenant, close.order});
  }

  base::MonoTime now_{1h};
  Scheduler scheduler_{Settings{}};
  std::vector<Action> said_;
};

TEST_F(ShareScheduler, WhatFitsRunsAndNoTimerRuns) {
  Join(kA, GiB(8));
  Join(kB, GiB(8));
  EXPECT_TRUE(Silent());
  EXPECT_FALSE(scheduler_.Deadline());
  EXPECT_FALSE(scheduler_.IsContended("gpu"));
}

TEST_F(ShareScheduler, AnAllocationThatFitsIsGrantedItsRoom) {
  Join(kA, GiB(8));
  Has(kA, GiB(8), {}, GiB(4));
  EXPECT_EQ(One<action::Grant>(), (action::Grant{kA, "gpu", GiB(4), false}));
  Join(kB, {});
  Has(kB, {}, {}, GiB(5));
  EXPECT_TRUE(Said<action::Grant>().empty()) << "promised to another";
}

TEST_F(ShareScheduler, WhatCanNeverFitIsDeniedAtOnce) {
  Join(kA, GiB(8));
  Has(kA, GiB(8), {}, GiB(9));
  EXPECT_EQ(One<action::Deny>(), (action::Deny{kA, "gpu"}));
}

TEST_F(ShareScheduler, AtAHandOverOnlyWhatIsNeededLeavesAndBothDirectionsMoveAtOnce) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, Activity::kWaiting);
  // A's turn has long been over; B begins as soon as the first of A's memory has left.
  EXPECT_EQ(One<action::Bring>().tenant, kB);
  EXPECT_EQ(One<action::Grant>(), (action::Grant{kB, "gpu", GiB(6), true})) << "what is free";
  CloseNow(kA);
  const auto evict = One<action::Evict>();
  EXPECT_EQ(evict.tenant, kA);
  EXPECT_EQ(evict.bytes, GiB(4));
  Tell(event::MovedOut{kA, "gpu", GiB(1)});
  EXPECT_EQ(One<action::Grant>(), (action::Grant{kB, "gpu", GiB(1), true}));
  Tell(event::MovedOut{kA, "gpu", GiB(3)});
  EXPECT_EQ(One<action::Grant>().bytes, GiB(3));
  Tell(event::OutDone{kA, "gpu", evict.order});
  EXPECT_TRUE(Said<action::Open>().empty());
}

TEST_F(ShareScheduler, NobodyIsEvictedForOneThatIsIdle) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(1h);
  Tell(event::Tick{});
  EXPECT_TRUE(Silent());
}

TEST_F(ShareScheduler, WhoIsAwayAndIdleComesBackWhenThereIsRoom) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Tell(event::Left{kA});
  EXPECT_EQ(One<action::Bring>().tenant, kB);
}

TEST_F(ShareScheduler, AHolderThatIdlesGivesTheRestOfItsTurnAway) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Is(kB, Activity::kWaiting);
  EXPECT_TRUE(Silent()) << "its turn has only begun";
  Pass(10ms);
  Is(kA, Activity::kIdle);
  Tick();
  EXPECT_EQ(now_ - base::MonoTime{1h}, 10ms + Span(Settings{}.idle));
  EXPECT_EQ(One<action::Close>().tenant, kA);
}

TEST_F(ShareScheduler, WhoComesBackWhileItsMemoryIsThereRunsAtOnce) {
  Join(kA, GiB(10));
  Join(kB, GiB(4));
  Tell(event::Joined{kC, 1, 0, Gate::kClosed});
  Has(kC, GiB(2));
  EXPECT_EQ(One<action::Open>().tenant, kC);
}

TEST_F(ShareScheduler, TheHigherPriorityNeedsNotWaitForTheTurnToEnd) {
  Tell(event::SettingsChanged{{.policy = Policy::kPriority}});
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10), 1, /*priority=*/1);
  Is(kB, Activity::kWaiting);
  CloseNow(kA);
  Is(kA, Activity::kWaiting);
  const auto evict = One<action::Evict>();
  Tell(event::MovedOut{kA, "gpu", GiB(4)});
  Tell(event::OutDone{kA, "gpu", evict.order});
  const auto bring = One<action::Bring>();
  Tell(event::Back{kB, "gpu", GiB(10)});
  Tell(event::BackDone{kB, bring.order});
  EXPECT_EQ(One<action::Open>().tenant, kB);
  Said<action::Grant>();
  Pass(1h);
  Tell(event::Tick{});
  EXPECT_TRUE(Silent()) << "the lower waits";
}

TEST_F(ShareScheduler, AHolderThatDoesNotYieldIsToldOfAndThenHandledAsSet) {
  Tell(event::SettingsChanged{{.on_no_yield = OnNoYield::kSuspend}});
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, Activity::kWaiting);
  const auto close = One<action::Close>();
  EXPECT_EQ(close.deadline, now_ + Settings{}.yield_limit);
  Tick();
  EXPECT_EQ(One<action::Report>().kind, "share_not_yielded");
  EXPECT_EQ(One<action::Escalate>(), (action::Escalate{kA, OnNoYield::kSuspend}));
  EXPECT_EQ(One<action::StopBring>().tenant, kB) << "what it needs is not to be had";
  Tell(event::Suspended{kA});
  Said<action::Grant>();
  EXPECT_EQ(scheduler_.View(now_).gpus.at(0).tenants.at(0).suspended, true);
}

TEST_F(ShareScheduler, OneThatYieldsLateStillYields) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, Activity::kWaiting);
  const auto close = One<action::Close>();
  const auto bring = One<action::Bring>();
  Tick();
  EXPECT_TRUE(Said<action::Escalate>().empty()) << "on_no_yield is wait";
  Tell(event::BackDone{kB, bring.order, "stopped"});
  Tell(event::Closed{kA, close.order});
  EXPECT_EQ(One<action::Evict>().tenant, kA);
  EXPECT_EQ(One<action::Bring>().tenant, kB);
}

TEST_F(ShareScheduler, AnAnswerToAnOlderOrderIsNoAnswer) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, Activity::kWaiting);
  const auto close = One<action::Close>();
  Tell(event::Closed{kA, close.order + 1000});
  EXPECT_TRUE(Said<action::Evict>().empty());
}

TEST_F(ShareScheduler, WhoseMemoryCannotLeaveRunsOnAndTheOtherTriesAgainLater) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, Activity::kWaiting);
  CloseNow(kA);
  Tell(event::OutDone{kA, "gpu", One<action::Evict>().order, "no room in host memory"});
  EXPECT_EQ(One<action::Report>().kind, "share_move_failed");
  EXPECT_EQ(One<action::Open>().tenant, kA);
  Tell(event::BackDone{kB, One<action::Bring>().order, "stopped"});
  Pass(Settings{}.retry);
  Tell(event::Tick{});
  EXPECT_EQ(One<action::Close>().tenant, kA);
}

TEST_F(ShareScheduler, WhileItIsPausedNobodyHasToLeave) {
  Tell(event::SettingsChanged{{.pause = true}});
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Is(kB, Activity::kWaiting);
  Pass(1h);
  Tell(event::Tick{});
  EXPECT_TRUE(Silent());
  Tell(event::SettingsChanged{{}});
  EXPECT_EQ(One<action::Close>().tenant, kA);
}

TEST_F(ShareScheduler, InExclusiveModeWhoFitsTogetherTakesTurnsWithoutMoving) {
  Tell(event::SettingsChanged{{.compute = Compute::kExclusive}});
  Join(kA, GiB(2));
  Join(kB, GiB(2));
  const TenantId off = One<action::Close>().tenant;
  EXPECT_EQ(off, kB);
}

TEST_F(ShareScheduler, AJobOnTwoGpusMakesRoomOnBothOrNone) {
  Tell(event::CapacityChanged{"other", GiB(16)});
  Tell(event::Joined{kA});
  Tell(event::DemandIs{kA, {{"gpu", {GiB(10), {}, {}, {}}}, {"other", {GiB(10), {}, {}, {}}}}});
  Is(kA, Activity::kBusy);
  Tell(event::Joined{kB, 1, 0, Gate::kClosed});
  Tell(event::DemandIs{kB, {{"other", {{}, GiB(10), {}, {}}}}});
  Pass(60s);
  Is(kB, Activity::kWaiting);
  CloseNow(kA);
  const auto evict = One<action::Evict>();
  EXPECT_EQ(evict.gpu, "other");
  EXPECT_EQ(evict.bytes, GiB(4));
}

TEST_F(ShareScheduler, TheViewSaysWhoWaitsForWhatAndForHowLong) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Is(kB, Activity::kWaiting);
  Pass(100ms);
  const Snapshot view = scheduler_.View(now_);
  ASSERT_EQ(view.gpus.size(), 1u);
  const GpuStatus& gpu = view.gpus[0];
  EXPECT_EQ(gpu.capacity, GiB(16));
  EXPECT_EQ(gpu.demand, GiB(20));
  EXPECT_TRUE(gpu.contended);
  ASSERT_EQ(gpu.tenants.size(), 2u);
  EXPECT_TRUE(gpu.tenants[0].in_run_set);
  EXPECT_EQ(gpu.tenants[1].waits_for, "turn");
  EXPECT_EQ(gpu.tenants[1].waiting, 100ms);
  ASSERT_TRUE(gpu.quantum_left);
  EXPECT_GT(*gpu.quantum_left, 0s);
}

}  // namespace
}  // namespace gpuman::share
