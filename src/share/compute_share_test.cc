// Tests shares of the GPU's time: the arithmetic, and the time of tenants in the model of test_world.h.
#include "share/compute_share.h"

#include <gtest/gtest.h>

#include "share/seconds.h"
#include "share/test_world.h"

namespace gpuman::share {
namespace {

using base::GiB;

// --- Budgets

TEST(ShareBudgetTest, IsSpentFromTheEndOfItsTimeUntilThereIsEnoughForATurn) {
  ShareBudget budget;
  budget.Pass(1s, {}, 0.5);
  EXPECT_FALSE(budget.IsSpent());
  budget.Pass(400ms, 400ms, 0.5);  // a quarter of a second was saved
  EXPECT_FALSE(budget.IsSpent());
  const Span left = budget.ChangesIn(true, 0.5);
  EXPECT_NEAR(Seconds(left), 0.1, 0.001);
  budget.Pass(left, left, 0.5);
  EXPECT_TRUE(budget.IsSpent());
  const Span rest = budget.ChangesIn(false, 0.5);
  EXPECT_NEAR(Seconds(rest), 2 * Seconds(kShareTurn), 0.001);
  budget.Pass(rest / 2, {}, 0.5);
  EXPECT_TRUE(budget.IsSpent());
  budget.Pass(rest / 2 + 1ms, {}, 0.5);
  EXPECT_FALSE(budget.IsSpent());
}

TEST(ShareBudgetTest, TimeThatWasNotUsedComesBack) {
  ShareBudget budget;
  budget.Pass(300ms, 300ms, 0.1);
  EXPECT_TRUE(budget.IsSpent());
  budget.Refund(400ms);
  EXPECT_FALSE(budget.IsSpent());
  budget.Refund(-10s);
  EXPECT_FALSE(budget.IsSpent());
}

TEST(ShareBudgetTest, SavesNoMoreThanAShortTime) {
  ShareBudget budget;
  budget.Pass(1h, {}, 0.9);
  EXPECT_NEAR(Seconds(budget.ChangesIn(true, 0.9)), 2.5, 0.01);
}

TEST(ShareBudgetTest, WithAllOfTheTimeItIsNeverSpent) {
  ShareBudget budget;
  budget.Pass(1s, {}, 1);
  budget.Pass(1h, 1h, 1);
  EXPECT_FALSE(budget.IsSpent());
  EXPECT_EQ(budget.ChangesIn(true, 1), Span::max());
}

TEST(RecentUseTest, KnowsTheLastTenSecondsAndNothingAtFirst) {
  RecentUse use;
  EXPECT_FALSE(use.Part());
  base::MonoTime now{1h};
  for (int i = 0; i < 1000; ++i) use.Add(now += 20ms, 20ms, i < 500 ? 20ms : 5ms);
  ASSERT_TRUE(use.Part());
  EXPECT_NEAR(*use.Part(), 0.25, 0.01);
  use.Add(now += 60s, 60s, {});
  EXPECT_LT(*use.Part(), 0.01);
}

// --- Time parts

class ShareParts : public testing::Test {
 protected:
  Tenant& Add(std::optional<double> part, bool may_exceed = true, double weight = 1,
              const std::set<std::string>& gpus = {"gpu"}) {
    Tenant& tenant = tenants_.emplace_back();
    tenant.id = TenantId{static_cast<std::int64_t>(tenants_.size())};
    if (part) tenant.options.compute = ComputeShare{*part, may_exceed};
    tenant.options.weight = weight;
    for (const auto& gpu : gpus) tenant.parts[gpu];
    return tenant;
  }
  Group All() {
    Group all;
    for (Tenant& tenant : tenants_) all.push_back(&tenant);
    SetTimeParts(all);
    return all;
  }
  std::deque<Tenant> tenants_;
};

TEST_F(ShareParts, ThoseWithoutAShareDivideTheRestByTheirWeights) {
  Tenant& asks = Add(0.4);
  Tenant& light = Add({}, true, 1);
  Tenant& heavy = Add({}, true, 2);
  All();
  EXPECT_DOUBLE_EQ(asks.time_part, 0.4);
  EXPECT_DOUBLE_EQ(light.time_part, 0.2);
  EXPECT_DOUBLE_EQ(heavy.time_part, 0.4);
}

TEST_F(ShareParts, MoreThanTheWholeIsMadeSmallerInProportion) {
  Tenant& a = Add(0.9, false);
  Tenant& b = Add(0.6, false);
  All();
  EXPECT_DOUBLE_EQ(a.time_part, 0.6);
  EXPECT_DOUBLE_EQ(b.time_part, 0.4);
  Tenant& other = Add({});
  All();
  EXPECT_DOUBLE_EQ(other.time_part, kPartOfOthers);
  EXPECT_DOUBLE_EQ(a.time_part, 0.6 * (1 - kPartOfOthers));
}

TEST_F(ShareParts, OnSeveralGpusTheFullestCounts) {
  Tenant& gang = Add(0.5, true, 1, {"a", "b"});
  Tenant& on_b = Add(1.0, true, 1, {"b"});
  Tenant& on_a = Add(0.5, true, 1, {"a"});
  All();
  EXPECT_DOUBLE_EQ(gang.time_part, 0.5 / 1.5);
  EXPECT_DOUBLE_EQ(on_b.time_part, 1 / 1.5);
  EXPECT_DOUBLE_EQ(on_a.time_part, 0.5);
}

TEST_F(ShareParts, OneThatMayHaveAllNeedsNoTurnsUntilThereIsANeighbour) {
  Tenant& alone = Add(0.3);
  EXPECT_FALSE(HaveTurnsByShare(All()));
  EXPECT_EQ(alone.time_part, 0);
  Tenant& neighbour = Add({});
  EXPECT_TRUE(HaveTurnsByShare(All()));
  neighbour.parked = true;
  EXPECT_FALSE(HaveTurnsByShare(All()));
  neighbour.parked = false;
  alone.options.compute.reset();
  EXPECT_FALSE(HaveTurnsByShare(All()));
}

TEST_F(ShareParts, AnUpperLimitHoldsAlsoAlone) {
  Add(0.3, false);
  EXPECT_TRUE(HaveTurnsByShare(All()));
  tenants_.front().options.compute->part = 1;
  EXPECT_FALSE(HaveTurnsByShare(All()));
}

// --- Tenants in the model

constexpr Span kWindow = 10s;

Program Asks(double part, bool may_exceed = false) {
  return {.memory = {{"gpu", GiB(2)}}, .options = {.compute = {{part, may_exceed}}}, .drain = 500us};
}
Program Asks(double part, bool may_exceed, Span burst, Span gap) {
  Program program = Asks(part, may_exceed);
  program.burst = burst;
  program.gap = gap;
  return program;
}

class ComputeWorld : public testing::Test {
 protected:
  // Returns the part of the next ten seconds for which each tenant computes.
  std::vector<double> Had() {
    std::vector<Span> before;
    for (const TenantId id : ids_) before.push_back(world_.job(id).computed);
    world_.RunFor(kWindow);
    std::vector<double> had;
    for (std::size_t i = 0; i < ids_.size(); ++i)
      had.push_back(Seconds(world_.job(ids_[i]).computed - before[i]) / Seconds(kWindow));
    return had;
  }
  void Start(Program program) { ids_.push_back(world_.Start(std::move(program))); }
  // Compares the parts with those asked for in each of five windows after the first second.
  void Expect(const std::vector<double>& asked, double points) {
    world_.RunFor(1s);
    for (int window = 0; window < 5; ++window) {
      const auto had = Had();
      for (std::size_t i = 0; i < asked.size(); ++i)
        EXPECT_NEAR(had[i], asked[i], points / 100) << "tenant " << i << ", window " << window;
    }
  }
  TenantStatus Status(std::size_t index) {
    for (const auto& tenant : world_.Status("gpu").tenants)
      if (tenant.tenant == ids_[index]) return tenant;
    return {};
  }

