#include "daemon/mig/views.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuman::daemon {
namespace {

std::vector<std::string> Words(const std::vector<mig::LayoutItem>& items) {
  std::vector<std::string> words;
  words.reserve(items.size());
  for (const auto& item : items) words.push_back(mig::FormatItem(item));
  return words;
}

std::vector<api::MigProcessView> ProcessViews(const std::vector<mig::MigProcess>& processes,
                                              std::optional<unsigned> instance, const OwnProcesses& own) {
  std::vector<api::MigProcessView> views;
  for (const auto& process : processes)
    if (!instance || process.instance == instance) {
      views.push_back({process.pid, process.name, own.all.contains(process.pid), {}, {}});
      const auto* const job = own.job_of ? own.job_of(process.pid) : nullptr;
      if (!job) continue;
      views.back().job = job->id.value;
      views.back().tag = job->tag;
    }
  return views;
}

api::MigProfileView ProfileView(const mig::MigProfile& profile) {
  api::MigProfileView view;
  view.name = profile.name;
  view.id = profile.id;
  view.slices = profile.slices;
  view.multiprocessors = profile.multiprocessors;
  view.memory = profile.memory;
  view.most = profile.most;
  view.decoders = profile.engines.decoders;
  view.jpegs = profile.engines.jpegs;
  view.ofas = profile.engines.ofas;
  for (const auto& placement : profile.placements) {
    view.size = placement.size;
    view.starts.push_back(placement.start);
  }
  return view;
}

api::MigInstanceView InstanceView(const mig::GpuMigState& device, const mig::GpuInstance& instance,
                                  const OwnProcesses& own) {
  const auto& profile = device.geometry[instance.profile];
  api::MigInstanceView view{instance.id,
                            profile.name,
                            instance.placement.start,
                            instance.placement.size,
                            profile.memory,
                            {},
                            ProcessViews(device.processes, instance.id, own)};
  for (const auto& compute : instance.compute)
    view.compute.push_back(
        {compute.id, compute.slices, compute.uuid.empty() ? std::nullopt : std::optional(compute.uuid), {}});
  return view;
}

std::optional<std::string> NumberByUuid(const gpu::Inventory& inventory,
                                        const std::optional<std::string>& uuid) {
  for (const auto& gpu : inventory.gpus)
    if (gpu.uuid == uuid) return gpu::NumberOf(gpu);
  return std::nullopt;
}

api::MigGpuChange ChangeView(const MigOutcome& outcome, const OwnProcesses& own) {
  api::MigGpuChange view;
  view.index = static_cast<int>(outcome.gpu.index);
  view.uuid = outcome.gpu.uuid;
  for (const auto& step : outcome.plan.steps) {
    api::MigStepView shown{std::string(ToString(step.kind)), Describe(outcome.before.geometry, step), {}, {}};
    if (step.kind != mig::StepKind::kEnable && step.kind != mig::StepKind::kDisable) {
      shown.profile = outcome.before.geometry[step.profile].name;
      shown.start = step.placement.start;
    }
    view.steps.push_back(std::move(shown));
  }
  view.kept = outcome.plan.kept;
  if (!outcome.plan.steps.empty()) view.in_the_way = ProcessViews(outcome.plan.in_the_way, {}, own);
  std::erase_if(view.in_the_way, [&](const auto& process) { return own.idle.contains(process.pid); });
  view.done = outcome.done;
  if (!outcome.needs_reset.empty()) view.needs_reset = outcome.needs_reset;
  if (outcome.error) view.error = outcome.error->message;
  return view;
}

}  // namespace

