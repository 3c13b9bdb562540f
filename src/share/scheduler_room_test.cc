// Tests room for allocations that wait, event by event like scheduler_test.cc.
#include "share/test_scheduler.h"

namespace gpuman::share {
namespace {

TEST_F(ShareScheduler, AnAllocationThatFitsIsGrantedItsRoom) {
  Join(kA, GiB(8));
  Has(kA, GiB(8), {}, GiB(4));
  EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{kA, "gpu", GiB(4), false}));
  Join(kB, {});
  Has(kB, {}, {}, GiB(5));
  EXPECT_TRUE(Said<action::MemoryGrant>().empty()) << "promised to another";
}

TEST_F(ShareScheduler, ADemandThatCanNeverFitIsDeniedAtOnce) {
  Join(kA, GiB(8));
  Has(kA, GiB(8), {}, GiB(9));
  EXPECT_EQ(One<action::Deny>(), (action::Deny{kA, "gpu"}));
}

TEST_F(ShareScheduler, ADemandDeniedForAMomentIsGrantedAfterAll) {
  Join(kA, GiB(8));
  Tell(event::Joined{kB});
  Tell(event::DemandChanged{kB, {{"gpu", {{}, {}, GiB(8), {}}}}});
  Has(kA, GiB(8), {}, GiB(1));
  EXPECT_EQ(One<action::Deny>(), (action::Deny{kA, "gpu", true})) << "what is in the way may end";
  EXPECT_TRUE(scheduler_.IsDenied(kA));
  Tell(event::DemandChanged{kB, {{"gpu", {{}, {}, GiB(1), {}}}}});
  EXPECT_FALSE(scheduler_.IsDenied(kA));
  EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{kA, "gpu", GiB(1), false}));
}

TEST_F(ShareScheduler, ADemandIsNotDeniedDuringAHandOver) {
  Join(kA, GiB(8));
  Tell(event::Joined{kC});
  Tell(event::DemandChanged{kC, {{"gpu", {{}, {}, GiB(4), {}}}}});
  JoinAway(kB, GiB(8));
  Has(kA, GiB(8), {}, GiB(5));
  EXPECT_TRUE(scheduler_.IsDenied(kA));
  Pass(60s);
  Is(kB, TenantActivity::kWaiting);
  EXPECT_EQ(One<action::Close>().tenant, kA);
  Tell(event::Left{kC});
  EXPECT_FALSE(scheduler_.IsDenied(kA));
}

TEST_F(ShareScheduler, WhereADeadTenantsMemoryStillMovesNothingElseOfItIsLeft) {
  const auto pinned = [&] {
    const auto view = scheduler_.View(now_);
    for (const auto& each : view.gpus.at(0).tenants)
      if (each.tenant == kA) return each.demand.pinned;
    return GiB(99);
  };
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Pass(60s);
  Is(kB, TenantActivity::kWaiting);
  CloseNow(kA);
  EXPECT_EQ(One<action::Evict>().tenant, kA);
  Tell(event::DemandChanged{kA, {{"gpu", {GiB(10), {}, GiB(4), {}}}}});
  EXPECT_EQ(pinned(), GiB(4));
  Tell(event::DemandChanged{kA, {}});
  EXPECT_EQ(pinned(), base::Bytes{});
}

TEST_F(ShareScheduler, AllocationsOfOneSizeAreGrantedOneAfterTheOther) {
  Join(kA, GiB(8));
  Has(kA, GiB(8), {}, GiB(1));
  EXPECT_EQ(Said<action::MemoryGrant>().size(), 1u);
  Has(kA, GiB(8), {}, GiB(1));
  EXPECT_TRUE(Said<action::MemoryGrant>().empty()) << "it has not taken it yet";
  Tell(event::DemandChanged{kA, {{"gpu", {GiB(9), {}, {}, GiB(1)}}}, {"gpu"}});
  EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{kA, "gpu", GiB(1), false}));
}

TEST_F(ShareScheduler, AShutGateVoidsAGrantAndFreesItsRoom) {
  Join(kA, GiB(8));
  Join(kB, GiB(7));
  Pass(60s);
  Has(kB, GiB(7), {}, GiB(1));
  EXPECT_EQ(One<action::MemoryGrant>().tenant, kB);
  Has(kA, GiB(8), {}, GiB(1));
  while (std::none_of(said_.begin(), said_.end(),
                      [](const Action& action) { return std::holds_alternative<action::Close>(action); }))
    ASSERT_NO_FATAL_FAILURE(Tick());
  CloseNow(kB);
  EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{kA, "gpu", GiB(1), false}))
      << "B could not take it any more";
  EXPECT_EQ(scheduler_.View(now_).gpus.at(0).tenants.at(1).waits_for, "room");
}

TEST_F(ShareScheduler, RepeatedAllocationsDoNotRestartATurn) {
  Join(kA, GiB(10));
  JoinAway(kB, GiB(10));
  Is(kB, TenantActivity::kWaiting);
  std::vector<action::Close> closed;
  for (int i = 0; i < 1000 && closed.empty(); ++i) {
    Pass(100ms);
    Tell(event::Tick{});
    closed = Said<action::Close>();
    Has(kA, GiB(10), {}, base::MiB(1));
    Has(kA, GiB(10));
  }
  ASSERT_FALSE(closed.empty());
  EXPECT_EQ(closed.front().tenant, kA);
}

