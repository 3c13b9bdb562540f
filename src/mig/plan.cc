#include "mig/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "base/words.h"
#include "mig/placement.h"

namespace gpuman::mig {
namespace {

constexpr base::Words<StepKind, 6> kKinds{{{StepKind::kDestroyCompute, "destroy_compute"},
                                           {StepKind::kDestroyGpu, "destroy_gpu"},
                                           {StepKind::kDisable, "disable"},
                                           {StepKind::kEnable, "enable"},
                                           {StepKind::kCreateGpu, "create_gpu"},
                                           {StepKind::kCreateCompute, "create_compute"}}};

using Mask = std::uint32_t;
constexpr std::size_t kMaxInstances = 16;  // on a device; today's biggest device has 7

bool IsBusy(const GpuMigState& device, const GpuInstance& instance) {
  return std::any_of(device.processes.begin(), device.processes.end(),
                     [&](const MigProcess& process) { return process.instance == instance.id; });
}

bool IsBusy(const GpuMigState& device, const GpuInstance& instance, const ComputeInstance& compute) {
  return std::any_of(device.processes.begin(), device.processes.end(), [&](const MigProcess& process) {
    return process.instance == instance.id && process.compute.value_or(compute.id) == compute.id;
  });
}

// How the compute instances of a GPU instance that stays change.
struct ComputeChange {
  std::vector<ComputeInstance> gone;
  std::vector<unsigned> missing;  // slices, the biggest first
  unsigned busy = 0;              // the number of those in `gone` that are in use
  auto Cost() const { return std::tuple(busy, gone.size(), missing.size()); }
};

ComputeChange ChangeCompute(const GpuMigState& device, const GpuInstance& instance,
                            std::vector<unsigned> wanted) {
  ComputeChange change;
  auto now = instance.compute;
  // Instances in use are the first to be kept.
  std::stable_partition(now.begin(), now.end(),
                        [&](const ComputeInstance& each) { return IsBusy(device, instance, each); });
  for (const auto& each : now) {
    const auto same = std::find(wanted.begin(), wanted.end(), each.slices);
    if (same != wanted.end()) {
      wanted.erase(same);
      continue;
    }
    change.busy += IsBusy(device, instance, each) ? 1U : 0U;
    change.gone.push_back(each);
  }
  std::sort(wanted.begin(), wanted.end(), std::greater<>());
  change.missing = std::move(wanted);
  return change;
}

// One way to the wanted state: the instances that stay, the wanted instance that each of them serves, and the
// places of the other wanted instances.
struct Way {
  std::vector<std::pair<std::size_t, ComputeChange>> kept;  // instances of the device, by index
  std::vector<std::size_t> gone;
  std::vector<std::pair<WantedInstance, MigPlacement>> made;
  using Cost = std::tuple<unsigned, std::size_t, std::size_t>;
  Cost cost;  // instances in use that go; GPU instances that go; compute instances that change
};

class Planner {
 public:
  Planner(const GpuMigState& device, std::vector<WantedInstance> wanted)
      : device_(device), wanted_(std::move(wanted)) {}

  std::optional<Way> Best() {
    std::optional<Way> best;
    const std::size_t count = std::min(device_.instances.size(), kMaxInstances);
    for (Mask kept = 0; kept < Mask{1} << count; ++kept) {
      auto way = Try(kept);
      if (way && (!best || way->cost < best->cost)) best = std::move(way);
    }
    return best;
  }

 private:
  // The wanted instance with this profile whose compute instances need the fewest changes.
  std::optional<std::pair<std::size_t, ComputeChange>> Match(const GpuInstance& instance,
                                                             const std::vector<bool>& matched) const {
    std::optional<std::pair<std::size_t, ComputeChange>> best;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (matched[i] || wanted_[i].profile != instance.profile) continue;
      auto change = ChangeCompute(device_, instance, wanted_[i].compute);
      if (!best || change.Cost() < best->second.Cost()) best = {i, std::move(change)};
    }
    return best;
  }