  World world_{{}, {{"gpu", GiB(16)}}, 55e9};
  std::vector<TenantId> ids_;
};

TEST_F(ComputeWorld, TwoHaveWhatTheyAskFor) {
  for (const double part : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}) {
    for (const bool may_exceed : {false, true}) {
      SCOPED_TRACE(part);
      for (const TenantId id : ids_) world_.End(id);
      ids_.clear();
      Start(Asks(part, may_exceed));
      Start(Asks(1 - part, may_exceed));
      Expect({part, 1 - part}, 2);
    }
  }
}

TEST_F(ComputeWorld, ThreeHaveWhatTheyAskFor) {
  Start(Asks(0.1));
  Start(Asks(0.3));
  Start(Asks(0.6));
  Expect({0.1, 0.3, 0.6}, 2);
}

TEST_F(ComputeWorld, ThoseWithoutAShareHaveTheRestByWeight) {
  Start(Asks(0.5));
  Program other{.memory = {{"gpu", GiB(2)}}, .drain = 500us};
  Start(other);
  other.options.weight = 3;
  Start(other);
  Expect({0.5, 0.125, 0.375}, 2);
}

TEST_F(ComputeWorld, AnUpperLimitHoldsAlone) {
  Start(Asks(0.3));
  Expect({0.3}, 1);
  EXPECT_NEAR(*Status(0).compute_had, 0.3, 0.02);
}

TEST_F(ComputeWorld, WithoutAnUpperLimitItUsesWhatOthersLeave) {
  Start(Asks(0.3, true));
  Expect({1}, 0.1);
  EXPECT_EQ(world_.job(ids_[0]).closings, 0) << "nobody else is there";
  Start(Asks(0.2, false, 50ms, 950ms));  // it uses a twentieth
  Expect({0.95, 0.05}, 2);
}

TEST_F(ComputeWorld, WithAnUpperLimitItLeavesTheRestToNobody) {
  Start(Asks(0.3));
  Start(Asks(0.5));
  Expect({0.3, 0.5}, 2);
}

TEST_F(ComputeWorld, ProgramsWithShortPausesHaveTheirShares) {
  Start(Asks(0.3, false, 20ms, 1ms));
  Start(Asks(0.7, false, 7ms, 1ms));
  Expect({0.3 * 20 / 21, 0.7 * 7 / 8}, 3);
}

TEST_F(ComputeWorld, APauseIsUsedByTheOther) {
  Start(Asks(0.5, true, 30ms, 30ms));
  Start(Asks(0.5, true));
  world_.RunFor(1s);
  const auto had = Had();
  EXPECT_GE(had[0], 0.25);
  EXPECT_GE(had[0] + had[1], 0.85);
}

TEST_F(ComputeWorld, WorkThatEndsLateIsPaidBack) {
  Program late = Asks(0.3);
  late.in_flight = 150ms;
  Start(late);
  Start(Asks(0.7));
  Expect({0.3, 0.7}, 3);
}

TEST_F(ComputeWorld, SharesOfMoreThanTheWholeAreMadeSmaller) {
  Start(Asks(0.9));
  Start(Asks(0.6));
  Expect({0.6, 0.4}, 2);
  Program other{.memory = {{"gpu", GiB(2)}}, .drain = 500us};
  Start(other);
  Expect({0.57, 0.38, 0.05}, 2);
}

TEST_F(ComputeWorld, AShareThatChangesHoldsAtOnce) {
  Start(Asks(0.3));
  Start(Asks(0.7));
  Expect({0.3, 0.7}, 2);
  world_.Feed(event::OptionsChanged{ids_[0], {.compute = {{0.6, false}}}});
  world_.Feed(event::OptionsChanged{ids_[1], {.compute = {{0.2, true}}}});
  Expect({0.6, 0.4}, 2);
  world_.Feed(event::OptionsChanged{ids_[0], {}});
  world_.Feed(event::OptionsChanged{ids_[1], {}});
  const int closings = world_.job(ids_[0]).closings + world_.job(ids_[1]).closings;
  Expect({1, 1}, 1);  // in the model two that fit do not slow each other down
  EXPECT_LE(world_.job(ids_[0]).closings + world_.job(ids_[1]).closings, closings + 2);
}

TEST_F(ComputeWorld, AfterASuspensionTheShareHoldsAgain) {
  Start(Asks(0.3));
  Start(Asks(0.7, true));
  Expect({0.3, 0.7}, 2);
  world_.Suspend(ids_[0]);
  Expect({0, 1}, 1);
  world_.Resume(ids_[0]);
  world_.RunFor(5s);  // its memory comes back
  Expect({0.3, 0.7}, 2);
}

TEST_F(ComputeWorld, WhileTurnsArePausedSharesDoNotHold) {
  Start(Asks(0.3));
  world_.RunFor(1s);
  SchedulerSettings paused;
  paused.pause = true;
  world_.Feed(event::SettingsChanged{paused});
  Expect({1}, 1);
}

// A short request every half second, beside two that always work: it is owed its time when it comes.
TEST_F(ComputeWorld, ShortBurstsWithinTheShareWaitForNoMoreThanATurn) {
  Start(Asks(0.2, false, 20ms, 500ms));
  Start(Asks(0.4, true));
  Start(Asks(0.4, true));
  world_.RunFor(60s);
  const auto& stood = world_.job(ids_[0]).stood;
  ASSERT_GT(stood.size(), 50u);
  for (std::size_t i = 3; i < stood.size(); ++i) EXPECT_LE(stood[i], kShareTurn + 10ms) << i;
}

TEST_F(ComputeWorld, MemoryThatHasToMoveKeepsTheSharesOverALongerTime) {
  for (const double part : {0.3, 0.7}) {
    Program program = Asks(part);
    program.memory = {{"gpu", GiB(12)}};
    Start(program);
  }
  world_.RunFor(10s);
  std::vector<double> sum{0, 0};
  for (int i = 0; i < 30; ++i) {
    const auto had = Had();
    sum[0] += had[0] / 30;
    sum[1] += had[1] / 30;
  }
  EXPECT_NEAR(sum[0], 0.3, 0.05);
  EXPECT_NEAR(sum[1], 0.7, 0.1);
}

// The work of the first job never comes to rest.
class Stubborn : public World {
 public:
  Stubborn() : World({}, {{"gpu", GiB(16)}}, 55e9) {}
  double Part(TenantId id, Span span) {
    const Span before = job(id).computed;
    RunFor(span);
    return Seconds(job(id).computed - before) / Seconds(span);
  }

