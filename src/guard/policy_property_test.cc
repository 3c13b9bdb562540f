// Properties of the guard on any machine: random machines run for a while, with processes that grow, shrink
// and, after a signal, end at once, later or never.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <set>

#include "guard/policy.h"
#include "guard/test_machine.h"

namespace gpuman::guard {
namespace {

struct World {
  PolicySettings settings;
  std::vector<JobSnapshot> jobs;
  std::vector<GpuSnapshot> gpus;
  std::map<Target, std::int64_t> leaving;  // when the target ends
};

Target TargetOfProcess(const gpu::AttributedProcess& process) {
  return process.job ? Target{process.job, {}} : Target{std::nullopt, process.id};
}

Target TargetOfAction(const Action& action) {
  return action.job ? Target{action.job, {}} : Target{std::nullopt, *action.process};
}

World MakeWorld() {
  World world;
  world.settings.grace = base::Millis(*rc::gen::element(0, 0, 50));
  world.settings.unmanaged_victims = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>())
    world.settings.unmanaged = {
        {std::nullopt, {base::MiB(1500)}, *rc::gen::element(UnmanagedMode::kWarn, UnmanagedMode::kEnforce)}};
  const auto jobs = *rc::gen::inRange<std::int64_t>(0, 6);
  for (std::int64_t id = 1; id <= jobs; ++id) {
    auto job =
        Job(id, *rc::gen::element<std::uint64_t>(0, 1000, 3000), *rc::gen::element<std::uint64_t>(0, 500));
    job.priority = *rc::gen::inRange(0, 3);
    job.started_at = At(-*rc::gen::inRange(1, 4));
    if (*rc::gen::inRange(0, 8) == 0) job.ending_since = At(-1);
    world.jobs.push_back(job);
  }
  pid_t pid = 1;
  for (unsigned index = 0; index < 2; ++index) {
    std::vector<gpu::AttributedProcess> processes;
    const int count = *rc::gen::inRange(0, 8);
    for (int i = 0; i < count; ++i, ++pid) {
      const auto owner = *rc::gen::inRange<std::int64_t>(0, jobs + 2);
      auto process = Process(pid, owner >= 1 && owner <= jobs ? std::optional(owner) : std::nullopt, 100,
                             *rc::gen::element<uid_t>(0, 1000, 1001));
      process.name = *rc::gen::element<std::string>("python", "Xorg", "gnome-shell");
      process.kind = *rc::gen::element(gpu::ProcessKind::kCompute, gpu::ProcessKind::kGraphics);
      if (*rc::gen::inRange(0, 10) == 0) process.id.start_time = 0;
      processes.push_back(process);
    }
    world.gpus.push_back(Gpu(0, processes, index));
    world.gpus.back().reserve = base::MiB(*rc::gen::element<std::uint64_t>(0, 2000, 8000));
  }
  return world;
}

// Advances everything by a step; `now` in milliseconds.
void Move(World& world, std::int64_t now) {
  for (auto& gpu : world.gpus) {
    gpu.ok = *rc::gen::inRange(0, 10) != 0;
    if (gpu.ok) gpu.taken_at = At(now);
    std::erase_if(gpu.processes, [&](const auto& process) {
      const auto it = world.leaving.find(TargetOfProcess(process));
      return it != world.leaving.end() && it->second <= now;
    });
    base::Bytes used;
    for (auto& process : gpu.processes) {
      process.memory = base::MiB(*rc::gen::element<std::uint64_t>(0, 100, 500, 1000, 2900));
      if (*rc::gen::inRange(0, 12) == 0) process.memory.reset();
      used += process.memory.value_or(base::Bytes{});
    }
    gpu.used = std::min(used, gpu.total);  // the figures of processes may overlap
    gpu.free = gpu.total - gpu.used;
  }
}

bool Fresh(const World& world, const GpuSnapshot& gpu, base::MonoTime now) {
  return gpu.ok && now - gpu.taken_at <= world.settings.max_age;
}

const GpuSnapshot& GpuOf(const World& world, const Action& action) {
  return *std::find_if(world.gpus.begin(), world.gpus.end(),
                       [&](const auto& gpu) { return gpu.uuid == action.event.gpu; });
}

const gpu::AttributedProcess* Find(const World& world, base::ProcessId id) {
  for (const auto& gpu : world.gpus)
    for (const auto& process : gpu.processes)
      if (process.id == id) return &process;
  return nullptr;
}

// An end may begin only for a cause that the sample shows.
void CheckCause(const World& world, const Action& action, base::MonoTime now) {
  const GpuSnapshot& gpu = GpuOf(world, action);
  RC_ASSERT(Fresh(world, gpu, now));
  if (action.event.kind == kHardLimit) {
    const auto job = std::find_if(world.jobs.begin(), world.jobs.end(),
                                  [&](const auto& one) { return one.id == action.job; });
    RC_ASSERT(UsageOf(*action.job, gpu.processes).known > *job->limits.at(gpu.uuid).hard);
    RC_ASSERT(gpu.taken_at > job->started_at);
  }
  if (action.event.kind == kDevicePressure) RC_ASSERT(gpu.free < gpu.reserve);
  if (!action.process) return;
  const auto* process = Find(world, *action.process);
  RC_ASSERT(process != nullptr);
  RC_ASSERT(!process->job);
  RC_ASSERT(!IsProtected(*process, world.settings));
  if (action.event.kind == kDevicePressure) RC_ASSERT(world.settings.unmanaged_victims);
  if (action.event.kind == kUnmanagedLimit)
    RC_ASSERT(world.settings.unmanaged.at(0).mode == UnmanagedMode::kEnforce && process->uid != uid_t{0});
}

TEST(GuardProperty, ActsOnlyWithACauseAndAlwaysWithOne) {
  EXPECT_TRUE(rc::check("cause and action", [] {
    World world = MakeWorld();
    PolicyState state;
    std::set<Target> begun;
    for (std::int64_t now = 10; now < 600; now += *rc::gen::inRange(1, 60)) {
      Move(world, now);
      const auto actions = Decide({world.gpus, world.jobs}, world.settings, At(now), state);
      for (const auto& action : actions) {
        if (action.what == ActionKind::kTell) continue;
        RC_ASSERT(action.job.has_value() != action.process.has_value());
        const Target target = TargetOfAction(action);
        RC_ASSERT(action.first == begun.insert(target).second);
        if (action.first) CheckCause(world, action, At(now));
        if (action.what == ActionKind::kKill && !world.leaving.contains(target))
          world.leaving[target] = now + *rc::gen::inRange(1, 400);
      }
      for (const auto& gpu : world.gpus)
        for (const auto& job : world.jobs) {
          const auto limit = job.limits.find(gpu.uuid);
          if (!Fresh(world, gpu, At(now)) || limit == job.limits.end() || !limit->second.hard) continue;
          if (UsageOf(job.id, gpu.processes).known <= *limit->second.hard) continue;
          RC_ASSERT(begun.contains(Target{job.id, {}}));
        }
    }
    // Every target that was asked to end is killed in the end, with samples or without.
    for (auto& gpu : world.gpus) gpu.ok = false;
    Decide({world.gpus, world.jobs}, world.settings, At(10'000), state);
    RC_ASSERT(!NextDeadline(state));
    for (const auto& target : begun)
      if (target.job) RC_ASSERT(state.jobs.at(*target.job).ending.stage == EndingStage::kKilled);
  }));
}

TEST(GuardProperty, HasAtMostOnePressureVictimInFlightOnAGpu) {
  EXPECT_TRUE(rc::check("one at a time", [] {
    World world = MakeWorld();
    PolicyState state;
    std::map<std::string, std::set<Target>> victims;
    for (std::int64_t now = 10; now < 800; now += *rc::gen::inRange(1, 60)) {
      Move(world, now);
      for (auto& [uuid, some] : victims)
        std::erase_if(some, [&](const Target& target) {
          const auto it = world.leaving.find(target);
          return it != world.leaving.end() && it->second <= now;
        });
      for (const auto& action : Decide({world.gpus, world.jobs}, world.settings, At(now), state)) {
        if (action.what == ActionKind::kTell) continue;
        if (action.first && action.event.kind == kDevicePressure)
          victims[*action.event.gpu].insert(TargetOfAction(action));
        if (action.what == ActionKind::kKill)
          world.leaving.try_emplace(TargetOfAction(action), now + *rc::gen::inRange(1, 400));
      }
      for (const auto& [uuid, some] : victims) RC_ASSERT(some.size() <= 1u);
    }
  }));
}

TEST(GuardProperty, EndsForPressureOnlyWhoWasAskedToLeaveAndCouldNot) {
  EXPECT_TRUE(rc::check("suspended before it is ended", [] {
    World world = MakeWorld();
    world.settings.on_pressure = OnPressure::kSuspend;
    world.settings.suspend_patience = base::Millis(500);
    PolicyState state;
    std::map<JobId, std::int64_t> asked, arrives, refuses;
    for (std::int64_t now = 10; now < 3000; now += *rc::gen::inRange(1, 120)) {
      Move(world, now);
      for (auto& job : world.jobs) {
        if (arrives.contains(job.id) && arrives[job.id] <= now) {
          job.residency = JobResidency::kOff;
          job.residency_since = At(now);
          arrives.erase(job.id);
          asked.erase(job.id);
        } else if (refuses.contains(job.id) && refuses[job.id] <= now) {
          job.residency = JobResidency::kOnGpu;
          job.refusal = SuspensionRefusal{At(now), "no"};
          refuses.erase(job.id);
        } else if (job.residency == JobResidency::kOff && *rc::gen::inRange(0, 6) == 0) {
          job.residency = JobResidency::kOnGpu;
        }
      }
      for (const auto& action : Decide({world.gpus, world.jobs}, world.settings, At(now), state)) {
        if (action.what == ActionKind::kTell || !action.first) {
          if (action.what != ActionKind::kSuspend) continue;
        }
        if (action.what != ActionKind::kSuspend && (action.event.kind != kDevicePressure || !action.job))
          continue;
        const GpuSnapshot& gpu = GpuOf(world, action);
        RC_ASSERT(gpu.free < gpu.reserve);
        auto job = std::find_if(world.jobs.begin(), world.jobs.end(),
                                [&](const auto& one) { return one.id == action.job; });
        RC_ASSERT(job->residency != JobResidency::kOff);
        const GuardUsage usage = UsageOf(job->id, gpu.processes);
        if (action.what == ActionKind::kSuspend) {
          RC_ASSERT(!asked.contains(job->id));
          RC_ASSERT(usage.known + gpu.reserve <= gpu.total && usage.unknown == 0u);
          asked[job->id] = now;
          job->residency = JobResidency::kLeaving;
          job->residency_since = At(now);
          const int how = *rc::gen::inRange(0, 3);
          if (how == 0) arrives[job->id] = now + *rc::gen::inRange(1, 900);
          if (how == 1) refuses[job->id] = now + *rc::gen::inRange(1, 900);
        } else {
          const bool refused =
              asked.contains(job->id) && job->refusal && job->refusal->at >= At(asked[job->id]);
          const bool late = asked.contains(job->id) && now - asked[job->id] >= 500;
          const bool could_not_return = usage.known + gpu.reserve > gpu.used + gpu.free || usage.unknown > 0;
          RC_ASSERT(refused || late || could_not_return);
        }
      }
    }
  }));
}

TEST(GuardProperty, ChoosesTheSameVictimHoweverThingsAreOrdered) {
  EXPECT_TRUE(rc::check("order does not matter", [] {
    World world = MakeWorld();
    Move(world, 10);
    for (auto& gpu : world.gpus) gpu.ok = true;
    PolicyState state, shuffled_state;
    const auto actions = Decide({world.gpus, world.jobs}, world.settings, At(10), state);
    for (auto& gpu : world.gpus) std::reverse(gpu.processes.begin(), gpu.processes.end());
    std::rotate(world.jobs.begin(), world.jobs.begin() + static_cast<std::ptrdiff_t>(world.jobs.size() / 2),
                world.jobs.end());
    auto words = Words(actions);
    auto shuffled = Words(Decide({world.gpus, world.jobs}, world.settings, At(10), shuffled_state));
    std::sort(words.begin(), words.end());
    std::sort(shuffled.begin(), shuffled.end());
    RC_ASSERT(words == shuffled);
  }));
}

}  // namespace
}  // namespace gpuman::guard