TEST_F(ShareScheduler, ForWhoAllocatesBitByBitOthersLeaveInGrowingPortions) {
  Join(kA, GiB(16));
  Join(kB, {});
  Is(kA, TenantActivity::kIdle);
  Pass(1s);
  base::Bytes has, left = GiB(16);
  std::vector<base::Bytes> leave;
  while (has < GiB(8)) {
    Tell(event::DemandChanged{kB, {{"gpu", {has, {}, {}, GiB(1)}}}, {"gpu"}});
    for (const auto& close : Said<action::Close>()) Tell(event::GateClosed{kA, close.order});
    for (const auto& evict : Said<action::Evict>()) {
      leave.push_back(evict.bytes);
      left = left - evict.bytes;
      Tell(event::MovedOut{kA, "gpu", evict.bytes});
      Tell(event::EvictDone{kA, "gpu", evict.order});
      Has(kA, left, GiB(16) - left);
    }
    EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{kB, "gpu", GiB(1), false}));
    has += GiB(1);
  }
  EXPECT_EQ(leave, (std::vector{GiB(1), GiB(2), GiB(3), GiB(4)}))
      << "as much again as it had to wait for before";
}

TEST_F(ShareScheduler, WhileMemoryLeavesForAnAllocationNobodyHasATurnAndAllOfTheTimeIsMoving) {
  Join(kA, GiB(16));
  Join(kB, {});
  Is(kA, TenantActivity::kIdle);
  Pass(1s);
  base::Bytes has, left = GiB(16);
  Span moving{};
  for (int portion = 0; portion < 3; ++portion) {
    Tell(event::DemandChanged{kB, {{"gpu", {has, {}, {}, base::GiB(1 << portion)}}}, {"gpu"}});
    for (const auto& close : Said<action::Close>()) Tell(event::GateClosed{kA, close.order});
    const auto before = scheduler_.View(now_).gpus.at(0);
    const auto evict = One<action::Evict>();
    Pass(10s);  // it takes long
    moving += 10s;
    const auto during = scheduler_.View(now_).gpus.at(0);
    EXPECT_TRUE(during.handing_over);
    EXPECT_EQ(during.moving, moving) << "also where nothing was heard meanwhile";
    EXPECT_GE(during.moving_share, before.moving_share);
    for (const std::size_t i : {0u, 1u})
      EXPECT_EQ(during.tenants.at(i).had_turn, before.tenants.at(i).had_turn) << i;
    left = left - evict.bytes;
    Tell(event::MovedOut{kA, "gpu", evict.bytes});
    Tell(event::EvictDone{kA, "gpu", evict.order});
    Has(kA, left, GiB(16) - left);
    EXPECT_EQ(scheduler_.View(now_).gpus.at(0).moving, moving);
    has += One<action::MemoryGrant>().bytes;
    Said<action::Open>();
    Tell(event::DemandChanged{kB, {{"gpu", {has, {}, {}, {}}}}, {"gpu"}});
  }
}

TEST_F(ShareScheduler, RoomThatWasPromisedBeforeTheCapacityWasKnownIsDeniedWhereThereIsNotSoMuch) {
  Tell(event::Joined{kA});
  Tell(event::DemandChanged{kA, {{"new", {{}, {}, {}, GiB(6)}}}, {}});
  EXPECT_EQ(One<action::MemoryGrant>().bytes, GiB(6));
  Tell(event::CapacityChanged{"new", GiB(4)});
  EXPECT_EQ(One<action::Deny>().gpu, "new");
  Tell(event::CapacityChanged{"new", GiB(8)});
  EXPECT_EQ(One<action::MemoryGrant>().bytes, GiB(6)) << "now there is";
}

TEST_F(ShareScheduler, AJobThatFitsNoMoreIsReportedOnceWhereThatLasts) {
  Tell(event::CapacityChanged{"gpu", GiB(8)});
  JoinAway(kA, GiB(10));
  Is(kA, TenantActivity::kWaiting);
  Pass(500ms);
  Tell(event::CapacityChanged{"gpu", GiB(12)});
  EXPECT_EQ(One<action::Restore>().tenant, kA);
  EXPECT_TRUE(Said<action::EventReport>().empty()) << "it was of a moment";

  Tell(event::CapacityChanged{"gpu", GiB(16)});
  JoinAway(kB, GiB(20));
  Is(kB, TenantActivity::kWaiting);
  Said<action::EventReport>();
  Pass(1min);
  Tell(event::Tick{});
  const auto report = One<action::EventReport>();
  EXPECT_EQ(report.tenant, kB);
  EXPECT_EQ(report.kind, "share_too_large");
  Tell(event::CapacityChanged{"gpu", GiB(15)});
  Pass(1min);
  Tell(event::Tick{});
  EXPECT_TRUE(Said<action::EventReport>().empty()) << "it is known";
}

}  // namespace
}  // namespace gpuman::share
