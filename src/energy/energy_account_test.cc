#include "energy/energy_account.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace gpuman::energy {
namespace {

constexpr base::JobId kFirst{1}, kSecond{2};

base::MonoTime At(std::int64_t ms) { return base::MonoTime(std::chrono::milliseconds(ms)); }

// A GPU whose counter is exact but moves on only each `step`, and one that looks at it each `look`.
struct Gpu {
  EnergyAccount account;
  double watts = 75;
  int step = 100, look = 20;
  std::int64_t now = 1'000;
  double joules = 50'000;
  double shown = 50'000;

  void Run(int ms) {
    for (int i = 0; i < ms; ++i) {
      ++now;
      joules += watts / 1000;
      if (now % step == 7 % step) shown = joules;
      if (now % look == 0) account.Read(static_cast<Millijoules>(shown * 1000), At(now));
    }
  }
  void Has(const Holders& holders, double draws) {
    account.SetHolders(holders, holders.empty(), At(now));
    watts = draws;
  }
  double Of(base::JobId job) const { return static_cast<double>(account.Of(job).value()) / 1000; }
};

// The rest power is known, and two jobs begin.
Gpu Learnt() {
  Gpu gpu;
  gpu.Has({}, 75);
  gpu.Run(3'000);
  gpu.account.Begin(kFirst, true);
  gpu.account.Begin(kSecond, true);
  return gpu;
}

TEST(EnergyAccount, SingleJobGetsEnergyAboveRestPower) {
  Gpu gpu = Learnt();
  gpu.Has({{kFirst}}, 475);
  gpu.Run(10'000);
  gpu.account.Reckon(At(gpu.now));
  EXPECT_NEAR(gpu.Of(kFirst), 4'000, 60);
  EXPECT_NEAR(*gpu.account.rest_watts(), 75, 1);
}

TEST(EnergyAccount, JobsInTurnsGetEnergyOfTheirTurnsDespiteLateCounter) {
  for (const int step : {1, 20, 100}) {
    Gpu gpu = Learnt();
    gpu.step = step;
    for (int turn = 0; turn < 10; ++turn) {
      gpu.Has({{kFirst}}, 675);
      gpu.Run(1'000 + 7 * turn);
      gpu.Has({{kSecond}}, 275);
      gpu.Run(1'000 + 11 * turn);
    }
    gpu.Has({}, 75);
    gpu.Run(500);
    const double a = 0.6 * (10'000 + 7 * 45), b = 0.2 * (10'000 + 11 * 45);
    EXPECT_NEAR(gpu.Of(kFirst), a, 0.01 * a) << step;
    EXPECT_NEAR(gpu.Of(kSecond), b, 0.03 * b) << step;
  }
}

TEST(EnergyAccount, ShortTurnsAreSplitByPowerOfEachJobAlone) {
  Gpu gpu = Learnt();
  gpu.Has({{kFirst}}, 675);
  gpu.Run(3'000);
  gpu.Has({{kSecond}}, 275);
  gpu.Run(3'000);
  for (int turn = 0; turn < 100; ++turn) {
    gpu.Has({{kFirst}}, 675);
    gpu.Run(50);
    gpu.Has({{kSecond}}, 275);
    gpu.Run(50);
  }
  gpu.Has({}, 75);
  gpu.Run(500);
  EXPECT_NEAR(gpu.Of(kFirst), 0.6 * 8'000, 0.03 * 0.6 * 8'000);
  EXPECT_NEAR(gpu.Of(kSecond), 0.2 * 8'000, 0.05 * 0.2 * 8'000);
}

TEST(EnergyAccount, EnergyOfJobsThatBeginTogetherIsSplitOnceEachRanAlone) {
  Gpu gpu = Learnt();
  gpu.Has({{kFirst, 1}, {kSecond, 1}}, 75 + 300);  // 550 and 50 W, half of the time each
  gpu.Run(1'000);
  EXPECT_LT(gpu.Of(kFirst) + gpu.Of(kSecond), 60) << "nobody knows whose it is";
  gpu.Has({{kFirst}}, 75 + 550);
  gpu.Run(4'000);
  gpu.Has({{kSecond}}, 75 + 50);
  gpu.Run(4'000);
  gpu.account.Reckon(At(gpu.now));
  EXPECT_NEAR(gpu.Of(kFirst), 0.5 * 550 + 4 * 550, 30);
  EXPECT_NEAR(gpu.Of(kSecond), 0.5 * 50 + 4 * 50, 15);
}

TEST(EnergyAccount, EnergyOfJobsThatNeverRanAloneIsSplitByWork) {
  Gpu gpu = Learnt();
  gpu.Has({{kFirst, 1.5}, {kSecond, 0.5}}, 75 + 400);
  gpu.Run(40'000);
  EXPECT_GT(gpu.Of(kFirst) + gpu.Of(kSecond), 400 * 24) << "not more than 15 s wait";
  gpu.account.Reckon(At(gpu.now));
  EXPECT_NEAR(gpu.Of(kFirst) + gpu.Of(kSecond), 16'000, 100);
  EXPECT_NEAR(gpu.Of(kFirst), 0.75 * 16'000, 2'000) << "by their work: what each draws is not known";
}

TEST(EnergyAccount, UnsplitEnergyIsInTheRecord) {
  Gpu gpu = Learnt();
  gpu.Has({{kFirst}, {kSecond}}, 475);
  gpu.Run(5'000);
  const auto record = gpu.account.ToRecord("boot");
  EXPECT_NEAR(static_cast<double>(record->jobs.at("1") + record->jobs.at("2")) / 1000, 2'000, 60);
  EXPECT_LT(gpu.Of(kFirst), 30);
}

TEST(EnergyAccount, EstimateAtEndOfRunIsSubtractedFromNextReading) {
  Gpu gpu = Learnt();
  gpu.Has({{kFirst}}, 475);
  gpu.Run(5'003);
  gpu.account.Reckon(At(gpu.now));
  EXPECT_NEAR(gpu.Of(kFirst), 2'000, 50);
  gpu.Has({{kSecond}}, 475);
  gpu.Run(5'000);
  gpu.account.Reckon(At(gpu.now));
  EXPECT_NEAR(gpu.Of(kFirst) + gpu.Of(kSecond), 4'000, 60);
}

TEST(EnergyAccount, EnergyOfRunWithUnseenBeginningIsUnknown) {
  Gpu gpu = Learnt();
  gpu.account.Begin(kFirst, false);
  gpu.Has({{kFirst}}, 475);
  gpu.Run(1'000);
  EXPECT_FALSE(gpu.account.Of(kFirst));
  EXPECT_FALSE(gpu.account.Of({77})) << "nobody told of it";
}

TEST(EnergyAccount, EnergyOfRunWithCounterResetIsUnknown) {
  Gpu gpu = Learnt();
  gpu.Has({{kFirst}}, 475);
  gpu.Run(1'000);
  gpu.joules = gpu.shown = 3;
  gpu.Run(1'000);
  EXPECT_FALSE(gpu.account.Of(kFirst));
  gpu.account.Begin(kSecond, true);
  gpu.Has({{kSecond}}, 475);
  gpu.Run(5'000);
  EXPECT_NEAR(gpu.Of(kSecond), 2'000, 60);
}

// kFirst runs for 2 s, then nobody looks for 8 s, in which the GPU draws as much. Returns what was recorded.
auto LosesItsDaemon(Gpu& gpu) {
  gpu.Has({{kFirst}}, 475);
  gpu.Run(2'000);
  gpu.account.Reckon(At(gpu.now));
  auto record = gpu.account.ToRecord("boot");
  gpu.account = {};
  gpu.now += 8'000;
  gpu.joules += 475 * 8;
  return record;
}

TEST(EnergyAccount, RestoredRecordContinuesTheRun) {
  Gpu gpu = Learnt();
  const auto record = LosesItsDaemon(gpu);
  gpu.account.Restore(*record, "boot", {kFirst});
  gpu.Has({{kFirst}}, 475);
  gpu.Run(1'000);
  EXPECT_NEAR(gpu.Of(kFirst), 0.4 * 11'000, 100);
  EXPECT_NEAR(*gpu.account.rest_watts(), 75, 1);
}

TEST(EnergyAccount, EnergyOfJobThatEndedUnobservedGoesToOthers) {
  Gpu gpu = Learnt();
  const auto record = LosesItsDaemon(gpu);
  gpu.account.Restore(*record, "boot", {kSecond});
  gpu.Has({}, 75);
  gpu.Run(1'000);
  EXPECT_FALSE(gpu.account.Of(kFirst));
  EXPECT_NEAR(static_cast<double>(gpu.account.others()) / 1000, 400 * 8, 60);
  EnergyAccount after_boot;
  after_boot.Restore(*record, "another", {kFirst});
  EXPECT_FALSE(after_boot.Of(kFirst)) << "the run ended with its boot";
  EXPECT_EQ(after_boot.counted(), record->counted);
}

RC_GTEST_PROP(EnergyAccount, SumsAreAlwaysWhatTheCounterSays, ()) {
  EnergyAccount account;
  Millijoules counter = *rc::gen::inRange<Millijoules>(0, 1'000'000'000);
  const Millijoules first = counter;
  std::int64_t now = 1;
  account.Read(counter, At(now));
  std::string kept;
  for (int i = *rc::gen::inRange(0, 60); i > 0; --i) {
    now += *rc::gen::inRange(1, 1'500);
    const base::JobId job{*rc::gen::inRange<std::int64_t>(0, 4)},
        other{*rc::gen::inRange<std::int64_t>(4, 6)};
    switch (*rc::gen::inRange(0, 8)) {
      case 0:
        account.SetHolders({}, *rc::gen::arbitrary<bool>(), At(now));
        break;
      case 1:
        account.SetHolders({{job}}, false, At(now));
        break;
      case 2:
        account.SetHolders({{job, 0.5}, {other, 1.5, true}}, false, At(now));
        break;
      case 3:
        account.Begin(job.value == 0 ? other : job, *rc::gen::arbitrary<bool>());
        break;
      case 4:
        account.Forget(job);
        break;
      case 5:
        account.Reckon(At(now));
        break;
      default:
        counter += *rc::gen::inRange<Millijoules>(0, 900'000);
        account.Read(counter, At(now));
    }
    if (*rc::gen::inRange(0, 10) == 0) {
      const auto record = account.ToRecord("b");
      account = {};
      account.Restore(*record, "b", {{1}, {2}, {4}});
    }
    RC_ASSERT(account.counted() >= account.idle() + account.others());
  }
  // An estimate that was too high is corrected later.
  for (int i = 0; i < 3; ++i) {
    counter += 30'000'000;
    now += 5'000;
    account.Read(counter, At(now));
  }
  account.Reckon(At(now));
  RC_ASSERT(account.counted() == counter - first);
  const auto record = account.ToRecord("b");
  Millijoules sum = record->idle + record->others + record->ended;
  for (const auto& [job, used] : record->jobs) sum += used;
  RC_ASSERT(sum == counter - first);
}

}  // namespace
}  // namespace gpuman::energy
