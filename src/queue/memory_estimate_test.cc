// What `--memory auto` asks for, as a table; and what it comes to over many simulated runs.
#include "queue/memory_estimate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "queue/past_runs.h"

namespace gpuman::queue {
namespace {

using base::Bytes;
using base::GiB;
using base::MiB;

std::vector<PastRun> RunsOf(std::initializer_list<Bytes> peaks) {
  std::vector<PastRun> runs;
  for (const Bytes peak : peaks)
    runs.push_back({{static_cast<std::int64_t>(runs.size()) + 1}, {}, peak, {}, true});
  return runs;
}
std::vector<PastRun> Same(std::size_t count, Bytes peak) {
  std::vector<PastRun> runs(count, PastRun{.peak = peak, .to_its_end = true});
  return runs;
}
MemoryEstimate Of(const std::vector<PastRun>& runs, Bytes at_least = {}) {
  return EstimateMemory({"train", runs, GiB(80), at_least});
}

TEST(MemoryEstimateTest, WithoutAKnownRunAJobHasNoLimit) {
  EXPECT_EQ(Of({}).size, std::nullopt);
  EXPECT_EQ(Of({}).note, "memory: all of the GPU, as no run of 'train' is known yet");
  const auto failed = Of({{.peak = MiB(300)}, {.peak = GiB(8), .needed = GiB(9)}});
  EXPECT_EQ(failed.size, std::nullopt) << "how much a whole run needs is not known";
  EXPECT_EQ(failed.note, "memory: all of the GPU, as no known run of 'train' has come to its end");
}

TEST(MemoryEstimateTest, SaysWhatItRestsOn) {
  const auto many = Of(Same(14, MiB(11'571)));
  EXPECT_EQ(many.size, MiB(12'544)) << "5 % and a fourteenth of 45 % more, rounded";
  EXPECT_EQ(many.note, "memory: 12.3GiB, as the most of 14 runs of 'train' was 11.3GiB");
  EXPECT_EQ(Of(RunsOf({GiB(10)})).note, "memory: 15GiB, as the one known run of 'train' used 10GiB");
}

TEST(MemoryEstimateTest, TheMarginShrinksWithTheNumberOfRuns) {
  Bytes before = GiB(80);
  for (const std::size_t runs : {1U, 2U, 4U, 8U, 20U}) {
    const Bytes size = *Of(Same(runs, GiB(10))).size;
    EXPECT_LT(size, before) << runs;
    EXPECT_GT(size, GiB(10)) << runs;
    before = size;
  }
}

TEST(MemoryEstimateTest, TheMarginGrowsWithTheDifferenceBetweenRuns) {
  EXPECT_LT(*Of(RunsOf({GiB(10), GiB(10), GiB(10)})).size, *Of(RunsOf({GiB(10), GiB(5), GiB(9)})).size);
  EXPECT_LE(*Of(RunsOf({GiB(10), MiB(1)})).size, GiB(15)) << "never more than half as much again";
}

TEST(MemoryEstimateTest, ARunThatFailedCountsAsAtLeastSoMuch) {
  auto runs = Same(4, GiB(4));
  const Bytes before = *Of(runs).size;
  runs.push_back({.peak = MiB(300)});
  EXPECT_EQ(Of(runs).size, before) << "it failed early, which says nothing";
  runs.push_back({.peak = GiB(6)});
  EXPECT_GT(*Of(runs).size, GiB(6));
  runs.push_back({.peak = GiB(8), .needed = GiB(9)});
  EXPECT_EQ(Of(runs).size, MiB(11'520)) << "a quarter more than what was refused";
  EXPECT_EQ(Of(runs).note,
            "memory: 11.3GiB, as a run of 'train' was refused memory and needed 9GiB at least");
  runs.push_back({.peak = GiB(20), .to_its_end = true});
  EXPECT_THAT(Of(runs).note, testing::HasSubstr("the most of 5 runs of 'train' was 20GiB"));
}

TEST(MemoryEstimateTest, IsNeverMoreThanTheGpuAndNeverLessThanTheSoftLimit) {
  const auto much = Of(Same(5, GiB(79)));
  EXPECT_EQ(much.size, GiB(80));
  EXPECT_EQ(much.note, "memory: all of the GPU, as the most of 5 runs of 'train' was 79GiB");
  const auto soft = Of(Same(20, GiB(4)), GiB(6));
  EXPECT_EQ(soft.size, GiB(6));
  EXPECT_EQ(soft.note, "memory: 6GiB, as its soft limit says so; the most of 20 runs of 'train' was 4GiB");
  EXPECT_EQ(Of(Same(20, GiB(4)), GiB(100)).size, GiB(80));
}

TEST(MemoryEstimateTest, ARefusedJobGetsMoreThanItHadAndWasRefused) {
  EXPECT_EQ(NextLargerMemory(GiB(8), MiB(8'704), GiB(80)), GiB(16));
  EXPECT_EQ(NextLargerMemory(GiB(8), GiB(20), GiB(80)), GiB(25));
  EXPECT_EQ(NextLargerMemory(GiB(8), {}, GiB(80)), GiB(16)) << "what it needed is not known";
  EXPECT_EQ(NextLargerMemory(MiB(512), MiB(520), GiB(80)), GiB(1));
  EXPECT_EQ(NextLargerMemory(GiB(60), GiB(61), GiB(80)), GiB(80)) << "at most all there is";
  EXPECT_EQ(NextLargerMemory(GiB(80), GiB(81), GiB(80)), std::nullopt);
}

// --- A simulation: figures of a made-up world, of which docs/results.md tells ---

constexpr double kGpu = 80;  // GiB

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  double Uniform(double from, double to) {
    return from + (to - from) * static_cast<double>(bits_() >> 11) * 0x1p-53;
  }
  double LogUniform(double from, double to) { return from * std::pow(to / from, Uniform(0, 1)); }
  double Normal() {
    return std::sqrt(-2 * std::log(Uniform(1e-12, 1))) * std::cos(2 * std::numbers::pi * Uniform(0, 1));
  }
  bool IsTrueWith(double probability) { return Uniform(0, 1) < probability; }

 private:
  std::mt19937_64 bits_;
};

// One name: how the peaks of its runs come about, in GiB.
class Program {
 public:
  enum Kind { kFixed, kJitter, kGrowth, kTwoInputs, kOutliers, kKinds };
  Program(Kind kind, Random& random) : usual_(random.LogUniform(1, 30)) {
    if (kind == kJitter) jitter_ = random.Uniform(0.01, 0.10);
    if (kind == kGrowth) growth_ = random.Uniform(0.2, 1.0);
    if (kind == kTwoInputs) rare_ = random.Uniform(0.1, 0.5);
    if (kind == kOutliers) rare_ = 0.01;
    larger_ = random.Uniform(1.5, 3);
  }
  double Peak(double part_of_all_runs, Random& random) const {
    double peak = usual_ * (1 + growth_ * part_of_all_runs);
    if (rare_ > 0 && random.IsTrueWith(rare_)) peak *= larger_;
    return std::clamp(peak * (1 + jitter_ * random.Normal()), 0.3, kGpu - 1);
  }

 private:
  double usual_, jitter_ = 0.01, growth_ = 0, rare_ = 0, larger_ = 1;
};

struct Sums {
  double reserved = 0, used = 0;  // GiB-hours
  int refused = 0, failed = 0;    // first runs that were refused; jobs that were refused again
  double Unused() const { return reserved - used; }
};

struct Execution {
  double peak, hours, until_refused;  // in GiB; the last is a part of the time
};

// A run with this limit; true: it came to its end. Of one that was refused, nothing was of use.
bool RunOnce(Sums& sums, const Execution& run, double limit) {
  const bool fits = run.peak <= limit;
  sums.reserved += limit * run.hours * (fits ? 1 : run.until_refused);
  if (fits) sums.used += run.peak * run.hours;
  return fits;
}

// By hand: the first run has the whole GPU. Later runs ask for `times` times what it used; a run that is
// refused asks for twice as much next.
struct ByHand {
  double times;
  bool power_of_two;
  double limit = kGpu;
  bool known = false;

  void Submit(Sums& sums, const Execution& run) {
    if (!RunOnce(sums, run, limit)) {
      ++sums.refused;
      while (limit < run.peak) limit = std::min(limit * 2, kGpu);
      RunOnce(sums, run, limit);
    }
    if (!known)
      limit = std::min(kGpu, power_of_two ? std::exp2(std::ceil(std::log2(run.peak * times)))
                                          : std::ceil(run.peak * times));
    known = true;
  }
};

double InGib(Bytes bytes) { return static_cast<double>(bytes.count) / static_cast<double>(GiB(1).count); }
Bytes FromGib(double gib) { return {static_cast<std::uint64_t>(gib * static_cast<double>(GiB(1).count))}; }

struct Auto {
  PastRuns past;
  base::JobId last{};

  void Learn(const std::string& name, const Execution& run, double limit) {
    ++last.value;
    const base::WallTime at(base::Millis(last.value));
    if (run.peak <= limit)
      past.Add("ann", name, {last, at, FromGib(run.peak), {}, true});
    else  // it was refused 0.5 GiB, as far as it needed so much more
      past.Add("ann", name, {last, at, FromGib(limit), FromGib(std::min(run.peak, limit + 0.5)), false});
  }

  void Submit(Sums& sums, const std::string& name, const Execution& run) {
    const auto size = EstimateMemory({name, past.Of("ann", name), FromGib(kGpu)}).size;
    const double limit = size ? InGib(*size) : kGpu;
    Learn(name, run, limit);
    if (RunOnce(sums, run, limit)) return;
    ++sums.refused;
    const double next =
        InGib(*NextLargerMemory(FromGib(limit), FromGib(std::min(run.peak, limit + 0.5)), FromGib(kGpu)));
    Learn(name, run, next);
    if (!RunOnce(sums, run, next)) ++sums.failed;
  }
};

TEST(MemoryEstimateTest, SimulatedRunsReserveMuchLessThanByHandAndAreRarelyRefused) {
  constexpr int kNames = 50, kRuns = 200;
  constexpr std::array kKindNames{"fixed", "jitter", "growth", "two inputs", "outliers"};
  Random random(20'261'127);
  Sums automatic, doubled, rounded;
  std::array<int, Program::kKinds> refused{};
  Auto history;
  for (int i = 0; i < kNames; ++i) {
    const auto kind = static_cast<Program::Kind>(i % Program::kKinds);
    const Program program(kind, random);
    ByHand twice{2, false}, twice_rounded{2, true};
    const int before = automatic.refused;
    for (int at = 0; at < kRuns; ++at) {
      const Execution run{program.Peak(static_cast<double>(at) / kRuns, random), random.LogUniform(0.1, 10),
                          random.Uniform(0, 1)};
      history.Submit(automatic, fmt::format("name{}", i), run);
      twice.Submit(doubled, run);
      twice_rounded.Submit(rounded, run);
    }
    refused.at(kind) += automatic.refused - before;
  }
  constexpr double kJobs = kNames * kRuns;
  const auto print = [&](const char* how, const Sums& sums) {
    fmt::print(
        "simulated: {:<40} {:>9.0f} GiB-hours reserved, {:>8.0f} unused, {:.2f} % of first runs refused\n",
        how, sums.reserved, sums.Unused(), 100 * sums.refused / kJobs);
  };
  print("by hand, twice the first run, power of 2", rounded);
  print("by hand, twice the first run", doubled);
  print("--memory auto", automatic);
  fmt::print(
      "simulated: unused {:.1f} % less than by hand (power of 2), {:.1f} % less than twice; {} of {:.0f} "
      "jobs refused "
      "twice\n",
      100 * (1 - automatic.Unused() / rounded.Unused()), 100 * (1 - automatic.Unused() / doubled.Unused()),
      automatic.failed, kJobs);
  for (std::size_t kind = 0; kind < refused.size(); ++kind)
    fmt::print("simulated: {:<12} {} of {} first runs refused\n", kKindNames[kind], refused[kind],
               kNames / Program::kKinds * kRuns);
  EXPECT_LT(automatic.Unused(), 0.7 * rounded.Unused());
  EXPECT_LT(automatic.Unused(), 0.7 * doubled.Unused());
  EXPECT_LE(automatic.refused, 0.01 * kJobs);
}

}  // namespace
}  // namespace gpuman::queue
