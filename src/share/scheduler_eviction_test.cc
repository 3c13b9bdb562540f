// Tests whose memory leaves when several tenants are idle, event by event like scheduler_test.cc, and what
// that gains in the model of test_world.h.
#include "share/test_scheduler.h"
#include "share/test_world.h"

namespace gpuman::share {
namespace {

// Requests of half a second to servers of 11.5 GiB on a GPU of 40 GiB, on a bus of 55 GB/s.
class SchedulerServers : public testing::Test {
 protected:
  static constexpr base::Bytes kMemory = base::MiB(11776);

  void Start(Span gap) {
    ids_.push_back(world_.Start({.memory = {{"gpu", kMemory}}, .burst = 500ms, .gap = gap}));
    world_.RunFor(1s);
  }
  // How long each request waited, shortest first, and the bytes that came in for each.
  struct Outcome {
    std::vector<Span> waits;
    double moved_in = 0;
  };
  Outcome Serve(Span time) {
    world_.RunFor(60s);
    std::map<TenantId, std::size_t> seen;
    const base::Bytes before = world_.Status("gpu").moved_in;
    std::size_t requests = 0;
    for (const TenantId id : ids_) seen[id] = world_.job(id).stood.size();
    std::map<TenantId, Span> computed;
    for (const TenantId id : ids_) computed[id] = world_.job(id).computed;
    world_.RunFor(time);
    Outcome outcome;
    for (const TenantId id : ids_) {
      const World::Job& job = world_.job(id);
      const auto done = static_cast<std::size_t>((job.computed - computed[id]) / 500ms);
      outcome.waits.insert(outcome.waits.end(), job.stood.begin() + static_cast<long>(seen[id]),
                           job.stood.end());
      requests += done;
    }
    outcome.waits.resize(std::max(requests, outcome.waits.size()));  // the others found all in place
    std::sort(outcome.waits.begin(), outcome.waits.end());
    outcome.moved_in =
        static_cast<double>((world_.Status("gpu").moved_in - before).count) / static_cast<double>(requests);
    return outcome;
  }
  World world_{{}, {{"gpu", base::GiB(40)}}, 55e9};
  std::vector<TenantId> ids_;
};

Span At(const std::vector<Span>& sorted, double quantile) {
  return sorted[static_cast<std::size_t>(quantile * static_cast<double>(sorted.size() - 1))];
}

// Where the one that rests longest gave all of the room, each request brought 11.2 GiB, and the one in a
// hundred waited for 672 ms.
TEST_F(SchedulerServers, ServersAskedInTurnEachGiveAPart) {
  for (const Span gap : {5000ms, 5200ms, 5500ms, 5700ms, 6000ms, 6500ms}) Start(gap);
  const Outcome outcome = Serve(600s);
  ASSERT_GT(outcome.waits.size(), 500u);
  EXPECT_LE(outcome.moved_in, 8.0 * (1 << 30));
  EXPECT_LE(At(outcome.waits, 0.5), 180ms);
  EXPECT_LE(At(outcome.waits, 0.99), 450ms);
}

TEST_F(SchedulerServers, BusyServersLoseNoMemoryToSeldomAskedServers) {
  for (const Span gap : {1000ms, 1400ms, 5500ms, 20700ms, 61000ms, 90000ms}) Start(gap);
  const Outcome outcome = Serve(1200s);
  ASSERT_GT(outcome.waits.size(), 1500u);
  EXPECT_LE(outcome.moved_in, 1.1 * (1 << 30));
  EXPECT_EQ(At(outcome.waits, 0.7), Span{});
}

class ShareSchedulerEviction : public ShareScheduler {
 protected:
  // A tenant that rests, with all of its memory on the GPU.
  void JoinResting(TenantId tenant, base::Bytes resident) {
    Join(tenant, resident);
    Is(tenant, TenantActivity::kIdle);
  }
  // A third tenant needs the room of two that rest; the gate of the first is closed. Returns both orders.
  std::vector<action::Close> CloseTheFirstOfTwo() {
    JoinResting(kA, GiB(8));
    JoinResting(kB, GiB(8));
    JoinAway(kC, GiB(6));
    Pass(60s);
    Is(kC, TenantActivity::kWaiting);
    auto closes = Said<action::Close>();
    if (!closes.empty()) Tell(event::GateClosed{closes[0].tenant, closes[0].order});
    return closes;
  }
};

TEST_F(ShareSchedulerEviction, TwoIdleJobsGiveHalfOfTheRoomEach) {
  const auto closes = CloseTheFirstOfTwo();
  ASSERT_EQ(closes.size(), 2u);
  const auto first = One<action::Evict>();
  EXPECT_EQ(first.bytes, GiB(3)) << "the other one's gate still closes, and it gives the rest";
  Tell(event::GateClosed{closes[1].tenant, closes[1].order});
  const auto second = One<action::Evict>();
  EXPECT_NE(second.tenant, first.tenant);
  EXPECT_EQ(second.bytes, GiB(3));
}

TEST_F(ShareSchedulerEviction, JobThatDoesNotYieldLeavesItsPartToTheOther) {
  const auto closes = CloseTheFirstOfTwo();
  ASSERT_EQ(closes.size(), 2u);
  const TenantId yields = closes[0].tenant;
  const auto first = One<action::Evict>();
  EXPECT_EQ(first.bytes, GiB(3));
  Tell(event::GateNotClosed{closes[1].tenant, closes[1].order, "its work did not end"});
  Tell(event::MovedOut{yields, "gpu", GiB(3)});
  Tell(event::EvictDone{yields, "gpu", first.order});
  Has(yields, GiB(5), GiB(3));
  const auto rest = One<action::Evict>();
  EXPECT_EQ(rest.tenant, yields);
  EXPECT_EQ(rest.bytes, GiB(3));
}

TEST_F(ShareSchedulerEviction, SeldomUsedJobLeavesAndOtherKeepsItsGateOpen) {
  JoinResting(kA, GiB(8));
  Pass(600s);
  JoinResting(kB, GiB(8));
  JoinAway(kC, GiB(6));
  Pass(10s);
  Is(kC, TenantActivity::kWaiting);
  CloseNow(kA);
  const auto evict = One<action::Evict>();
  EXPECT_EQ(evict.tenant, kA);
  EXPECT_EQ(evict.bytes, GiB(6));
  EXPECT_TRUE(Said<action::Close>().empty());
}

TEST_F(ShareSchedulerEviction, IdleJobStaysWhereAnotherLeavesAnywayAndGivesEnough) {
  Join(kA, GiB(8));
  JoinResting(kB, GiB(2));
  JoinAway(kC, GiB(14));
  Pass(60s);
  Is(kC, TenantActivity::kWaiting);
  const auto closes = Said<action::Close>();
  ASSERT_EQ(closes.size(), 1u);
  EXPECT_EQ(closes[0].tenant, kA);
}

TEST_F(ShareSchedulerEviction, IdleJobOfHigherPriorityOrWithoutAnswerGivesNothing) {
  SchedulerSettings settings;
  settings.policy = PolicyKind::kPriority;
  for (const bool answers : {true, false}) {
    scheduler_ = Scheduler{answers ? settings : SchedulerSettings{}};
    Tell(event::CapacityChanged{"gpu", GiB(16)});
    JoinResting(kA, GiB(7));
    Join(kB, GiB(8), 1, answers ? 200 : 0);
    Is(kB, TenantActivity::kIdle);
    JoinAway(kC, GiB(6), 1, answers ? 100 : 0);
    Pass(1h);
    if (!answers) Tell(event::ResponsivenessChanged{kB, false, "process 2 is stopped"});
    Said<action::Close>();
    Is(kC, TenantActivity::kWaiting);
    const auto closes = Said<action::Close>();
    ASSERT_EQ(closes.size(), 1u) << answers;
    EXPECT_EQ(closes[0].tenant, kA) << answers;
  }
}

TEST_F(ShareSchedulerEviction, FewMegabytesComeFromOneJob) {
  JoinResting(kA, GiB(8));
  JoinResting(kB, GiB(8));
  JoinAway(kC, base::MiB(600));
  Pass(60s);
  Is(kC, TenantActivity::kWaiting);
  EXPECT_EQ(Said<action::Close>().size(), 1u);
}

}  // namespace
}  // namespace gpuman::share
