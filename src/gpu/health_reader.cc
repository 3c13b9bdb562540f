#include "gpu/health_reader.h"

#include <array>
#include <bit>
#include <chrono>

#include "gpu/call.h"

namespace gpuman::gpu {
namespace {

namespace abi = driver::abi;
using driver::NvmlCalls;
using driver::NvmlDevice;

constexpr std::chrono::seconds kBusPeriod{10};
constexpr unsigned kMaxLinks = 36;  // NVML_NVLINK_MAX_LINKS

// Reasons for which the hardware lowers clocks: slowdown, temperature, power brake.
constexpr unsigned long long kHeldBackByHardware = 0x8 | 0x40 | 0x80;

// Reads the recovery action that the driver asks for, and the errors on the links, in one call.
void ReadFields(const NvmlCalls& calls, NvmlDevice device, HealthReading& reading) {
  std::array<abi::nvmlFieldValue_t, 3> fields{};
  fields[0].fieldId = abi::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION;
  fields[1].fieldId = abi::NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL;
  fields[2].fieldId = abi::NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL;
  if (!CallNvml(calls.nvmlDeviceGetFieldValues, device, static_cast<int>(fields.size()), fields.data()))
    return;
  const auto told = [&](std::size_t i) { return fields[i].nvmlReturn == abi::NVML_SUCCESS; };
  if (told(0) && fields[0].value.uiVal <= static_cast<unsigned>(Recovery::kDrainAndReset))
    reading.recovery = static_cast<Recovery>(fields[0].value.uiVal);
  if (told(1) && told(2)) reading.nvlink_crc_errors = fields[1].value.ullVal + fields[2].value.ullVal;
}

// nullopt: the GPU has no links, or the driver does not report them.
std::optional<std::uint64_t> LinksUp(const NvmlCalls& calls, NvmlDevice device) {
  std::optional<std::uint64_t> up;
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    abi::nvmlEnableState_t state = abi::NVML_FEATURE_DISABLED;
    if (!CallNvml(calls.nvmlDeviceGetNvLinkState, device, link, &state)) break;
    up = up.value_or(0) | static_cast<std::uint64_t>(state == abi::NVML_FEATURE_ENABLED) << link;
  }
  return up;
}

// Reads only the count: without room for addresses the driver returns how many there are.
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
  if (CallNvml(calls.nvmlDeviceGetTotalEccErrors, device, abi::NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
               abi::NVML_VOLATILE_ECC, &errors))
    reading.double_bit_errors = errors;
  unsigned correctable = 0, uncorrectable = 0, pending = 0, failed = 0;
  if (CallNvml(calls.nvmlDeviceGetRemappedRows, device, &correctable, &uncorrectable, &pending, &failed)) {
    reading.uncorrectable_remaps = uncorrectable;
    reading.remap_pending = pending != 0;
    reading.remap_failed = failed != 0;
  }
  const auto single =
      RetiredFor(calls, device, abi::NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS);
  const auto twice = RetiredFor(calls, device, abi::NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR);
  if (single && twice) reading.retired_pages = *single + *twice;
  abi::nvmlEnableState_t retirement = abi::NVML_FEATURE_DISABLED;
  if (CallNvml(calls.nvmlDeviceGetRetiredPagesPendingStatus, device, &retirement))
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
  ReadFields(calls, device, reading);
  ReadMemoryErrors(calls, device, reading);
  unsigned long long reasons = 0;
  if (CallNvml(calls.nvmlDeviceGetCurrentClocksEventReasons, device, &reasons) ||
      CallNvml(calls.nvmlDeviceGetCurrentClocksThrottleReasons, device, &reasons))
    reading.hardware_slowdown = (reasons & kHeldBackByHardware) != 0;
  return reading;
}

void HealthReader::ReadBus(const NvmlCalls& calls, NvmlDevice device) {
  bus_ = {};
  unsigned value = 0;
  if (CallNvml(calls.nvmlDeviceGetPcieReplayCounter, device, &value)) bus_.pcie_replays = value;
  if (CallNvml(calls.nvmlDeviceGetCurrPcieLinkGeneration, device, &value)) bus_.pcie_generation = value;
  if (CallNvml(calls.nvmlDeviceGetCurrPcieLinkWidth, device, &value)) bus_.pcie_lanes = value;
  abi::nvmlEccSramErrorStatus_v1_t sram{};
  sram.version = abi::nvmlEccSramErrorStatus_v1;
  if (CallNvml(calls.nvmlDeviceGetSramEccErrorStatus, device, &sram))
    bus_.sram_threshold_exceeded = sram.bThresholdExceeded != 0;
  if (const auto up = LinksUp(calls, device)) {
    links_seen_up_ |= *up;
    bus_.nvlinks_down = static_cast<unsigned>(std::popcount(links_seen_up_ & ~*up));
  }
}

}  // namespace gpuman::gpu
