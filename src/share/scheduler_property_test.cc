// Checks what must always hold in the model of test_world.h.
#include "share/test_random_world.h"

namespace gpuman::share {
namespace {

std::string LiveFrom(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  RandomWorld world(seed, /*faults=*/true, SettingsOf(random));
  return Live(world);
}

TEST(ShareProperty, CapacityHoldsAndNoJobStaysClosed) {
  for (std::uint64_t seed = 1; seed <= 12 && !HasFailure(); ++seed) {
    SCOPED_TRACE("world " + std::to_string(seed));
    LiveFrom(seed);
  }
}

TEST(ShareProperty, NobodyWaitsForLongerThanTheBound) {
  for (std::uint64_t seed = 1; seed <= 8 && !HasFailure(); ++seed) {
    SCOPED_TRACE("world " + std::to_string(seed));
    std::mt19937_64 random(seed);
    SchedulerSettings settings = SettingsOf(random);
    settings.policy = PolicyKind::kFair;
    RandomWorld world(seed, false, settings);
    for (int i = 0; i < 5; ++i) world.StartAny();
    const Span bound = world.Bound();
    world.RunFor(std::min(Span(600s), 3 * bound));
    for (auto& [id, job] : world.jobs()) {
      for (const Span stood : job.stood) EXPECT_LE(stood, bound) << "job " << id.value;
      EXPECT_LE(world.now() - job.stands.value_or(world.now()), bound) << "job " << id.value;
    }
  }
}

TEST(ShareProperty, WithSharesOfTheTimeCapacityHoldsAndNoJobStaysClosed) {
  for (std::uint64_t seed = 1; seed <= 12 && !HasFailure(); ++seed) {
    SCOPED_TRACE("world " + std::to_string(seed));
    std::mt19937_64 random(seed);
    RandomWorld world(seed, /*faults=*/true, SettingsOf(random));
    world.GiveShares();
    Live(world);
  }
}

TEST(ShareProperty, TenThousandHandOversLoseNothing) {
  std::uint64_t hand_overs = 0;
  for (std::uint64_t seed = 100; hand_overs < 10'000 && !HasFailure(); ++seed) {
    SCOPED_TRACE("world " + std::to_string(seed));
    std::mt19937_64 random(seed);
    SchedulerSettings settings = SettingsOf(random);
    settings.quantum_min = settings.quantum_max = 100ms;
    RandomWorld world(seed, /*faults=*/seed % 2 == 0, settings, base::GiB(1));
    for (int i = 0; i < 5; ++i) world.StartAny();
    for (int i = 0; i < 60 && !HasFailure(); ++i) {
      world.RunFor(5s);
      world.ExpectNothingLost();
    }
    hand_overs += world.HandOvers();
    ASSERT_LT(seed, 1000u) << "only " << hand_overs;
  }
}

TEST(ShareProperty, TheSameEventsMakeTheSameActions) {
  for (std::uint64_t seed = 500; seed < 502 && !HasFailure(); ++seed)
    EXPECT_EQ(LiveFrom(seed), LiveFrom(seed));
}

}  // namespace
}  // namespace gpuman::share
