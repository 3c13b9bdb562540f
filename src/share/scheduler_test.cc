// What the scheduler does, event by event: the specification of scheduler.h.
#include "share/test_scheduler.h"

namespace gpuman::share {
namespace {

TEST_F(ShareScheduler, JobsThatFitRunWithoutATimer) {
  Join(kA, GiB(8));
  Join(kB, GiB(8));
  EXPECT_TRUE(Silent());
  EXPECT_FALSE(scheduler_.Deadline());
  EXPECT_FALSE(scheduler_.IsContended("gpu"));
}

TEST_F(ShareScheduler, AtAHandOverOnlyWhatIsNeededLeavesAndBothDirectionsMoveAtOnce) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, TenantActivity::kWaiting);
  // A's turn has long been over; B begins as soon as the first of A's memory has left.
  EXPECT_EQ(One<action::Restore>().tenant, kB);
  EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{kB, "gpu", GiB(6), true})) << "what is free";
  CloseNow(kA);
  const auto evict = One<action::Evict>();
  EXPECT_EQ(evict.tenant, kA);
  EXPECT_EQ(evict.bytes, GiB(4));
  Tell(event::MovedOut{kA, "gpu", GiB(1)});
  EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{kB, "gpu", GiB(1), true}));
  Tell(event::MovedOut{kA, "gpu", GiB(3)});
  EXPECT_EQ(One<action::MemoryGrant>().bytes, GiB(3));
  Tell(event::EvictDone{kA, "gpu", evict.order});
  EXPECT_TRUE(Said<action::Open>().empty());
}

TEST_F(ShareScheduler, NobodyIsEvictedForOneThatIsIdle) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(1h);
  Tell(event::Tick{});
  EXPECT_TRUE(Silent());
}

TEST_F(ShareScheduler, AnIdleEvictedJobReturnsWhenThereIsRoom) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Tell(event::Left{kA});
  EXPECT_EQ(One<action::Restore>().tenant, kB);
}

TEST_F(ShareScheduler, AHolderThatIdlesGivesTheRestOfItsTurnAway) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Is(kB, TenantActivity::kWaiting);
  EXPECT_TRUE(Silent()) << "its turn has only begun";
  Pass(10ms);
  Is(kA, TenantActivity::kIdle);
  Tick();
  EXPECT_EQ(now_ - base::MonoTime{1h}, 10ms + Span(SchedulerSettings{}.idle));
  EXPECT_EQ(One<action::Close>().tenant, kA);
}

TEST_F(ShareScheduler, AJobWhoseMemoryIsThereRunsAtOnce) {
  Join(kA, GiB(10));
  Join(kB, GiB(4));
  Tell(event::Joined{kC, {}, GatePosition::kClosed});
  Has(kC, GiB(2));
  EXPECT_EQ(One<action::Open>().tenant, kC);
}

TEST_F(ShareScheduler, TheHigherPriorityNeedsNotWaitForTheTurnToEnd) {
  Tell(event::SettingsChanged{{.policy = PolicyKind::kPriority}});
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10), 1, /*priority=*/1);
  Is(kB, TenantActivity::kWaiting);
  CloseNow(kA);
  Is(kA, TenantActivity::kWaiting);
  const auto evict = One<action::Evict>();
  Tell(event::MovedOut{kA, "gpu", GiB(4)});
  Tell(event::EvictDone{kA, "gpu", evict.order});
  const auto restore = One<action::Restore>();
  Tell(event::MovedIn{kB, "gpu", GiB(10)});
  Tell(event::RestoreDone{kB, restore.order});
  EXPECT_EQ(One<action::Open>().tenant, kB);
  Said<action::MemoryGrant>();
  Pass(1h);
  Tell(event::Tick{});
  EXPECT_TRUE(Silent()) << "the lower waits";
}

TEST_F(ShareScheduler, CountsApartWhatHadToBeCopied) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, TenantActivity::kWaiting);
  CloseNow(kA);
  const auto evict = One<action::Evict>();
  EXPECT_EQ(evict.bytes, GiB(4));
  Tell(event::MovedOut{kA, "gpu", GiB(3), GiB(3)});
  Tell(event::MovedOut{kA, "gpu", GiB(1), base::MiB(768)});
  Tell(event::EvictDone{kA, "gpu", evict.order});
  const auto restore = One<action::Restore>();
  Tell(event::MovedIn{kB, "gpu", GiB(10), GiB(2)});
  Tell(event::RestoreDone{kB, restore.order});
  const auto gpu = scheduler_.View(now_).gpus.at(0);
  EXPECT_EQ(gpu.moved_out, GiB(4));
  EXPECT_EQ(gpu.copied_out, base::MiB(256));
  EXPECT_EQ(gpu.moved_in, GiB(10));
  EXPECT_EQ(gpu.copied_in, GiB(8));
}

