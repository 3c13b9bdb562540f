// Tests tenants whose work goes first: the rules, and their effect in the model of test_world.h.
#include "share/latency.h"

#include <gtest/gtest.h>

#include "share/seconds.h"
#include "share/test_world.h"

namespace gpuman::share {
namespace {

using base::GiB;

constexpr base::MonoTime kLatencyNow{1h};

class LatencyRules : public testing::Test {
 protected:
  LatencyRules() {
    server_.id = TenantId{1};
    server_.options.latency = true;
    training_.id = TenantId{2};
    training_.activity = TenantActivity::kBusy;
    for (Tenant* tenant : {&server_, &training_}) tenant->parts["gpu"];
    Server(TenantActivity::kBusy, kLatencyNow);
  }
  void Server(TenantActivity activity, base::MonoTime since) {
    server_.activity = activity;
    server_.since = since;
  }
  void Set() { UpdateHoldBack({&server_, &training_}, kLatencyNow); }
  Tenant server_, training_;
};

TEST_F(LatencyRules, OthersAreHeldBackWhileLatencyJobHasWork) {
  Set();
  EXPECT_TRUE(training_.held_back);
  EXPECT_TRUE(training_.paced);
  EXPECT_FALSE(server_.held_back);
  EXPECT_FALSE(server_.paced);
  Server(TenantActivity::kWaiting, kLatencyNow);
  Set();
  EXPECT_TRUE(training_.held_back);
}

TEST_F(LatencyRules, OthersArePacedForAWhileWhenLatencyJobHasNoWork) {
  Server(TenantActivity::kIdle, kLatencyNow - kPacedAfter + 1ms);
  Set();
  EXPECT_FALSE(training_.held_back);
  EXPECT_TRUE(training_.paced);
  EXPECT_EQ(NextHoldBackChange(server_, kLatencyNow), kLatencyNow + 1ms);
  Server(TenantActivity::kIdle, kLatencyNow - kPacedAfter);
  Set();
  EXPECT_FALSE(training_.paced);
  EXPECT_FALSE(NextHoldBackChange(server_, kLatencyNow));
}

TEST_F(LatencyRules, LatencyJobOfUnknownActivityHoldsNobodyBack) {
  Server(TenantActivity::kUnknown, kLatencyNow);
  Set();
  EXPECT_FALSE(training_.held_back);
}

TEST_F(LatencyRules, LatencyJobBeyondItsOverdraftDoesNotGoFirst) {
  server_.ahead = kLatencyOverdraft;
  Set();
  EXPECT_TRUE(training_.held_back);
  server_.ahead = 1.01 * kLatencyOverdraft;
  Set();
  EXPECT_FALSE(training_.held_back);
  EXPECT_TRUE(training_.paced);
  server_.options.weight = 0.5;
  Set();
  EXPECT_TRUE(training_.held_back) << "in GPU seconds it had half as much";
}

TEST_F(LatencyRules, LatencyJobsDoNotHoldEachOtherBack) {
  training_.options.latency = true;
  Set();
  EXPECT_FALSE(training_.held_back);
  EXPECT_FALSE(server_.held_back);
}

TEST_F(LatencyRules, JobsOnAnotherGpuAreNotHeldBack) {
  training_.parts = {{"other", {}}};
  Set();
  EXPECT_FALSE(training_.held_back);
  EXPECT_FALSE(training_.paced);
  EXPECT_FALSE(HaveLatencyTenant({&server_, &training_}));
}

TEST_F(LatencyRules, SuspendedLatencyJobHoldsNobodyBack) {
  server_.parked = true;
  Set();
  EXPECT_FALSE(training_.held_back);
  EXPECT_FALSE(HaveLatencyTenant({&server_, &training_}));
}

// --- In the model

Program Server(Span burst, Span gap) {
  return {.memory = {{"gpu", GiB(2)}}, .burst = burst, .gap = gap, .options = {.latency = true}};
}
Program Training(Span in_flight = {}) {
  return {.memory = {{"gpu", GiB(2)}}, .drain = 200us, .in_flight = in_flight};
}

class LatencyWorld : public testing::Test {
 protected:
  double Part(TenantId id, Span span) {
    const Span before = world_.job(id).computed;
    world_.RunFor(span);
    return Seconds(world_.job(id).computed - before) / Seconds(span);
  }
  World world_{{}, {{"gpu", GiB(16)}}, 55e9};
};

TEST_F(LatencyWorld, GateOfLatencyJobStaysOpenAndOtherHasTheRest) {
  const TenantId training = world_.Start(Training(80ms)), server = world_.Start(Server(5ms, 20ms));
  world_.RunFor(2s);
  const int closings = world_.job(server).closings;
  EXPECT_NEAR(Part(server, 10s), 0.2, 0.02);
  EXPECT_EQ(world_.job(server).closings, closings);
  // In each 25 ms the server works for 5, counts as idle a little later, and hand-overs take some time.
  EXPECT_GE(Part(training, 10s), 0.6);
  EXPECT_LE(Part(training, 10s), 0.85);
}

TEST_F(LatencyWorld, ViewHasTimeForWhichOthersWereHeldBack) {
  const TenantId training = world_.Start(Training()), server = world_.Start(Server(5ms, 20ms));
  const auto held = [this](TenantId id) {
    for (const auto& tenant : world_.Status("gpu").tenants)
      if (tenant.tenant == id) return tenant.held_others;
    return Span{};
  };
  world_.RunFor(2s);
  const Span before = held(server);
  EXPECT_NEAR(Part(training, 10s) + Seconds(held(server) - before) / 10, 1, 0.03);
  EXPECT_EQ(held(training), Span{});
  world_.End(training);
  const Span alone = held(server);
  world_.RunFor(10s);
  EXPECT_EQ(held(server), alone);
}

TEST_F(LatencyWorld, OtherRunsAfterShortPauseOfLatencyJob) {
  Program requests = Server(800us, 1ms);
  requests.options.weight = 4;  // so that it goes first all the time
  const TenantId training = world_.Start(Training()), server = world_.Start(requests);
  world_.RunFor(2s);
  EXPECT_EQ(world_.scheduler().WatchOf(server).idle, kLatencyIdle);
  EXPECT_EQ(world_.scheduler().WatchOf(training).idle, SchedulerSettings{}.idle);
  EXPECT_GE(Part(training, 10s), 0.38) << "of the pauses, which are 0.56, most";
}

TEST_F(LatencyWorld, OtherRunsFreelyWithoutRequestsToLatencyJob) {
  const TenantId training = world_.Start(Training()), server = world_.Start(Server(5ms, 60s));
  world_.RunFor(30s);
  const int closings = world_.job(training).closings;
  EXPECT_FALSE(world_.scheduler().WatchOf(training).paced);
  EXPECT_NEAR(Part(training, 20s), 1, 0.001);
  EXPECT_EQ(world_.job(training).closings, closings);
  EXPECT_EQ(world_.job(server).closings, 0);
}

TEST_F(LatencyWorld, OtherRunsBesideLatencyJobThatAlwaysWorks) {
  const TenantId server = world_.Start(Server(1h, {})), training = world_.Start(Training());
  EXPECT_GE(Part(training, 60s), 0.9);
  EXPECT_GE(Part(server, 10s), 0.9) << "in the model they do not slow each other down";
}

TEST_F(LatencyWorld, LatencyJobWithShareGoesFirstWithinIt) {
  Program server = Server(1h, {}), training = Training();
  server.options.compute = ComputeShare{0.3, false};
  training.options.compute = ComputeShare{0.7, false};
  const TenantId a = world_.Start(server), b = world_.Start(training);
  world_.RunFor(10s);
  EXPECT_NEAR(Part(a, 10s), 0.3, 0.03);
  EXPECT_NEAR(Part(b, 10s), 0.7, 0.03);
}

TEST_F(LatencyWorld, RemovedLatencyOptionHoldsNobodyBack) {
  const TenantId training = world_.Start(Training()), server = world_.Start(Server(5ms, 20ms));
  world_.RunFor(2s);
  world_.Feed(event::OptionsChanged{server, {}});
  world_.RunFor(1s);
  EXPECT_NEAR(Part(training, 10s), 1, 0.001);
}

TEST_F(LatencyWorld, LatencyJobGetsItsTurnAtOnceWhenMemoryDoesNotFit) {
  Program server = Server(100ms, 3s), training = Training(20ms);
  server.memory = {{"gpu", GiB(8)}};
  training.memory = {{"gpu", GiB(12)}};
  world_.Start(training);
  const TenantId id = world_.Start(server);
  world_.RunFor(120s);
  const auto& stood = world_.job(id).stood;
  ASSERT_GT(stood.size(), 10u);
  for (std::size_t i = 3; i < stood.size(); ++i) EXPECT_LE(stood[i], 300ms) << i;  // 8 GiB take 160 ms
}

TEST_F(LatencyWorld, ViewHasReasonWhyOtherWaits) {
  const TenantId training = world_.Start(Training(30ms)), server = world_.Start(Server(500ms, 500ms));
  bool told = false;
  for (int i = 0; i < 100 && !told; ++i) {
    world_.RunFor(37ms);
    for (const auto& tenant : world_.Status("gpu").tenants) {
      EXPECT_EQ(tenant.options.latency, tenant.tenant == server);
      told = told || (tenant.tenant == training && tenant.waits_for == "latency" && tenant.longest_unit);
    }
  }
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace gpuman::share