 protected:
  std::optional<Span> ClosesAfter(const Job& job) override {
    return job.id == jobs_.begin()->first ? std::nullopt : World::ClosesAfter(job);
  }
};

// It is asked now and then, not all the time, and runs on.
TEST(ComputeWorldFaults, OneThatDoesNotYieldKeepsItsTime) {
  Stubborn world;
  Program program = Asks(0.3);
  const TenantId capped = world.Start(program);
  world.RunFor(60s);
  EXPECT_LE(world.job(capped).closings, 3);
  EXPECT_GE(Seconds(world.job(capped).computed), 30);
  program.options.compute.reset();
  program.options.latency = true;
  program.burst = program.gap = 10ms;
  world.Start(program);
  world.RunFor(60s);
  EXPECT_LE(world.job(capped).closings, 6) << "nor is it asked for each request";
}

// Its neighbours run beside it, each up to its share, and stand still only while it is asked: of ten minutes
// for 5, 10 and 20 seconds, and each time for the second in which its answer may be late.
TEST(ComputeWorldFaults, BesideOneThatDoesNotYieldOthersHaveTheirShares) {
  Stubborn world;
  const TenantId endless = world.Start(Asks(0.3)), neighbour = world.Start(Asks(0.5));
  EXPECT_NEAR(world.Part(neighbour, 600s), 0.5 * (1 - 38.0 / 600), 0.02);
  EXPECT_LE(world.job(endless).closings, 3);
  world.End(neighbour);
  const TenantId greedy = world.Start(Asks(0.5, true));
  EXPECT_GE(world.Part(greedy, 600s), 0.95);
  EXPECT_GE(world.Part(endless, 60s), 0.6) << "nor is it asked for them more often";
  EXPECT_LE(world.job(endless).closings, 4);
}

TEST(ComputeWorldGang, AGangHasItsShareOnEachOfItsGpus) {
  World world{{}, {{"a", GiB(16)}, {"b", GiB(16)}}, 55e9};
  const auto start = [&world](double part, bool may_exceed, const std::set<std::string>& gpus) {
    Program program = Asks(part, may_exceed);
    program.memory.clear();
    for (const std::string& gpu : gpus) program.memory[gpu] = GiB(2);
    return world.Start(std::move(program));
  };
  const std::vector<std::pair<TenantId, double>> asked{{start(0.4, false, {"a", "b"}), 0.4},
                                                       {start(0.6, false, {"a"}), 0.6},
                                                       {start(0.2, false, {"b"}), 0.2},
                                                       {start(0.4, true, {"b"}), 0.4}};
  world.RunFor(60s);
  std::map<TenantId, Span> before;
  for (const auto& [id, part] : asked) before[id] = world.job(id).computed;
  world.RunFor(600s);
  for (const auto& [id, part] : asked)
    EXPECT_NEAR(Seconds(world.job(id).computed - before[id]) / 600, part, 0.03) << id.value;
}

TEST_F(ComputeWorld, TheViewSaysWhatWasAskedAndHad) {
  Start(Asks(0.3));
  Start(Asks(0.7, true));
  world_.RunFor(11s);
  const auto status = world_.Status("gpu");
  EXPECT_TRUE(status.by_share);
  EXPECT_TRUE(status.exclusive);
  EXPECT_EQ(Status(0).options.compute, (ComputeShare{0.3, false}));
  EXPECT_DOUBLE_EQ(*Status(0).compute_part, 0.3);
  EXPECT_NEAR(*Status(0).compute_had, 0.3, 0.03);
  EXPECT_NEAR(*Status(1).compute_had, 0.7, 0.03);
}

}  // namespace
}  // namespace gpuman::share
