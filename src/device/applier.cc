#include "device/applier.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/reader.h"

namespace gpuman::device {
namespace {

namespace abi = driver::abi;
using base::ErrorCode;

template <typename... Parameters, typename... Arguments>
base::Result<> Call(const char* name, abi::nvmlReturn_t (*function)(Parameters...), Arguments... arguments) {
  const auto status = function ? function(arguments...) : abi::NVML_ERROR_FUNCTION_NOT_FOUND;
  if (status == abi::NVML_SUCCESS) return {};
  auto error = driver::Nvml::Describe(name, status);
  if (error.failure == driver::NvmlFailure::kNoPermission)
    error.hint =
        "NVIDIA's driver lets only root change this: gpumand has to run as root, as the system service";
  if (status == abi::NVML_ERROR_IN_USE) error.hint = kInUseHint;
  return base::Fail(std::move(error));
}
#define GPUMAN_CALL(name, ...) Call(#name, calls.name, device __VA_OPT__(, ) __VA_ARGS__)

abi::nvmlEnableState_t Enabled(const Value& value) {
  return value.high != 0 ? abi::NVML_FEATURE_ENABLED : abi::NVML_FEATURE_DISABLED;
}

base::Result<> SetPower(const driver::NvmlCalls& calls, driver::NvmlDevice device, unsigned milliwatts) {
  if (calls.nvmlDeviceSetPowerManagementLimit_v2 == nullptr)
    return GPUMAN_CALL(nvmlDeviceSetPowerManagementLimit, milliwatts);
  abi::nvmlPowerValue_v2_t value{abi::nvmlPowerValue_v2, 0, milliwatts};
  return GPUMAN_CALL(nvmlDeviceSetPowerManagementLimit_v2, &value);
}

base::Result<> Set(const driver::NvmlCalls& calls, driver::NvmlDevice device, Setting setting,
                   const Value& value) {
  switch (setting) {
    case Setting::kPersistence:
      return GPUMAN_CALL(nvmlDeviceSetPersistenceMode, Enabled(value));
    case Setting::kComputeMode:
      return GPUMAN_CALL(nvmlDeviceSetComputeMode, static_cast<abi::nvmlComputeMode_t>(value.high));
    case Setting::kPower:
      return SetPower(calls, device, value.high);
    case Setting::kMemoryClocks:
      return value == kUnlocked ? GPUMAN_CALL(nvmlDeviceResetMemoryLockedClocks)
                                : GPUMAN_CALL(nvmlDeviceSetMemoryLockedClocks, value.low, value.high);
    case Setting::kGraphicsClocks:
      return value == kUnlocked ? GPUMAN_CALL(nvmlDeviceResetGpuLockedClocks)
                                : GPUMAN_CALL(nvmlDeviceSetGpuLockedClocks, value.low, value.high);
    case Setting::kEcc:
      return GPUMAN_CALL(nvmlDeviceSetEccMode, Enabled(value));
  }
  return base::Fail(ErrorCode::kInternal, "a setting that is none");
}

// If the driver has a getter, checks the success of the setter with it.
base::Result<> SetAndVerify(const driver::Nvml& nvml, const std::string& uuid, Setting setting,
                            const Value& value) {
  auto device = nvml.DeviceByUuid(uuid);
  if (!device) return base::Fail(std::move(device).error());
  GPUMAN_TRY(Set(nvml.calls(), *device, setting, value));
  if (IsClocks(setting)) return {};
  GPUMAN_ASSIGN(const auto reading, ReadSettings(nvml, uuid, {setting}));
  const auto* const reported = Find(reading, setting);
  const auto found = reported->pending ? reported->pending : reported->now;
  if (!found || *found == value) return {};
  return base::Fail(ErrorCode::kConflict, fmt::format("the driver said that it is set to {} and shows {}",
                                                      Format(setting, value), Format(setting, *found)));
}

void Undo(const driver::Nvml& nvml, const std::vector<GpuSteps>& done, ApplyOutcome& outcome) {
  for (auto gpu = done.rbegin(); gpu != done.rend(); ++gpu) {
    GpuSteps undone{gpu->uuid, {}};
    for (auto step = gpu->steps.rbegin(); step != gpu->steps.rend(); ++step) {
      const auto set = step->from ? SetAndVerify(nvml, gpu->uuid, step->setting, *step->from)
                                  : base::Fail(ErrorCode::kNotSupported, "what it was before is not known");
      if (set)
        undone.steps.push_back({step->setting, step->to, *step->from});
      else
        outcome.not_undone.push_back({gpu->uuid, step->setting, set.error()});
    }
    if (!undone.steps.empty()) outcome.undone.push_back(std::move(undone));
  }
}

}  // namespace

ApplyOutcome Apply(const driver::Nvml& nvml, const std::vector<GpuSteps>& work, OnFailure on_failure,
                   ApplyProgress& progress) {
  ApplyOutcome outcome;
  std::vector<GpuSteps> done;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const auto& gpu = work[i];
    progress.gpu = i;
    done.push_back({gpu.uuid, {}});
    for (const auto& step : gpu.steps) {
      auto set = SetAndVerify(nvml, gpu.uuid, step.setting, step.to);
      // With kConflict the driver shows another value than the wanted one, so the step may have changed the
      // setting: it must be undone too.
      if (set || set.error().code == ErrorCode::kConflict) done.back().steps.push_back(step);
      if (set && progress.abandoned) set = base::Fail(ErrorCode::kTimeout, "the driver took too long");
      if (set) continue;
      outcome.failures.push_back({gpu.uuid, step.setting, std::move(set.error())});
      if (on_failure == OnFailure::kGoOn && !progress.abandoned) continue;
      if (on_failure == OnFailure::kUndo) Undo(nvml, done, outcome);
      return outcome;
    }
  }
  return outcome;
}

base::Result<> ClearEccErrors(const driver::Nvml& nvml, const std::string& uuid, bool aggregate) {
  auto found = nvml.DeviceByUuid(uuid);
  if (!found) return base::Fail(std::move(found).error());
  const auto& calls = nvml.calls();
  const auto device = *found;
  return GPUMAN_CALL(nvmlDeviceClearEccErrorCounts,
                     aggregate ? abi::NVML_AGGREGATE_ECC : abi::NVML_VOLATILE_ECC);
}
#undef GPUMAN_CALL

}  // namespace gpuman::device
