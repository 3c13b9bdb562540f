#include "gpu/detail_reader.h"

#include <array>

#include "gpu/call.h"

namespace gpuman::gpu {
namespace {

namespace abi = driver::abi;
using driver::NvmlCalls;
using driver::NvmlDevice;

constexpr std::uint64_t kKilobyte = 1000;  // NVML reports KB/s

std::optional<unsigned> ClockOf(const NvmlCalls& calls, NvmlDevice device, abi::nvmlClockType_t type) {
  unsigned mhz = 0;
  return CallNvml(calls.nvmlDeviceGetClockInfo, device, type, &mhz) ? std::optional(mhz) : std::nullopt;
}

std::optional<unsigned> BusyPercent(abi::fn::nvmlDeviceGetEncoderUtilization* call, NvmlDevice device) {
  unsigned percent = 0, period_us = 0;
  return CallNvml(call, device, &percent, &period_us) ? std::optional(percent) : std::nullopt;
}

std::optional<std::uint64_t> OverPcie(const NvmlCalls& calls, NvmlDevice device,
                                      abi::nvmlPcieUtilCounter_t direction) {
  unsigned kilobytes = 0;
  if (!CallNvml(calls.nvmlDeviceGetPcieThroughput, device, direction, &kilobytes)) return std::nullopt;
  return kilobytes * kKilobyte;
}

std::optional<std::uint64_t> MemoryErrors(const NvmlCalls& calls, NvmlDevice device,
                                          abi::nvmlMemoryErrorType_t type, abi::nvmlEccCounterType_t since) {
  unsigned long long errors = 0;
  if (!CallNvml(calls.nvmlDeviceGetTotalEccErrors, device, type, since, &errors)) return std::nullopt;
  return errors;
}

void ReadVideo(const NvmlCalls& calls, NvmlDevice device, Details& details) {
  details.encoder_percent = BusyPercent(calls.nvmlDeviceGetEncoderUtilization, device);
  details.decoder_percent = BusyPercent(calls.nvmlDeviceGetDecoderUtilization, device);
}

void ReadPower(const NvmlCalls& calls, NvmlDevice device, Details& details) {
  unsigned milliwatts = 0;
  auto state = abi::NVML_PSTATE_UNKNOWN;
  details.power_limit_w.reset();
  details.performance_state.reset();
  if (CallNvml(calls.nvmlDeviceGetEnforcedPowerLimit, device, &milliwatts) ||
      CallNvml(calls.nvmlDeviceGetPowerManagementLimit, device, &milliwatts))
    details.power_limit_w = milliwatts / 1000.0;
  if (CallNvml(calls.nvmlDeviceGetPerformanceState, device, &state) && state <= abi::NVML_PSTATE_15)
    details.performance_state = state;
}

void ReadFan(const NvmlCalls& calls, NvmlDevice device, Details& details) {
  unsigned percent = 0;
  details.fan_percent.reset();
  if (CallNvml(calls.nvmlDeviceGetFanSpeed, device, &percent)) details.fan_percent = percent;
}

void ReadMemoryTemperature(const NvmlCalls& calls, NvmlDevice device, Details& details) {
  abi::nvmlFieldValue_t field{};
  field.fieldId = abi::NVML_FI_DEV_MEMORY_TEMP;
  details.memory_temperature_c.reset();
  // A device without the sensor may report 0.
  if (CallNvml(calls.nvmlDeviceGetFieldValues, device, 1, &field) && field.nvmlReturn == abi::NVML_SUCCESS &&
      field.value.uiVal != 0)
    details.memory_temperature_c = field.value.uiVal;
}

void ReadRemaps(const NvmlCalls& calls, NvmlDevice device, Details& details) {
  unsigned correctable = 0, uncorrectable = 0, pending = 0, failed = 0;
  details.correctable_remaps.reset();
  if (CallNvml(calls.nvmlDeviceGetRemappedRows, device, &correctable, &uncorrectable, &pending, &failed))
    details.correctable_remaps = correctable;
}

void ReadErrors(const NvmlCalls& calls, NvmlDevice device, Details& details) {
  details.corrected_volatile =
      MemoryErrors(calls, device, abi::NVML_MEMORY_ERROR_TYPE_CORRECTED, abi::NVML_VOLATILE_ECC);
  details.corrected_aggregate =
      MemoryErrors(calls, device, abi::NVML_MEMORY_ERROR_TYPE_CORRECTED, abi::NVML_AGGREGATE_ECC);
  details.uncorrected_aggregate =
      MemoryErrors(calls, device, abi::NVML_MEMORY_ERROR_TYPE_UNCORRECTED, abi::NVML_AGGREGATE_ECC);
}

struct Part {
  void (*read)(const NvmlCalls&, NvmlDevice, Details&);
  void (*leave_out)(Details&) = nullptr;  // for values that take long
};
constexpr std::array<Part, DetailReader::kParts> kReadings{{
    {&ReadPower},
    {[](const NvmlCalls& calls, NvmlDevice device, Details& details) {
      details.sm_clock_mhz = ClockOf(calls, device, abi::NVML_CLOCK_SM);
    }},
    {[](const NvmlCalls& calls, NvmlDevice device, Details& details) {
      details.memory_clock_mhz = ClockOf(calls, device, abi::NVML_CLOCK_MEM);
    }},
    {&ReadFan},
    // 21 ms each on an H200: the driver measures for 20 ms.
    {[](const NvmlCalls& calls, NvmlDevice device, Details& details) {
       details.pcie_sent = OverPcie(calls, device, abi::NVML_PCIE_UTIL_TX_BYTES);
     },
     [](Details& details) { details.pcie_sent.reset(); }},
    {[](const NvmlCalls& calls, NvmlDevice device, Details& details) {
       details.pcie_received = OverPcie(calls, device, abi::NVML_PCIE_UTIL_RX_BYTES);
     },
     [](Details& details) { details.pcie_received.reset(); }},
    {&ReadVideo},
    {&ReadMemoryTemperature},
    {&ReadErrors},
    {&ReadRemaps},
}};

}  // namespace

const Details& DetailReader::Read(const driver::Nvml& nvml, NvmlDevice device, DetailsWanted wanted) {
  if (wanted == DetailsWanted::kNone) {
    Forget();
    return details_;
  }
  const Part& part = kReadings[next_];
  if (wanted == DetailsWanted::kQuick && part.leave_out != nullptr)
    part.leave_out(details_);
  else
    part.read(nvml.calls(), device, details_);
  next_ = (next_ + 1) % kParts;
  return details_;
}

}  // namespace gpuman::gpu