  std::optional<Way> Try(Mask mask) const {
    Way way;
    std::vector<bool> matched(wanted_.size());
    std::vector<PlacedInstance> placed;
    unsigned busy = 0;
    std::size_t compute = 0;
    for (std::size_t i = 0; i < device_.instances.size(); ++i) {
      const auto& instance = device_.instances[i];
      if (i >= kMaxInstances || (mask >> i & 1) == 0) {
        way.gone.push_back(i);
        busy += IsBusy(device_, instance) ? 1U : 0U;
        continue;
      }
      auto match = Match(instance, matched);
      if (!match) return std::nullopt;
      matched[match->first] = true;
      busy += match->second.busy;
      compute += match->second.gone.size() + match->second.missing.size();
      placed.push_back({instance.profile, instance.placement});
      way.kept.emplace_back(i, std::move(match->second));
    }
    std::vector<WantedInstance> rest;
    std::vector<std::size_t> profiles;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (matched[i]) continue;
      rest.push_back(wanted_[i]);
      profiles.push_back(wanted_[i].profile);
    }
    const auto found = FindPlacements(device_.geometry, placed, profiles);
    if (!found) return std::nullopt;
    for (std::size_t i = 0; i < rest.size(); ++i) way.made.emplace_back(rest[i], (*found)[i].placement);
    way.cost = {busy, way.gone.size(), compute};
    return way;
  }

  const GpuMigState& device_;
  const std::vector<WantedInstance> wanted_;
};

void DestroyCompute(const GpuInstance& instance, const ComputeInstance& compute, Plan& plan) {
  plan.steps.push_back({StepKind::kDestroyCompute, instance.profile, instance.placement, instance.id,
                        compute.id, compute.slices});
}

void DestroyGpu(const GpuInstance& instance, Plan& plan) {
  for (const auto& compute : instance.compute) DestroyCompute(instance, compute, plan);
  plan.steps.push_back({StepKind::kDestroyGpu, instance.profile, instance.placement, instance.id});
}

void CreateCompute(std::size_t profile, const MigPlacement& placement, std::span<const unsigned> compute,
                   Plan& plan) {
  for (const unsigned slices : compute)
    plan.steps.push_back({StepKind::kCreateCompute, profile, placement, 0, 0, slices});
}

void AddInTheWay(const GpuMigState& device, const std::function<bool(const MigProcess&)>& is_hit,
                 Plan& plan) {
  for (const auto& process : device.processes)
    if (is_hit(process)) plan.in_the_way.push_back(process);
}

Plan PlanOf(const GpuMigState& device, Way way) {
  Plan plan;
  std::set<std::pair<unsigned, unsigned>> gone;  // compute instances, by GPU instance
  std::set<unsigned> gone_whole;
  // Destroys compute instances first, in all GPU instances.
  for (const auto& [index, change] : way.kept) {
    const auto& instance = device.instances[index];
    plan.kept.push_back(instance.id);
    for (const auto& compute : change.gone) {
      DestroyCompute(instance, compute, plan);
      gone.emplace(instance.id, compute.id);
    }
  }
  for (const auto index : way.gone) {
    gone_whole.insert(device.instances[index].id);
    DestroyGpu(device.instances[index], plan);
  }
  AddInTheWay(
      device,
      [&](const MigProcess& process) {
        if (!process.instance) return false;
        if (gone_whole.contains(*process.instance)) return true;
        return std::any_of(gone.begin(), gone.end(), [&](const auto& each) {
          return each.first == *process.instance && process.compute.value_or(each.second) == each.second;
        });
      },
      plan);
  for (const auto& [index, change] : way.kept)
    CreateCompute(device.instances[index].profile, device.instances[index].placement, change.missing, plan);
  std::stable_sort(way.made.begin(), way.made.end(), [](const auto& a, const auto& b) {
    return std::pair(b.second.size, a.second.start) < std::pair(a.second.size, b.second.start);
  });
  for (const auto& [wanted, placement] : way.made) {
    plan.steps.push_back({StepKind::kCreateGpu, wanted.profile, placement});
    CreateCompute(wanted.profile, placement, wanted.compute, plan);
  }
  return plan;
}

