// Memory that only the driver moves.
#include "share/test_scheduler.h"

namespace gpuman::share {
namespace {

class ManagedMemory : public ShareScheduler {
 protected:
  // A turn that is over begins anew where the waiter is not owed one yet.
  void TickUntilOneIsClosed() {
    const auto closes = [this] {
      return std::any_of(said_.begin(), said_.end(),
                         [](const Action& action) { return std::holds_alternative<action::Close>(action); });
    };
    for (int turns = 0; turns < 4 && !closes(); ++turns) Tick();
  }
};

TEST_F(ManagedMemory, JobTakesTurnsAndItsManagedMemoryIsNotMoved) {
  JoinManaged(kA, GiB(10));
  JoinManaged(kB, GiB(10), GatePosition::kClosed);
  EXPECT_TRUE(Silent()) << "its turn has only begun";
  EXPECT_TRUE(scheduler_.IsContended("gpu"));
  Tick();
  const auto close = One<action::Close>();
  EXPECT_EQ(close.tenant, kA);
  EXPECT_TRUE(Silent()) << "its pages are in use";
  Tell(event::GateClosed{kA, close.order});
  EXPECT_EQ(One<action::Open>().tenant, kB);
  EXPECT_TRUE(Silent());
  const auto shown = scheduler_.View(now_).gpus.at(0);
  EXPECT_EQ(shown.hand_overs, 1u);
  EXPECT_EQ(shown.hand_over_times.count(), 1u);
  EXPECT_DOUBLE_EQ(shown.hand_over_times.sum(), std::chrono::duration<double>(shown.moving).count());
  EXPECT_EQ(scheduler_.View(now_).gpus.at(0).moved_in.count, 0u);
}

TEST_F(ManagedMemory, JobThatFitsRunsAtOnce) {
  JoinManaged(kA, GiB(8));
  JoinManaged(kB, GiB(8));
  EXPECT_TRUE(Silent());
  EXPECT_FALSE(scheduler_.Deadline());
}

TEST_F(ManagedMemory, ATurnWithManagedMemoryIsAsLongAsItsPagingIsWorth) {
  JoinManaged(kA, GiB(10));
  const auto begin = now_;
  JoinManaged(kB, GiB(10), GatePosition::kClosed);
  Tick();
  const Span turn = QuantumFor(PagingTime(GiB(10)), SchedulerSettings{});
  EXPECT_GT(turn, 20s);
  EXPECT_EQ(now_ - begin, turn) << "nothing was measured yet";
  CloseNow(kA);
  EXPECT_EQ(scheduler_.View(now_).gpus.at(0).quantum, turn);
}

TEST_F(ManagedMemory, OthersLeaveForManagedMemoryAsFarAsIsNeeded) {
  Join(kA, GiB(10));
  JoinManaged(kB, GiB(10), GatePosition::kClosed);
  Tick();
  CloseNow(kA);
  Is(kA, TenantActivity::kWaiting);
  EXPECT_TRUE(Said<action::Open>().empty()) << "there is no room for it";
  const auto evict = One<action::Evict>();
  EXPECT_EQ(evict.bytes, GiB(4));
  Tell(event::MovedOut{kA, "gpu", GiB(4)});
  Tell(event::EvictDone{kA, "gpu", evict.order});
  EXPECT_EQ(One<action::Open>().tenant, kB);
  // On the way back, managed memory needs no order to leave once its gate is closed.
  Has(kA, GiB(6), GiB(4));
  TickUntilOneIsClosed();
  const auto restore = One<action::Restore>();
  EXPECT_EQ(restore.tenant, kA);
  CloseNow(kB);
  EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{kA, "gpu", GiB(4), true}));
  Tell(event::MovedIn{kA, "gpu", GiB(4)});
  Tell(event::RestoreDone{kA, restore.order});
  EXPECT_EQ(One<action::Open>().tenant, kA);
}

TEST_F(ManagedMemory, JobWithMoreThanTheGpuRunsWhenItCanHaveAllOfIt) {
  JoinManaged(kA, GiB(40));
  EXPECT_TRUE(Silent()) << "it is not too large";
  JoinManaged(kB, GiB(1), GatePosition::kClosed);
  Tick();
  CloseNow(kA);
  EXPECT_EQ(One<action::Open>().tenant, kB);
  Is(kA, TenantActivity::kWaiting);
  TickUntilOneIsClosed();
  CloseNow(kB);
  EXPECT_EQ(One<action::Open>().tenant, kA);
  EXPECT_TRUE(Said<action::EventReport>().empty());
}

TEST_F(ManagedMemory, AnAllocationOfManagedMemoryBeyondTheGpuIsDenied) {
  JoinManaged(kA, GiB(10));
  Tell(event::DemandChanged{kA, {{"gpu", {{}, {}, {}, GiB(6), GiB(10)}}}});
  EXPECT_EQ(One<action::MemoryGrant>().bytes, GiB(6));
  HasManaged(kA, GiB(16));
  Tell(event::DemandChanged{kA, {{"gpu", {{}, {}, {}, GiB(1), GiB(16)}}}});
  EXPECT_EQ(One<action::Deny>().tenant, kA);
}

TEST_F(ManagedMemory, AllJobsRunWhenTurnsForManagedMemoryAreOff) {
  JoinManaged(kA, GiB(10));
  JoinManaged(kB, GiB(10), GatePosition::kClosed);
  EXPECT_TRUE(Silent());
  Tell(event::SettingsChanged{{.managed_turns = false}});
  EXPECT_EQ(One<action::Open>().tenant, kB);
  EXPECT_FALSE(scheduler_.IsContended("gpu"));
  Tell(event::SettingsChanged{{}});
  EXPECT_EQ(Said<action::Close>().size(), 1u);
}

TEST_F(ManagedMemory, JobThatDoesNotYieldKeepsRoomOfItsManagedMemory) {
  JoinManaged(kA, GiB(10));
  JoinManaged(kB, GiB(10), GatePosition::kClosed);
  Tick();
  const auto close = One<action::Close>();
  Tick();
  EXPECT_EQ(One<action::EventReport>().kind, "share_not_yielded");
  EXPECT_EQ(One<action::Open>().tenant, kA);
  Tell(event::GateClosed{kA, close.order});
  EXPECT_TRUE(Said<action::Open>().empty()) << "it was let go of";
  Tick();
  CloseNow(kA);
  EXPECT_EQ(One<action::Open>().tenant, kB);
}

}  // namespace
}  // namespace gpuman::share
