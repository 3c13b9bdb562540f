// Whose turn lasts how long, by how its work comes and goes; as scheduler_test.cc.
#include "share/scheduler_fixture.h"

namespace gpuman::share {
namespace {

class ShareRhythmOfTurns : public ShareScheduler {
 protected:
  // Two of 10 GiB that began with a long silence, as programs do that load something first.
  void BeginTwo() {
    Join(kA, GiB(10));
    JoinAway(kB, GiB(10));
    Pass(30s);
    Is(kB, Activity::kWaiting);
  }

  // From the close of one to the open of the other, which takes 200 ms. The gate makes the one idle, until it
  // stands there.
  void HandOver(TenantId from, TenantId to, Span stands_after) {
    CloseNow(from);
    Is(from, Activity::kIdle);
    Pass(stands_after);
    Is(from, Activity::kWaiting);
    Pass(200ms - stands_after);
    const auto evict = One<action::Evict>();
    Tell(event::MovedOut{from, "gpu", evict.bytes});
    Tell(event::OutDone{from, "gpu", evict.order});
    Has(from, GiB(10) - evict.bytes, evict.bytes);
    base::Bytes granted;
    for (const auto& grant : Said<action::Grant>()) granted += grant.bytes;
    const auto bring = One<action::Bring>();
    EXPECT_EQ(bring.tenant, to);
    Tell(event::Back{to, "gpu", granted});
    Tell(event::BackDone{to, bring.order});
    Has(to, GiB(10));
    EXPECT_EQ(One<action::Open>().tenant, to);
    Is(to, Activity::kBusy);
  }

  // Until somebody has to leave; how long that was.
  Span Turn() {
    const base::MonoTime begin = now_;
    while (std::none_of(said_.begin(), said_.end(),
                        [](const Action& action) { return std::holds_alternative<action::Close>(action); })) {
      if (now_ > begin + 1h) {
        ADD_FAILURE() << "nobody leaves";
        break;
      }
      Tick();
    }
    return now_ - begin;
  }
};

// On the H200 they visited each other every 0.9 s, where a turn was 6 s.
TEST_F(ShareRhythmOfTurns, TwoThatWorkWithoutPauseTakeTurnsOfTheFullQuantum) {
  BeginTwo();
  const Span quantum = QuantumFor(200ms, Settings{});
  ASSERT_EQ(quantum, Span(4s));
  HandOver(kA, kB, 1ms);
  for (int turn = 0; turn < 12 && !HasFailure(); ++turn) {
    const bool first = turn % 2 == 0;
    EXPECT_GE(Turn(), quantum) << turn;
    HandOver(first ? kB : kA, first ? kA : kB, 1ms);
  }
}

TEST_F(ShareRhythmOfTurns, WhoStayedAwayFromItsGateForLongerThanTheIdleTimeHadAPause) {
  BeginTwo();
  HandOver(kA, kB, 1ms);
  Turn();
  HandOver(kB, kA, 1ms);
  // Now B is away from its gate until 10 s have passed, again and again: it is a visitor, and visits at once.
  for (int round = 0; round < 3; ++round) {
    Turn();
    HandOver(kA, kB, 1ms);
    Pass(50ms);
    Is(kB, Activity::kIdle);
    Turn();
    CloseNow(kB);
    Is(kA, Activity::kWaiting);
    const auto evict = One<action::Evict>();
    Tell(event::MovedOut{kB, "gpu", evict.bytes});
    Tell(event::OutDone{kB, "gpu", evict.order});
    Has(kB, GiB(10) - evict.bytes, evict.bytes);
    Said<action::Grant>();
    const auto bring = One<action::Bring>();
    Tell(event::Back{kA, "gpu", GiB(10)});
    Tell(event::BackDone{kA, bring.order});
    Has(kA, GiB(10));
    EXPECT_EQ(One<action::Open>().tenant, kA);
    Pass(10s);
    Is(kB, Activity::kWaiting);
  }
  EXPECT_EQ(One<action::Close>().tenant, kA) << "without a quantum's wait";
}

}  // namespace
}  // namespace gpuman::share