Plan PlanToClear(const GpuMigState& device) {
  Plan plan;
  for (const auto& instance : device.instances) DestroyGpu(instance, plan);
  return plan;
}

Plan PlanToDisable(const GpuMigState& device) {
  Plan plan = PlanToClear(device);
  if (device.enabled || device.pending) {
    plan.steps.push_back({StepKind::kDisable});
    AddInTheWay(
        device, [](const MigProcess&) { return true; }, plan);
  }
  return plan;
}

}  // namespace

std::string_view ToString(StepKind kind) { return base::WordOf(kKinds, kind); }

base::Result<Plan> MakePlan(const GpuMigState& device, const WantedLayout& wanted) {
  if (wanted.keep_mode || !wanted.enabled) {
    if (!wanted.items.empty())
      return base::Fail(base::ErrorCode::kInvalidArgument, "instances need MIG mode on");
    return wanted.keep_mode ? PlanToClear(device) : PlanToDisable(device);
  }
  GPUMAN_ASSIGN(auto instances, Resolve(device.geometry, wanted.items));
  std::vector<std::size_t> profiles;
  for (const auto& instance : instances) profiles.push_back(instance.profile);
  auto way = Planner(device, std::move(instances)).Best();
  // If no instance stays, the most places are free. So if the wanted instances fit at all, the way that keeps
  // none exists.
  if (!way) return base::Fail(WhyNot(device.geometry, profiles));
  Plan plan = PlanOf(device, std::move(*way));
  if (!device.enabled || !device.pending) {
    plan.steps.insert(plan.steps.begin(), {StepKind::kEnable});
    plan.in_the_way = device.processes;
  }
  return plan;
}

bool IsLost(const GpuMigState& device, const WantedLayout& wanted) {
  if (!wanted.enabled) return false;
  if (!device.enabled) return !device.pending;
  return device.instances.empty() && !wanted.items.empty();
}

std::string Describe(const Geometry& geometry, const MigStep& step) {
  const auto name = [&] { return geometry[step.profile].name; };
  const auto part = [&] {
    const bool is_whole = step.slices == geometry[step.profile].slices;
    return is_whole ? std::string("the compute instance")
                    : fmt::format("a compute instance of {} slice(s)", step.slices);
  };
  const auto where = [&] { return fmt::format("{} at slice {}", name(), step.placement.start); };
  switch (step.kind) {
    case StepKind::kDestroyCompute:
      return fmt::format("destroy {} of {}", part(), where());
    case StepKind::kDestroyGpu:
      return fmt::format("destroy {}", where());
    case StepKind::kDisable:
      return "turn MIG mode off";
    case StepKind::kEnable:
      return "turn MIG mode on";
    case StepKind::kCreateGpu:
      return fmt::format("create {}", where());
    case StepKind::kCreateCompute:
      return fmt::format("create {} of {}", part(), where());
  }
  return "";
}

base::Error InTheWay(const Plan& plan, const std::set<pid_t>& own) {
  std::vector<std::string> names;
  for (const auto& process : plan.in_the_way)
    names.push_back(
        own.contains(process.pid)
            ? fmt::format("{} (gpuman's own, for jobs that are suspended or take turns)", process.pid)
        : process.name.empty() ? std::to_string(process.pid)
                               : fmt::format("{} ({})", process.pid, process.name));
  return {base::ErrorCode::kConflict,
          fmt::format("{} where something has to change: {}",
                      names.size() == 1 ? "1 process runs" : fmt::format("{} processes run", names.size()),
                      fmt::join(names, ", ")),
          "end them, or wait until they have ended; gpuman mig plan shows the steps"};
}

}  // namespace gpuman::mig