TEST_F(ShareScheduler, CountsNoMoreAsCopiedThanAsMoved) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, TenantActivity::kWaiting);
  CloseNow(kA);
  Tell(event::MovedOut{kA, "gpu", GiB(30), GiB(31)});
  Tell(event::MovedOut{kA, "gpu", GiB(30)});
  const auto gpu = scheduler_.View(now_).gpus.at(0);
  EXPECT_EQ(gpu.moved_out, GiB(10));
  EXPECT_EQ(gpu.copied_out, base::Bytes{});
}

TEST_F(ShareScheduler, AHolderThatDoesNotYieldIsToldOfAndThenHandledAsSet) {
  Tell(event::SettingsChanged{{.on_no_yield = OnNoYield::kSuspend}});
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, TenantActivity::kWaiting);
  const auto close = One<action::Close>();
  EXPECT_EQ(close.deadline, now_ + SchedulerSettings{}.yield_limit);
  Tick();
  EXPECT_EQ(One<action::EventReport>().kind, "share_not_yielded");
  EXPECT_EQ(One<action::Open>().tenant, kA) << "it runs on until then";
  const auto escalate = One<action::Escalate>();
  EXPECT_EQ(std::pair(escalate.tenant, escalate.how), std::pair(kA, OnNoYield::kSuspend));
  EXPECT_FALSE(escalate.forced);
  EXPECT_EQ(One<action::CancelRestore>().tenant, kB) << "what it needs is not to be had";
  Tell(event::Suspended{kA});
  Said<action::MemoryGrant>();
  EXPECT_EQ(scheduler_.View(now_).gpus.at(0).tenants.at(0).suspended, true);
}

TEST_F(ShareScheduler, MemoryThatStandsStillOnItsWayOutIsToldOfOnceAndNobodyIsEndedForIt) {
  Tell(event::SettingsChanged{{.on_no_yield = OnNoYield::kEnd}});
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, TenantActivity::kWaiting);
  CloseNow(kA);
  const auto evict = One<action::Evict>();
  EXPECT_EQ(evict.tenant, kA);
  Pass(20s);
  Tell(event::MovedOut{kA, "gpu", GiB(1)});
  Pass(20s);
  Tell(event::Tick{});
  EXPECT_TRUE(Said<action::EventReport>().empty()) << "some of it left not long ago";
  Pass(60s);
  Tell(event::Tick{});
  const auto report = One<action::EventReport>();
  EXPECT_EQ(report.tenant, kA);
  EXPECT_EQ(report.kind, "share_not_yielded");
  Pass(60s);
  Tell(event::Tick{});
  EXPECT_TRUE(Said<action::EventReport>().empty());
  EXPECT_TRUE(Said<action::Escalate>().empty());
  Tell(event::MovedOut{kA, "gpu", GiB(9)});
  Tell(event::EvictDone{kA, "gpu", evict.order});
}

TEST_F(ShareScheduler, AResumedJobIsBroughtBackOnceItsSizeIsKnown) {
  Join(kA, GiB(4));
  Tell(event::Suspended{kA});
  Tell(event::Unsuspended{kA, GatePosition::kClosed});
  EXPECT_TRUE(Said<action::Restore>().empty());
  Has(kA, {}, GiB(6));
  EXPECT_EQ(One<action::Restore>().tenant, kA);
  EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{kA, "gpu", GiB(6), true}));
}

TEST_F(ShareScheduler, AnAnswerToAnOlderOrderIsNoAnswer) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, TenantActivity::kWaiting);
  const auto close = One<action::Close>();
  Tell(event::GateClosed{kA, close.order + 1000});
  EXPECT_TRUE(Said<action::Evict>().empty());
}

TEST_F(ShareScheduler, AfterAFailedEvictionTheJobRunsOnAndRetriesGetRarer) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, TenantActivity::kWaiting);
  const auto fail = [this] {
    CloseNow(kA);
    Tell(event::EvictDone{kA, "gpu", One<action::Evict>().order, "no room in host memory"});
    EXPECT_EQ(One<action::EventReport>().kind, "share_move_failed");
    EXPECT_EQ(One<action::Open>().tenant, kA);
    Tell(event::RestoreDone{kB, One<action::Restore>().order, "stopped"});
    Has(kA, GiB(10));
    Has(kB, {}, GiB(10));
  };
  fail();
  Pass(20s);  // its turn is over
  Tell(event::Tick{});
  for (int i = 0; i < 6; ++i) {
    fail();
    Pass(SchedulerSettings{}.retry);
    Tell(event::Tick{});
  }
  fail();
  Pass(SchedulerSettings{}.retry - 1ms);
  Tell(event::Tick{});
  EXPECT_TRUE(Said<action::Close>().empty());
  Pass(1ms);
  Tell(event::Tick{});
  EXPECT_EQ(One<action::Close>().tenant, kA);
}