api::MigGpu MigGpuOf(const MigReading& reading, const mig::WantedLayout* wanted,
                     const gpu::Inventory& inventory, const OwnProcesses& own) {
  api::MigGpu view;
  view.index = static_cast<int>(reading.gpu.index);
  view.uuid = reading.gpu.uuid;
  view.name = reading.gpu.name;
  if (wanted) {
    view.wanted = Words(wanted->items);
    view.wanted_enabled = wanted->enabled;
  }
  view.supported = reading.device || reading.device.error().code != base::ErrorCode::kNotSupported;
  if (!reading.device) {
    view.error = reading.device.error().message;
    return view;
  }
  const auto& device = *reading.device;
  view.enabled = device.enabled;
  view.pending = device.pending;
  for (const auto& instance : device.instances) {
    view.instances.push_back(InstanceView(device, instance, own));
    for (auto& compute : view.instances.back().compute)
      compute.number = NumberByUuid(inventory, compute.uuid);
  }
  view.layout = Words(mig::ItemsOf(device.geometry, device.instances));
  for (const auto& profile : device.geometry) view.profiles.push_back(ProfileView(profile));
  if (wanted) {
    const auto plan = mig::MakePlan(device, *wanted);
    view.drifted = !plan || !plan->steps.empty();
  }
  return view;
}

api::MigChanges MigChangesOf(const std::vector<MigOutcome>& outcomes, const OwnProcesses& own) {
  api::MigChanges changes;
  for (const auto& outcome : outcomes) changes.gpus.push_back(ChangeView(outcome, own));
  return changes;
}

std::optional<base::Error> WhyNothing(const std::vector<MigOutcome>& outcomes) {
  if (std::any_of(outcomes.begin(), outcomes.end(), [](const auto& outcome) { return outcome.done; }))
    return std::nullopt;
  for (const auto& outcome : outcomes)
    if (outcome.error) return base::Error(*outcome.error).In(fmt::format("GPU {}", outcome.gpu.index));
  return std::nullopt;
}

std::vector<ExpectedDivision> DivisionsAfter(const std::vector<MigOutcome>& outcomes) {
  std::vector<ExpectedDivision> divisions;
  for (const auto& outcome : outcomes) {
    if (!outcome.done || !outcome.needs_reset.empty()) continue;
    ExpectedDivision division{outcome.gpu.uuid, outcome.wanted.enabled, 0};
    for (const auto& item : outcome.wanted.items) division.instances += item.count;
    divisions.push_back(std::move(division));
  }
  return divisions;
}

bool IsDivided(const std::vector<ExpectedDivision>& divisions, const gpu::Inventory& inventory) {
  return std::all_of(divisions.begin(), divisions.end(), [&](const ExpectedDivision& wanted) {
    bool split = false;
    std::size_t instances = 0;
    for (const auto& gpu : inventory.gpus) {
      if (gpu.uuid == wanted.uuid) split = gpu.split;
      if (gpu.mig && gpu.mig->parent == wanted.uuid) ++instances;
    }
    return split == wanted.split && instances == wanted.instances;
  });
}

base::Result<std::vector<MigOrder>> OrdersOf(const api::MigRequest& request,
                                             const gpu::Inventory& inventory) {
  std::vector<MigOrder> orders;
  if (request.devices.empty()) return base::Fail(base::ErrorCode::kInvalidArgument, "devices: names none");
  if (inventory.gpus.empty())
    return base::Fail(base::ErrorCode::kUnavailable, fmt::format("there is no GPU: {}", inventory.problem));
  for (const auto& entry : request.devices) {
    GPUMAN_ASSIGN(auto items, mig::ParseItems(entry.instances));
    if (entry.keep_mode && !request.forget)
      return base::Fail(base::ErrorCode::kInvalidArgument, "keep_mode: a layout that is kept has a mode",
                        "ask for forget as well, or for a mode by enabled");
    if ((entry.keep_mode || !entry.enabled) && !items.empty())
      return base::Fail(base::ErrorCode::kInvalidArgument, "instances need MIG mode on");
    GPUMAN_ASSIGN(auto gpus, gpu::SelectAll(inventory.gpus, entry.gpus));
    for (const auto& gpu : entry.gpus.empty() ? inventory.gpus : gpus)
      orders.push_back({gpu, entry.filters, {entry.enabled, items, entry.keep_mode}});
  }
  return orders;
}

}  // namespace gpuman::daemon
