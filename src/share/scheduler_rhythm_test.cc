// Tests how bursts and gaps of the work change the length of a turn, event by event like scheduler_test.cc.
#include "share/test_scheduler.h"

namespace gpuman::share {
namespace {

// Two tenants lack 100 MiB to fit together: a hand-over takes 20 ms, a quantum is 10 s.
class ShareRhythmOfTurns : public ShareScheduler {
 protected:
  static constexpr base::Bytes kEach = base::MiB(8242), kOver = base::MiB(100);

  ShareRhythmOfTurns() { Set(PolicyKind::kFair); }

  void Set(PolicyKind policy) { Tell(event::SettingsChanged{{.policy = policy, .quantum_min = 10s}}); }

  // A has worked for 5 s, B not at all, and both work without pause from now on.
  void BeginTwo(int priority = 0) {
    Join(kA, kEach, 1, priority);
    Tell(event::Joined{kB, {}, GatePosition::kClosed});
    Is(kB, TenantActivity::kIdle);
    Has(kB, kEach - kOver, kOver);
    Pass(5s);
    Is(kB, TenantActivity::kWaiting);
  }

  // A short burst and a long gap before any tenant has to wait, as in programs that load something first.
  void WarmUp(TenantId tenant) {
    Pass(200ms);
    Is(tenant, TenantActivity::kIdle);
    Pass(5s);
    Is(tenant, TenantActivity::kBusy);
  }

  // From the close of one to the open of the other. Behind its closed gate the first seems idle until it
  // waits there; nullopt: it is idle already.
  void HandOver(TenantId from, TenantId to, std::optional<Span> stands_after, bool stays_away = false) {
    CloseNow(from);
    if (stands_after) Is(from, TenantActivity::kIdle);
    Pass(stands_after.value_or(Span{}));
    if (stands_after && !stays_away) Is(from, TenantActivity::kWaiting);
    Pass(20ms - stands_after.value_or(Span{}));
    const auto evict = One<action::Evict>();
    EXPECT_EQ(evict.bytes, kOver);
    Tell(event::MovedOut{from, "gpu", kOver});
    Tell(event::EvictDone{from, "gpu", evict.order});
    Has(from, kEach - kOver, kOver);
    Said<action::MemoryGrant>();
    const auto restore = One<action::Restore>();
    EXPECT_EQ(restore.tenant, to);
    Tell(event::MovedIn{to, "gpu", kOver});
    Tell(event::RestoreDone{to, restore.order});
    Has(to, kEach);
    EXPECT_EQ(One<action::Open>().tenant, to);
    Is(to, TenantActivity::kBusy);
  }

  // Runs until a tenant has to leave, and returns how long that took.
  Span Turn() {
    const base::MonoTime begin = now_;
    const auto closes = [](const Action& action) { return std::holds_alternative<action::Close>(action); };
    while (std::none_of(said_.begin(), said_.end(), closes) && now_ < begin + 1h && !HasFailure()) Tick();
    return now_ - begin;
  }

  void ExpectFullTurns() {
    Turn();
    HandOver(kA, kB, 15ms);
    for (int turn = 0; turn < 12 && !HasFailure(); ++turn) {
      const bool first = turn % 2 == 0;
      EXPECT_GE(Turn(), Span(10s)) << turn;
      HandOver(first ? kB : kA, first ? kA : kB, 15ms);
    }
  }
};

// On the H200 they interrupted each other every 0.9 s, instead of after a turn of 6 s.
TEST_F(ShareRhythmOfTurns, TwoThatWorkWithoutPauseTakeTurnsOfTheFullQuantum) {
  BeginTwo();
  ExpectFullTurns();
}

TEST_F(ShareRhythmOfTurns, TwoThatPausedBeforeTakeTurnsOfTheFullQuantumWhateverTheirWeights) {
  Join(kA, kEach - kOver);
  Join(kB, kEach - kOver);
  for (int i = 0; i < 3; ++i) {
    WarmUp(kA);
    WarmUp(kB);
  }
  Has(kA, kEach - kOver, {}, kOver);
  EXPECT_EQ(One<action::MemoryGrant>().tenant, kA);
  Has(kA, kEach);
  Pass(1s);
  Has(kB, kEach - kOver, {}, kOver);
  // B waits for room, which A has to make.
  Turn();
  CloseNow(kA);
  Is(kA, TenantActivity::kWaiting);
  const auto evict = One<action::Evict>();
  Tell(event::MovedOut{kA, "gpu", evict.bytes});
  Tell(event::EvictDone{kA, "gpu", evict.order});
  Has(kA, kEach - kOver, kOver);
  EXPECT_EQ(One<action::MemoryGrant>().tenant, kB);
  Has(kB, kEach);
  Turn();
  HandOver(kB, kA, 15ms);
  Tell(event::OptionsChanged{kA, {.weight = 4}});
  ExpectFullTurns();
}

TEST_F(ShareRhythmOfTurns, APauseAtAShutGateCountsAsIdleAndGivesShortTurns) {
  Set(PolicyKind::kPriority);
  BeginTwo(/*priority=*/1);
  for (int turn = 0; turn < 3 && !HasFailure(); ++turn) {
    Is(kA, TenantActivity::kIdle);
    Turn();
    HandOver(kA, kB, std::nullopt);
    Pass(50ms);
    Is(kA, TenantActivity::kWaiting);
    HandOver(kB, kA, 0ms, /*stays_away=*/true);
    Pass(5s);
    Is(kB, TenantActivity::kWaiting);
  }
  EXPECT_TRUE(Said<action::Close>().empty());
  Set(PolicyKind::kFair);
  EXPECT_EQ(One<action::Close>().tenant, kA) << "half of its quantum";
}

}  // namespace
}  // namespace gpuman::share
