#include "mig/applier.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mig/reader.h"

namespace gpuman::mig {
namespace {

namespace abi = driver::abi;
using base::ErrorCode;

class Worker {
 public:
  Worker(const driver::Nvml& nvml, std::string uuid, const Geometry& geometry)
      : nvml_(nvml), uuid_(std::move(uuid)), geometry_(geometry) {}

  base::Result<> Do(const MigStep& step) {
    // Looks up the device again for each step, because a change of the mode invalidates all handles.
    GPUMAN_ASSIGN(device_, nvml_.DeviceByUuid(uuid_));
    switch (step.kind) {
      case StepKind::kDestroyCompute:
        return DestroyCompute(step);
      case StepKind::kDestroyGpu:
        return DestroyGpu(step);
      case StepKind::kDisable:
        return SetMode(false);
      case StepKind::kEnable:
        return SetMode(true);
      case StepKind::kCreateGpu:
        return CreateGpu(step);
      case StepKind::kCreateCompute:
        return CreateCompute(step);
    }
    return {};
  }

  base::Result<> Undo(const MigStep& step) {
    MigStep back = step;
    switch (step.kind) {
      case StepKind::kDestroyCompute:
        back.kind = StepKind::kCreateCompute;
        break;
      case StepKind::kDestroyGpu:
        back.kind = StepKind::kCreateGpu;
        break;
      case StepKind::kDisable:
        back.kind = StepKind::kEnable;
        break;
      case StepKind::kEnable:
        back.kind = StepKind::kDisable;
        break;
      case StepKind::kCreateGpu:
        back.kind = StepKind::kDestroyGpu;
        break;
      case StepKind::kCreateCompute:
        back.kind = StepKind::kDestroyCompute;
        back.compute = made_.empty() ? 0 : made_.back();
        if (!made_.empty()) made_.pop_back();
        break;
    }
    return Do(back);
  }

  const std::string& needs_reset() const { return needs_reset_; }

 private:
  const MigProfile& ProfileOf(const MigStep& step) const { return geometry_[step.profile]; }

  base::Result<abi::nvmlGpuInstance_t> InstanceOf(const MigStep& step) const {
    return FindInstance(nvml_, device_, ProfileOf(step), step.placement);
  }

  base::Result<> SetMode(bool on) {
    auto activation = abi::NVML_SUCCESS;
    const unsigned mode = on ? abi::NVML_DEVICE_MIG_ENABLE : abi::NVML_DEVICE_MIG_DISABLE;
    GPUMAN_TRY(GPUMAN_MIG_CALL(nvml_, nvmlDeviceSetMigMode, device_, mode, &activation));
    GPUMAN_ASSIGN(device_, nvml_.DeviceByUuid(uuid_));
    GPUMAN_ASSIGN(const auto now, nvml_.MigMode(device_));
    if (now.enabled == on) return {};
    needs_reset_ = fmt::format("MIG mode is {} from the next reset of the GPU on ({})", on ? "on" : "off",
                               driver::Nvml::Describe("the driver", activation).message);
    return {};
  }

  base::Result<> CreateGpu(const MigStep& step) {
    const abi::nvmlGpuInstancePlacement_t placement{step.placement.start, step.placement.size};
    abi::nvmlGpuInstance_t made = nullptr;
    return GPUMAN_MIG_CALL(nvml_, nvmlDeviceCreateGpuInstanceWithPlacement, device_, ProfileOf(step).id,
                           &placement, &made);
  }

  base::Result<> DestroyGpu(const MigStep& step) {
    GPUMAN_ASSIGN(auto* const instance, InstanceOf(step));
    return GPUMAN_MIG_CALL(nvml_, nvmlGpuInstanceDestroy, instance);
  }

