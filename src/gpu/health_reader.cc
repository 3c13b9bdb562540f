#include "gpu/health_reader.h"

#include <chrono>

namespace gpuman::gpu {
namespace {

namespace abi = driver::abi;
using driver::NvmlCalls;
using driver::NvmlDevice;

constexpr std::chrono::seconds kBusPeriod{10};

// Clocks that hardware holds back: slowdown, temperature, power brake.
constexpr unsigned long long kHeldBackByHardware = 0x8 | 0x40 | 0x80;

template <typename... Parameters, typename... Arguments>
bool Ask(abi::nvmlReturn_t (*function)(Parameters...), Arguments... arguments) {
  return function != nullptr && function(arguments...) == abi::NVML_SUCCESS;
}

std::optional<Recovery> RecoveryOf(const NvmlCalls& calls, NvmlDevice device) {
  abi::nvmlFieldValue_t field{};
  field.fieldId = abi::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION;
  if (!Ask(calls.nvmlDeviceGetFieldValues, device, 1, &field) || field.nvmlReturn != abi::NVML_SUCCESS)
    return std::nullopt;
  if (field.value.uiVal > static_cast<unsigned>(Recovery::kDrainAndReset)) return std::nullopt;
  return static_cast<Recovery>(field.value.uiVal);
}

// The count alone: with no room for addresses the driver says how many there are.
std::optional<unsigned> RetiredFor(const NvmlCalls& calls, NvmlDevice device,
                                   abi::nvmlPageRetirementCause_t cause) {
  unsigned count = 0;
  if (calls.nvmlDeviceGetRetiredPages == nullptr) return std::nullopt;
  const auto status = calls.nvmlDeviceGetRetiredPages(device, cause, &count, nullptr);
  if (status != abi::NVML_SUCCESS && status != abi::NVML_ERROR_INSUFFICIENT_SIZE) return std::nullopt;
  return count;
}

void ReadMemoryErrors(const NvmlCalls& calls, NvmlDevice device, HealthReading& reading) {
  unsigned long long errors = 0;
  if (Ask(calls.nvmlDeviceGetTotalEccErrors, device, abi::NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
          abi::NVML_VOLATILE_ECC, &errors))
    reading.double_bit_errors = errors;
  unsigned correctable = 0, uncorrectable = 0, pending = 0, failed = 0;
  if (Ask(calls.nvmlDeviceGetRemappedRows, device, &correctable, &uncorrectable, &pending, &failed)) {
    reading.uncorrectable_remaps = uncorrectable;
    reading.remap_pending = pending != 0;
    reading.remap_failed = failed != 0;
  }
  const auto single =
      RetiredFor(calls, device, abi::NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS);
  const auto twice = RetiredFor(calls, device, abi::NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR);
  if (single && twice) reading.retired_pages = *single + *twice;
  abi::nvmlEnableState_t retirement = abi::NVML_FEATURE_DISABLED;
  if (Ask(calls.nvmlDeviceGetRetiredPagesPendingStatus, device, &retirement))
    reading.retirement_pending = retirement == abi::NVML_FEATURE_ENABLED;
}

}  // namespace

HealthReading HealthReader::Read(const driver::Nvml& nvml, NvmlDevice device, base::MonoTime now) {
  const auto& calls = nvml.calls();
  if (now >= bus_due_) {
    bus_due_ = now + kBusPeriod;
    ReadBus(calls, device);
  }
  HealthReading reading = bus_;
  reading.recovery = RecoveryOf(calls, device);
  ReadMemoryErrors(calls, device, reading);
  unsigned long long reasons = 0;
  if (Ask(calls.nvmlDeviceGetCurrentClocksEventReasons, device, &reasons) ||
      Ask(calls.nvmlDeviceGetCurrentClocksThrottleReasons, device, &reasons))
    reading.hardware_slowdown = (reasons & kHeldBackByHardware) != 0;
  return reading;
}

void HealthReader::ReadBus(const NvmlCalls& calls, NvmlDevice device) {
  bus_ = {};
  unsigned value = 0;
  if (Ask(calls.nvmlDeviceGetPcieReplayCounter, device, &value)) bus_.pcie_replays = value;
  if (Ask(calls.nvmlDeviceGetCurrPcieLinkGeneration, device, &value)) bus_.pcie_generation = value;
  if (Ask(calls.nvmlDeviceGetCurrPcieLinkWidth, device, &value)) bus_.pcie_lanes = value;
}

}  // namespace gpuman::gpu
