// Tests what the policy gains in the model of test_world.h: a bus of 55 GB/s each way at once.
#include "share/test_world.h"

namespace gpuman::share {
namespace {

constexpr double kBus = 55e9;

base::Bytes Part(base::Bytes capacity, double part) {
  return {static_cast<std::uint64_t>(static_cast<double>(capacity.count) * part)};
}

// How many times faster two jobs are together than one after the other.
double Speedup(base::Bytes capacity, Span period, double busy, double memory = 0.9) {
  World world({}, {{"gpu", capacity}}, kBus);
  const Span burst = std::chrono::duration_cast<Span>(period * busy);
  const Span work = std::max(Span(60s), 30 * burst);
  const Program program{
      .memory = {{"gpu", Part(capacity, memory)}}, .burst = burst, .gap = period - burst, .work = work};
  const double alone = std::chrono::duration<double>(work).count() / busy;
  world.Start(program);
  world.Start(program);
  EXPECT_EQ(world.denied(), 0);
  return 2 * alone / std::chrono::duration<double>(world.RunToEnd(24h)).count();
}

// Phases of 10 s: half of each period, or 9 s of 10 s.
TEST(ShareEvaluation, TwoJobsOfNinetyPercentAreNearlyTwiceAsFastTogetherWhereTheyRestHalfOfTheTime) {
  EXPECT_GE(Speedup(base::GiB(16), 20s, 0.5), 1.8);
  EXPECT_GE(Speedup(base::GiB(16), 10s, 0.5), 1.8);
  EXPECT_GE(Speedup(base::GiB(32), 20s, 0.5), 1.8);
}

TEST(ShareEvaluation, TwoJobsOfNinetyPercentGainWhereTheyRestATenthOfTheTime) {
  EXPECT_GE(Speedup(base::GiB(16), 10s, 0.9), 1.05);
  EXPECT_GE(Speedup(base::GiB(32), 20s, 0.9), 1.05);
}

// A gap that is shorter than the moving hides nothing: the loss is the overhead target and no more.
TEST(ShareEvaluation, ShorterPhasesGainLessAndLoseNoMoreThanTheTarget) {
  EXPECT_GE(Speedup(base::GiB(16), 2s, 0.5), 1.4);
  EXPECT_GE(Speedup(base::GiB(16), 1s, 0.5), 1.1);
  for (const Span period : {Span(2s), Span(1s), Span(200ms), Span(100ms)})
    EXPECT_GE(Speedup(base::GiB(16), period, 0.9), 0.94) << period.count();
  for (const Span period : {Span(200ms), Span(100ms)})
    EXPECT_GE(Speedup(base::GiB(16), period, 0.5), 0.94) << period.count();
}

TEST(ShareEvaluation, JobsThatFitRunAsIfAlone) { EXPECT_GE(Speedup(base::GiB(16), 10s, 0.9, 0.45), 1.99); }

TEST(ShareEvaluation, AHandOverOfTwoJobsOfSixtyPercentMovesAFifthOfTheCapacity) {
  const base::Bytes capacity = base::GiB(16);
  World world({}, {{"gpu", capacity}}, kBus);
  const Program program{.memory = {{"gpu", Part(capacity, 0.6)}}};
  const TenantId a = world.Start(program), b = world.Start(program);
  world.RunFor(60s);
  const auto before = world.Status("gpu");
  world.RunFor(300s);
  const auto after = world.Status("gpu");
  const double hand_overs = static_cast<double>(after.hand_overs - before.hand_overs);
  ASSERT_GT(hand_overs, 10);
  const double most = 0.25 * static_cast<double>(capacity.count) * hand_overs;
  EXPECT_LE(static_cast<double>((after.moved_out - before.moved_out).count), most);
  EXPECT_LE(static_cast<double>((after.moved_in - before.moved_in).count), most);
  EXPECT_GT(world.job(a).closings, 5);
  EXPECT_GT(world.job(b).closings, 5);
  EXPECT_LT(after.moving_share, 0.06);
}

TEST(ShareEvaluation, SharesAreWithinFivePercentOfTheWeightsAfterTenMinutes) {
  for (const std::uint64_t gib : {16u, 32u}) {
    World world({}, {{"gpu", base::GiB(gib)}}, kBus);
    Program program{.memory = {{"gpu", Part(base::GiB(gib), 0.9)}}};
    std::map<double, TenantId> ids;
    for (const double weight : {1.0, 2.0, 4.0}) {
      program.options.weight = weight;
      ids[weight] = world.Start(program);
    }
    world.RunFor(600s);
    double all = 0;
    for (const auto& [weight, id] : ids) all += std::chrono::duration<double>(world.job(id).computed).count();
    EXPECT_GE(all, 0.93 * 600);
    for (const auto& [weight, id] : ids) {
      const double share = std::chrono::duration<double>(world.job(id).computed).count() / all;
      EXPECT_NEAR(share / (weight / 7), 1, 0.05) << weight << " of 7 in " << gib << " GiB";
    }
  }
}

// A short request at intervals, beside a training that never rests.
void ExpectPrompt(double training, double interactive, Span every) {
  const base::Bytes capacity = base::GiB(16);
  World world({}, {{"gpu", capacity}}, kBus);
  world.Start({.memory = {{"gpu", Part(capacity, training)}}, .drain = 20ms});
  const TenantId asker =
      world.Start({.memory = {{"gpu", Part(capacity, interactive)}}, .burst = 100ms, .gap = every});
  world.RunFor(600s);
  const World::Job& job = world.job(asker);
  ASSERT_GT(job.stood.size(), 20u);
  const Span restore = std::chrono::duration_cast<Span>(
      std::chrono::duration<double>(static_cast<double>(Part(capacity, interactive).count) / kBus));
  // From the first ones the scheduler learns that this tenant leaves again.
  for (std::size_t i = 3; i < job.stood.size(); ++i) EXPECT_LE(job.stood[i], restore + 100ms) << i;
}

TEST(ShareEvaluation, AnIdleJobGetsInAtOnceBesideATraining) {
  ExpectPrompt(0.9, 0.2, 10s);
  ExpectPrompt(0.9, 0.9, 10s);
  ExpectPrompt(0.9, 0.5, 3s);
}

// Two trainings begin while a server answers a request every few seconds. It waits for none of their turns,
// and each of them has what it would have had.
void ExpectNoTurnIsWaitedFor(bool asked, std::size_t unknown) {
  const base::Bytes capacity = base::GiB(16), training = Part(capacity, 0.9);
  World world({}, {{"gpu", capacity}}, kBus);
  const TenantId server = world.Start({.memory = {{"gpu", Part(capacity, 0.6)}},
                                       .burst = 300ms,
                                       .gap = 5s,
                                       .options = {.interactive = asked}});
  world.RunFor(asked ? 1s : 60s);
  world.Start({.memory = {{"gpu", training}}});
  world.RunFor(60s);
  world.Start({.memory = {{"gpu", training}}});
  world.RunFor(300s);
  const auto& stood = world.job(server).stood;
  ASSERT_GT(stood.size(), 50u);
  const Span both_ways = std::chrono::duration_cast<Span>(
      std::chrono::duration<double>(2 * static_cast<double>(training.count) / kBus));
  for (std::size_t i = unknown; i < stood.size(); ++i) EXPECT_LE(stood[i], 1s + both_ways + 50ms) << i;
}

TEST(ShareEvaluation, AServerWaitsForNoTurnOfThoseThatBeginBesideIt) {
  ExpectNoTurnIsWaitedFor(/*asked=*/false, 0);
  ExpectNoTurnIsWaitedFor(/*asked=*/true, 0);
}

TEST(ShareEvaluation, OneThatSaysItIsInteractiveAndWorksAllTheTimeGainsNothing) {
  World world({}, {{"gpu", base::GiB(16)}}, kBus);
  Program program{.memory = {{"gpu", base::GiB(14)}}};
  const TenantId honest = world.Start(program);
  program.options.interactive = true;
  const TenantId other = world.Start(program);
  world.RunFor(600s);
  const double all =
      std::chrono::duration<double>(world.job(honest).computed + world.job(other).computed).count();
  EXPECT_GE(all, 0.93 * 600);
  EXPECT_NEAR(std::chrono::duration<double>(world.job(honest).computed).count() / all, 0.5, 0.03);
}

}  // namespace
}  // namespace gpuman::share
