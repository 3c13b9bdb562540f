// The sampling periods that the guard sets; sizes in MiB, times in milliseconds.
#include "guard/cadence.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "guard/test_machine.h"

namespace gpuman::guard {
namespace {

struct Watching {
  CadenceSettings settings;
  CadenceState state;

  std::int64_t Period(std::int64_t now, std::uint64_t used, std::uint64_t ceiling, bool ending = false) {
    const std::vector<WatchedUsage> watched = {{"job 7", base::MiB(used), base::MiB(ceiling)}};
    return NextPeriod("GPU-0", watched, ending, At(now), settings, state).count();
  }
};

TEST(Cadence, RestsWhileNothingGrows) {
  Watching w;
  w.Period(0, 990, 1000);
  EXPECT_EQ(w.Period(5000, 990, 1000), 100) << "also close to a limit";
  EXPECT_EQ(w.Period(5100, 990, 1000), 100);
  EXPECT_EQ(w.Period(5200, 500, 1000), 100) << "falling is no danger";
}

TEST(Cadence, GoesFastestWhenGrowthWouldSoonReachTheLimit) {
  Watching w;
  w.Period(0, 0, 100'000);
  EXPECT_EQ(w.Period(1000, 10'000, 100'000), 5) << "10000 in 100 ms: the limit is 0.9 s away";
}

TEST(Cadence, GoesFastestWhenTwoMoreStepsWouldReachTheLimit) {
  Watching w;
  w.Period(0, 0, 1000);
  w.Period(1000, 400, 1000);
  EXPECT_EQ(w.Period(1010, 700, 1000), 5);
}

TEST(Cadence, LooksLessOftenTheFurtherTheLimit) {
  const struct {
    std::uint64_t ceiling;
    std::int64_t period;
  } table[] = {{10'000, 5}, {40'000, 9}, {100'000, 24}, {300'000, 74}, {1'000'000, 100}};
  for (const auto& row : table) {
    Watching w;
    w.Period(0, 0, row.ceiling);
    EXPECT_EQ(w.Period(100, 1000, row.ceiling), row.period) << row.ceiling;
  }
}

TEST(Cadence, FallsBackToRestAfterQuiet) {
  Watching w;
  w.Period(0, 0, 1000);
  EXPECT_EQ(w.Period(100, 900, 1000), 5);
  EXPECT_EQ(w.Period(1500, 900, 1000), 5);
  EXPECT_EQ(w.Period(1600, 900, 1000), 100);
}

TEST(Cadence, TakesAJobThatAppearsForOneThatGrew) {
  Watching w;
  EXPECT_EQ(w.Period(0, 900, 1000), 5);
  Watching empty;
  EXPECT_EQ(empty.Period(0, 0, 1000), 100);
}

TEST(Cadence, LooksOftenEnoughToSeeMemoryComeBack) {
  Watching w;
  w.Period(0, 0, 1000);
  EXPECT_EQ(w.Period(1000, 0, 1000, true), 20);
}

TEST(Cadence, FollowsTheNearestOfAllThatIsWatched) {
  CadenceState state;
  const CadenceSettings settings;
  NextPeriod("GPU-0", {{"job 7", {}, base::MiB(1'000'000)}, {"job 8", {}, base::MiB(1000)}}, false, At(0),
             settings, state);
  EXPECT_EQ(
      NextPeriod("GPU-0",
                 {{"job 7", base::MiB(1), base::MiB(1'000'000)}, {"job 8", base::MiB(600), base::MiB(1000)}},
                 false, At(100), settings, state),
      base::Millis(5));
}

TEST(Cadence, KnowsNoGrowthFromAnotherGpu) {
  CadenceState state;
  const CadenceSettings settings;
  NextPeriod("GPU-0", {{"job 7", base::MiB(900), base::MiB(1000)}}, false, At(0), settings, state);
  EXPECT_EQ(NextPeriod("GPU-1", {{"job 7", {}, base::MiB(1000)}}, false, At(1), settings, state),
            base::Millis(100));
}

TEST(WatchedOn, ListsLimitsTheReserveAndUsersWithARule) {
  PolicySettings settings;
  settings.unmanaged = {{std::nullopt, {base::MiB(2000)}, UnmanagedMode::kEnforce}};
  auto gpu = Gpu(0, {Process(1, 7, 600), Process(2, 8, 500), Process(3, std::nullopt, 300)});
  gpu.reserve = base::MiB(1000);
  const auto watched = WatchedOn(gpu, {Job(7, 1000, 500), Job(8, 0, 800), Job(9)}, settings);
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> seen;
  for (const auto& one : watched) seen[one.key] = {one.used.count >> 20, one.ceiling.count >> 20};
  const std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> expected = {
      {"job 7", {600, 1000}}, {"job 8", {500, 800}}, {"reserve", {1400, 9000}}, {"user 1000", {300, 2000}}};
  EXPECT_EQ(seen, expected);
}

// A program whose memory grows steadily from zero is sampled at the fastest period when it passes its limit.
TEST(CadenceProperty, IsFastestWhenAClimbPassesTheLimit) {
  EXPECT_TRUE(rc::check("climb", [] {
    const double rate = *rc::gen::inRange(10, 100'000);  // MiB a second
    const auto ceiling = *rc::gen::inRange<std::uint64_t>(1, 200'000);
    // A program that reaches the limit within two periods of rest looks like a jump.
    RC_PRE(static_cast<double>(ceiling) / rate > 0.25);
    Watching w;
    std::int64_t now = 0, period = w.Period(0, 0, ceiling);
    std::uint64_t used = 0;
    for (int looks = 0; looks < 100'000; ++looks) {
      now += period;
      used = static_cast<std::uint64_t>(rate * static_cast<double>(now) / 1000);
      if (used > ceiling) break;
      period = w.Period(now, used, ceiling);
    }
    RC_ASSERT(used > ceiling);
    RC_ASSERT(period == 5);
  }));
}

}  // namespace
}  // namespace gpuman::guard