  // Of the profiles with this number of slices, takes the one with the most multiprocessors: a 1g with twice
  // the memory has more multiprocessors than its plain compute instance uses.
  base::Result<> CreateCompute(const MigStep& step) {
    GPUMAN_ASSIGN(auto* const instance, InstanceOf(step));
    GPUMAN_ASSIGN(const auto profiles, ComputeProfilesOf(nvml_, instance));
    const ComputeProfile* best = nullptr;
    for (const auto& profile : profiles)
      if (profile.slices == step.slices &&
          (best == nullptr || profile.multiprocessors > best->multiprocessors))
        best = &profile;
    if (best == nullptr)
      return base::Fail(ErrorCode::kUnsatisfiable, fmt::format("{} has no compute instance of {} slices",
                                                               ProfileOf(step).name, step.slices));
    abi::nvmlComputeInstance_t made = nullptr;
    GPUMAN_TRY(GPUMAN_MIG_CALL(nvml_, nvmlGpuInstanceCreateComputeInstance, instance, best->id, &made));
    abi::nvmlComputeInstanceInfo_t info{};
    GPUMAN_TRY(GPUMAN_MIG_CALL(nvml_, nvmlComputeInstanceGetInfo_v2, made, &info));
    made_.push_back(info.id);
    return {};
  }

  base::Result<> DestroyCompute(const MigStep& step) {
    GPUMAN_ASSIGN(auto* const instance, InstanceOf(step));
    GPUMAN_ASSIGN(const auto profiles, ComputeProfilesOf(nvml_, instance));
    for (const auto& profile : profiles) {
      if (profile.slices != step.slices) continue;
      GPUMAN_ASSIGN(const auto handles, ComputesOf(nvml_, instance, profile));
      for (auto* const handle : handles) {
        abi::nvmlComputeInstanceInfo_t info{};
        GPUMAN_TRY(GPUMAN_MIG_CALL(nvml_, nvmlComputeInstanceGetInfo_v2, handle, &info));
        if (info.id == step.compute) return GPUMAN_MIG_CALL(nvml_, nvmlComputeInstanceDestroy, handle);
      }
    }
    return base::Fail(ErrorCode::kNotFound,
                      fmt::format("there is no compute instance {} any more", step.compute));
  }

  const driver::Nvml& nvml_;
  const std::string uuid_;
  const Geometry& geometry_;
  driver::NvmlDevice device_ = nullptr;
  std::vector<unsigned> made_;  // ids of the compute instances that were made, for undoing
  std::string needs_reset_;
};

// Undoes the steps before the failed one, and adds the result to its error.
base::Error RollBack(Worker& worker, const Geometry& geometry, std::span<const MigStep> done,
                     base::Error error) {
  std::vector<std::string> left;
  for (auto step = done.rbegin(); step != done.rend(); ++step)
    if (const auto undone = worker.Undo(*step); !undone)
      left.push_back(fmt::format("{} ({})", Describe(geometry, *step), undone.error().message));
  if (done.empty()) return error;
  error.message +=
      left.empty() ? "; it is as it was before" : fmt::format("; not undone: {}", fmt::join(left, ", "));
  return error;
}

}  // namespace

base::Result<ApplyResult> Apply(const driver::Nvml& nvml, const std::string& uuid, const WantedLayout& wanted,
                                const std::set<pid_t>& own) {
  ApplyResult applied;
  GPUMAN_ASSIGN(applied.before, ReadDevice(nvml, uuid));
  GPUMAN_ASSIGN(applied.plan, MakePlan(applied.before, wanted));
  const auto& steps = applied.plan.steps;
  if (!steps.empty() && !applied.plan.in_the_way.empty()) return base::Fail(InTheWay(applied.plan, own));
  Worker worker(nvml, uuid, applied.before.geometry);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (auto done = worker.Do(steps[i]); !done) {
      auto error = std::move(done.error()).In(Describe(applied.before.geometry, steps[i]));
      return base::Fail(
          RollBack(worker, applied.before.geometry, std::span(steps).first(i), std::move(error)));
    }
    applied.needs_reset = worker.needs_reset();
    if (!applied.needs_reset.empty()) return applied;
  }
  return applied;
}

}  // namespace gpuman::mig