TEST_F(ShareScheduler, OneThatHadLessToGiveIsAskedAgainAndToldOfOnlyWhereThatGoesOn) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, TenantActivity::kWaiting);
  std::size_t told = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(told, 0u);
    CloseNow(kA);
    Tell(event::EvictDone{kA, "gpu", One<action::Evict>().order});
    told = Said<action::EventReport>().size();
    Tell(event::RestoreDone{kB, One<action::Restore>().order, "stopped"});
    Has(kA, GiB(10));
    Has(kB, {}, GiB(10));
    Said<action::Open>();
    Pass(SchedulerSettings{}.retry);
    Tell(event::Tick{});
  }
  EXPECT_EQ(told, 1u);
}

TEST_F(ShareScheduler, CountsHowLongEachWaitedForItsTurns) {
  const auto waits = [&](TenantId tenant) {
    for (const TenantStatus& one : scheduler_.View(now_).gpus.at(0).tenants)
      if (one.tenant == tenant) return one.waits;
    return RecentWaits::Summary{};
  };
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, TenantActivity::kWaiting);
  const auto restore = One<action::Restore>();
  CloseNow(kA);
  Is(kA, TenantActivity::kIdle);  // what it does was not known when its gate closed
  const auto evict = One<action::Evict>();
  Pass(300ms);
  Tell(event::MovedOut{kA, "gpu", GiB(4)});
  Tell(event::EvictDone{kA, "gpu", evict.order});
  EXPECT_EQ(waits(kB).count, 0u) << "it waits still";
  Tell(event::MovedIn{kB, "gpu", GiB(10)});
  Tell(event::RestoreDone{kB, restore.order});
  EXPECT_EQ(One<action::Open>().tenant, kB);
  EXPECT_EQ(waits(kB).count, 1u);
  EXPECT_EQ(waits(kB).median, 300ms);
  EXPECT_EQ(waits(kB).longest, 300ms);
  EXPECT_EQ(waits(kA).count, 0u) << "it wants no turn";
}

TEST_F(ShareScheduler, WhileItIsPausedNobodyHasToLeave) {
  Tell(event::SettingsChanged{{.pause = true}});
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Is(kB, TenantActivity::kWaiting);
  Pass(1h);
  Tell(event::Tick{});
  EXPECT_TRUE(Silent());
  Tell(event::SettingsChanged{{}});
  EXPECT_EQ(One<action::Close>().tenant, kA);
}

TEST_F(ShareScheduler, InExclusiveModeWhoFitsTogetherTakesTurnsWithoutMoving) {
  Tell(event::SettingsChanged{{.compute = ConcurrencyMode::kExclusive}});
  Join(kA, GiB(2));
  Join(kB, GiB(2));
  const TenantId off = One<action::Close>().tenant;
  EXPECT_EQ(off, kB);
}

TEST_F(ShareScheduler, AJobOnTwoGpusMakesRoomOnBothOrNone) {
  Tell(event::CapacityChanged{"other", GiB(16)});
  Tell(event::Joined{kA});
  Tell(event::DemandChanged{kA, {{"gpu", {GiB(10), {}, {}, {}}}, {"other", {GiB(10), {}, {}, {}}}}});
  Is(kA, TenantActivity::kBusy);
  Tell(event::Joined{kB, {}, GatePosition::kClosed});
  Tell(event::DemandChanged{kB, {{"other", {{}, GiB(10), {}, {}}}}});
  Pass(60s);
  Is(kB, TenantActivity::kWaiting);
  CloseNow(kA);
  const auto evict = One<action::Evict>();
  EXPECT_EQ(evict.gpu, "other");
  EXPECT_EQ(evict.bytes, GiB(4));
}

TEST_F(ShareScheduler, TheViewSaysWhoWaitsForWhatAndForHowLong) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Is(kB, TenantActivity::kWaiting);
  Pass(100ms);
  const Snapshot view = scheduler_.View(now_);
  ASSERT_EQ(view.gpus.size(), 1u);
  const SharedGpuStatus& gpu = view.gpus[0];
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
