// Jobs that come, go, fail and change at random, in the model of test_world.h. The number of a world
// determines everything in it. For the tests of this folder.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "share/policy.h"
#include "share/test_world.h"

namespace gpuman::share {

inline constexpr double kModelBus = 20e9;

inline SchedulerSettings SettingsOf(std::mt19937_64& random) {
  const auto below = [&random](std::uint64_t most) { return random() % most; };
  SchedulerSettings settings;
  settings.policy = below(2) == 0 ? PolicyKind::kFair : static_cast<PolicyKind>(below(3));
  settings.quantum_min = base::Millis(200 + below(2000));
  settings.quantum_max = settings.quantum_min + base::Millis(below(8000));
  settings.idle = base::Millis(20 + below(300));
  settings.compute = below(2) == 0 ? ConcurrencyMode::kConcurrent : static_cast<ConcurrencyMode>(below(3));
  settings.compute_trial = base::Millis(2000);
  settings.compute_again = base::Millis(20'000);
  settings.on_no_yield = static_cast<OnNoYield>(below(3));
  settings.retry = base::Millis(3000);
  EXPECT_TRUE(Validate(settings));
  return settings;
}

inline std::map<std::string, base::Bytes> Gpus(unsigned count, base::Bytes bytes) {
  std::map<std::string, base::Bytes> gpus;
  for (unsigned i = 0; i < count; ++i) gpus[std::string(1, static_cast<char>('a' + i))] = bytes;
  return gpus;
}

// How long a tenant of a domain can wait at most under kFair, if all tenants yield and a hand-over takes at
// most `hand_over`, however many GPUs the tenants are on: each other tenant can use the time that it was
// behind (at most its credit, and a turn of the slowest weight twice), and then a turn. The bound is
// generous; `weights` are those of all tenants of the domain.
inline Span WaitBound(const SchedulerSettings& settings, const std::vector<double>& weights, Span hand_over) {
  if (weights.empty()) return {};
  const double least = *std::min_element(weights.begin(), weights.end());
  const Span quantum = std::max(Span(settings.quantum_max), Span(settings.compute_quantum));
  const Span longest_turn = kLongestTurn * quantum + 2 * hand_over;
  const Span behind = 2 * ((kCredit + kOverdraft) * quantum + longest_turn);
  Span sum = longest_turn;
  for (const double weight : weights)
    sum += std::chrono::duration_cast<Span>(behind * (weight / least)) + longest_turn;
  return sum;
}

class RandomWorld : public World {
 public:
  RandomWorld(std::uint64_t seed, bool faults, SchedulerSettings settings, base::Bytes gpu = base::GiB(16),
              unsigned gpus = 2)
      : World(std::move(settings), Gpus(gpus, gpu), kModelBus),
        random_(seed),
        faults_(faults),
        part_(gpu.count >> 14) {
    SetLog([this](const Action& action) {
      said_ << action.index() << '@' << now_.time_since_epoch().count() << ' ';
    });
  }

  std::uint64_t Below(std::uint64_t most) { return random_() % most; }
  Span Time(std::uint64_t most_ms) { return std::chrono::milliseconds(1 + Below(most_ms)); }
  std::string AnyGpu() {
    return std::next(capacities_.begin(), static_cast<std::ptrdiff_t>(Below(capacities_.size())))->first;
  }
  TenantId Any() { return TenantId{static_cast<std::int64_t>(1 + Below(jobs_.size()))}; }

  virtual void StartAny() {
    Program program;
    const std::uint64_t where = Below(5);
    if (where != 0) program.memory["a"] = Parts(200 + Below(15'000));
    if (where <= 1) program.memory["b"] = Parts(200 + Below(15'000));
    SetManner(program);
    Start(std::move(program));
  }
  // Sets all of the program but its memory.
  void SetManner(Program& program) {
    program.burst = Time(Below(2) == 0 ? 300 : 12'000);
    program.gap = Below(3) == 0 ? Span{} : Time(Below(2) == 0 ? 300 : 12'000);
    program.options.weight = static_cast<double>(1 + Below(4));
    program.options.priority = static_cast<int>(Below(3));
    program.pinned = Parts(Below(100));
    program.drain = Time(50);
    program.managed = Below(4) == 0;
    program.options.interactive = Below(4) == 0;
    if (with_shares_) program.options.compute = AnyShare();
    if (with_shares_) program.options.latency = Below(4) == 0;
  }
  // Some tenants ask for shares of the GPU's time, or go first.
  void GiveShares() { with_shares_ = true; }
  std::optional<ComputeShare> AnyShare() {
    if (Below(3) == 0) return std::nullopt;
    const double part = static_cast<double>(1 + Below(20)) / 20;
    return ComputeShare{part, Below(2) == 0};
  }

  // The most jobs that are there at once.
  virtual int Most() const { return 6; }
  virtual void RandomEvent() {
    if (jobs_.empty() || (Below(3) == 0 && Alive() < Most())) return StartAny();
    if (with_shares_ && Below(4) == 0) {
      const TenantId id = Any();
      Job& changed = jobs_.at(id);
      changed.program.options.compute = AnyShare();
      return Feed(event::OptionsChanged{id, changed.program.options});
    }
    switch (Below(faults_ ? 8 : 2)) {
      case 0:
        return End(Any());
      case 1:
      case 2:
        return;
      case 3:
        return Suspend(Any());
      case 4:
      case 5:
        return Resume(Any());
      case 6: {
        // In separate statements: compilers differ in which argument they draw first.
        const std::string gpu = AnyGpu();
        return SetCapacity(gpu, base::GiB(12 + Below(8)));
      }
      default: {
        SchedulerSettings settings = scheduler_.settings();
        settings.policy = static_cast<PolicyKind>(Below(3));
        settings.pause = Below(2) == 0;
        settings.compute = static_cast<ConcurrencyMode>(Below(3));
        return Feed(event::SettingsChanged{settings});
      }
    }
  }

  int Alive() const {
    return static_cast<int>(
        std::count_if(jobs_.begin(), jobs_.end(), [](const auto& each) { return each.second.alive; }));
  }

  // From now on nothing fails, all may run, and no tenant comes before another for good.
  void Calm() {
    faults_ = false;
    for (const auto& [gpu, bytes] : Gpus(static_cast<unsigned>(capacities_.size()), base::GiB(17)))
      SetCapacity(gpu, bytes);
    SchedulerSettings settings = scheduler_.settings();
    settings.pause = false;
    if (settings.policy == PolicyKind::kPriority) settings.policy = PolicyKind::kFair;
    Feed(event::SettingsChanged{settings});
    for (auto& [id, job] : jobs_) Resume(id);
  }

  Span Bound() const {
    std::vector<double> weights;
    for (const auto& [id, job] : jobs_)
      if (job.alive) weights.push_back(job.program.options.weight);
    if (!with_shares_) return WaitBound(scheduler_.settings(), weights, LongestHandOver());
    // The smallest rates that there may be, and a debt that has to be paid first.
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<double> rates;
    for (const auto& [id, job] : jobs_)
      if (job.alive)
        rates.push_back(job.program.options.compute
                            ? job.program.options.compute->part / static_cast<double>(weights.size())
                            : kPartOfOthers * job.program.options.weight / all);
    const double least = rates.empty() ? 1 : *std::min_element(rates.begin(), rates.end());
    return WaitBound(scheduler_.settings(), rates, LongestHandOver()) +
           std::chrono::duration_cast<Span>(std::chrono::duration<double>(kMaxOwed / least));
  }
  // On the GPU with the most memory; all buses copy at once.
  Span LongestHandOver() const {
    std::map<std::string, std::uint64_t> all;
    std::uint64_t most = 0;
    for (const auto& [id, job] : jobs_) {
      if (!job.alive) continue;
      for (const auto& [gpu, bytes] : job.program.memory) most = std::max(most, all[gpu] += bytes.count);
    }
    return TimeOf(most) + 1s;
  }

  std::map<TenantId, Job>& jobs() { return jobs_; }
  std::uint64_t HandOvers() {
    std::uint64_t sum = 0;
    for (const SharedGpuStatus& gpu : scheduler_.View(now_).gpus) sum += gpu.hand_overs;
    return sum;
  }
  // The memory of each job is on its GPU or away, to the byte, and the scheduler knows which.
  void ExpectNothingLost() {
    for (auto& [id, job] : jobs_) {
      if (!job.alive) continue;
      for (const auto& [gpu, bytes] : job.program.memory) {
        if (job.wanted.count(gpu) > 0) continue;
        EXPECT_EQ(job.here[gpu] + job.away[gpu] + job.managed[gpu], bytes) << "job " << id.value;
      }
    }
    for (const SharedGpuStatus& gpu : scheduler_.View(now_).gpus) {
      for (const TenantStatus& tenant : gpu.tenants) {
        EXPECT_EQ(tenant.demand.resident, jobs_.at(tenant.tenant).here[gpu.gpu]) << tenant.tenant.value;
        EXPECT_EQ(tenant.demand.away, jobs_.at(tenant.tenant).away[gpu.gpu]) << tenant.tenant.value;
      }
    }
  }
  std::string said() const { return said_.str(); }
  std::uint64_t events() const { return events_; }

 protected:
  bool FailsOut() override { return faults_ && Below(40) == 0; }
  bool FailsBack() override { return faults_ && Below(40) == 0; }
  std::optional<Span> ClosesAfter(const Job& job) override {
    if (!faults_ || Below(8) != 0) return job.program.drain;
    if (Below(2) == 0) return std::nullopt;
    return Time(12'000);
  }

  bool faults() const { return faults_; }
  base::Bytes Parts(std::uint64_t count) const { return {part_ * count}; }

 private:
  bool with_shares_ = false;
  std::mt19937_64 random_;
  bool faults_;
  std::uint64_t part_;  // of a GPU's 16,384
  std::ostringstream said_;
};

// Whatever happens, every job goes on in the end, and the scheduler comes to rest. Returns what it did.
inline std::string Live(RandomWorld& world) {
  for (int i = 0; i < 40 && !testing::Test::HasFailure(); ++i) {
    world.RandomEvent();
    world.RunFor(world.Time(4000));
  }
  // A closed tenant does get its turn. Earlier retries and late answers have passed by the first wait.
  world.Calm();
  world.RunFor(20s);
  std::map<TenantId, Span> computed;
  for (auto& [id, job] : world.jobs()) computed[id] = job.computed;
  const auto stays = [&](const auto& each) {
    return each.second.alive && each.second.computed <= computed[each.first];
  };
  const base::MonoTime end = world.now() + world.Bound() + 20s;
  const auto any_stays = [&] { return std::any_of(world.jobs().begin(), world.jobs().end(), stays); };
  while (world.now() < end && any_stays()) world.RunFor(5s);
  for (auto& each : world.jobs())
    EXPECT_FALSE(stays(each)) << "job " << each.first.value << " does not come on";
  // The scheduler comes to rest: the tenants that are left fit.
  while (world.Alive() > 1) {
    for (auto& [id, job] : world.jobs())
      if (job.alive) {
        world.End(id);
        break;
      }
  }
  for (auto& [id, job] : world.jobs()) {
    job.program.gap = {};
    world.Feed(event::OptionsChanged{id, {job.program.options.weight, job.program.options.priority}});
  }
  world.RunFor(60s);
  const std::string before = world.said();
  world.RunFor(100s);
  EXPECT_EQ(world.said(), before) << "it goes on without a reason";
  for (auto& [id, job] : world.jobs()) EXPECT_TRUE(!job.alive || job.open);
  EXPECT_FALSE(world.scheduler().Deadline()) << "a timer runs";
  return world.said();
}

}  // namespace gpuman::share
