#include "device/reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuman::device {
namespace {

namespace abi = driver::abi;
using driver::NvmlError;
using driver::NvmlFailure;

constexpr unsigned kVolta = 5, kAmpere = 7;  // nvmlDeviceArchitecture_t
constexpr unsigned kMaxClocks = 4096;

// Reads one GPU; an error that concerns the whole GPU ends the reading.
class GpuReader {
 public:
  GpuReader(const driver::Nvml& nvml, driver::NvmlDevice device) : calls_(nvml.calls()), device_(device) {}

  void Persistence(bool full);
  void ComputeMode(bool full);
  void Power(bool full);
  void Ecc(bool full);
  void Clocks(Setting setting);
  void SupportedClocks();
  void ClockNow(Setting setting);
  void Energy();

  base::Result<DeviceReading> Take() {
    if (broken_) return base::Fail(std::move(*broken_));
    return std::move(reading_);
  }

 private:
  template <typename... Parameters, typename... Arguments>
  std::optional<NvmlError> Ask(const char* name, abi::nvmlReturn_t (*function)(Parameters...),
                               Arguments... arguments) {
    if (broken_) return broken_;
    const auto status = function ? function(arguments...) : abi::NVML_ERROR_FUNCTION_NOT_FOUND;
    if (status == abi::NVML_SUCCESS) return std::nullopt;
    auto error = driver::Nvml::Describe(name, status);
    if (error.failure == NvmlFailure::kGpuLost || error.failure == NvmlFailure::kNoDriver) broken_ = error;
    return error;
  }
  static void Excuse(ReportedSetting& reported, const NvmlError& error);
  ReportedSetting& Of(Setting setting) { return reading_.settings[setting]; }

  const driver::NvmlCalls& calls_;
  const driver::NvmlDevice device_;
  DeviceReading reading_;
  std::optional<NvmlError> broken_;
};

void GpuReader::Excuse(ReportedSetting& reported, const NvmlError& error) {
  if (error.failure == NvmlFailure::kNotSupported) {
    reported.supported = false;
    reported.why = "this kind of GPU does not have it";
  } else if (error.failure == NvmlFailure::kNoFunction) {
    reported.supported = false;
    reported.why = "this driver is too old for it";
  } else {
    reported.why = error.message;
  }
}

void GpuReader::Persistence(bool full) {
  ReportedSetting& reported = Of(Setting::kPersistence);
  abi::nvmlEnableState_t mode{};
  if (const auto error =
          Ask("nvmlDeviceGetPersistenceMode", calls_.nvmlDeviceGetPersistenceMode, device_, &mode))
    return Excuse(reported, *error);
  reported.supported = true;
  reported.now = Switch(mode == abi::NVML_FEATURE_ENABLED);
  if (full) reported.usual = Switch(false);
}

void GpuReader::ComputeMode(bool full) {
  ReportedSetting& reported = Of(Setting::kComputeMode);
  abi::nvmlComputeMode_t mode{};
  if (const auto error = Ask("nvmlDeviceGetComputeMode", calls_.nvmlDeviceGetComputeMode, device_, &mode))
    return Excuse(reported, *error);
  reported.supported = true;
  reported.now = Value{0, static_cast<std::uint32_t>(mode)};
  if (full) reported.usual = Mode(device::ComputeMode::kDefault);
}

void GpuReader::Power(bool full) {
  ReportedSetting& reported = Of(Setting::kPower);
  unsigned limit = 0, least = 0, most = 0, usual = 0;
  if (const auto error =
          Ask("nvmlDeviceGetPowerManagementLimit", calls_.nvmlDeviceGetPowerManagementLimit, device_, &limit))
    return Excuse(reported, *error);
  reported.now = Milliwatts(limit);
  reported.supported = true;
  if (!full) return;
  if (!Ask("nvmlDeviceGetPowerManagementDefaultLimit", calls_.nvmlDeviceGetPowerManagementDefaultLimit,
           device_, &usual))
    reported.usual = Milliwatts(usual);
  const auto error = Ask("nvmlDeviceGetPowerManagementLimitConstraints",
                         calls_.nvmlDeviceGetPowerManagementLimitConstraints, device_, &least, &most);
  if (error) {
    reported.supported.reset();
    reported.why = "the device does not tell its range";
    return;
  }
  reading_.power = PowerRange{least, most};
  if (least < most) return;
  reported.supported = false;
  reported.why = fmt::format("it is fixed at {}", Format(Setting::kPower, Milliwatts(most)));
}

void GpuReader::Ecc(bool full) {
  ReportedSetting& reported = Of(Setting::kEcc);
  abi::nvmlEnableState_t current{}, pending{}, usual{};
  if (const auto error =
          Ask("nvmlDeviceGetEccMode", calls_.nvmlDeviceGetEccMode, device_, &current, &pending))
    return Excuse(reported, *error);
  reported.supported = true;
  reported.now = Switch(current == abi::NVML_FEATURE_ENABLED);
  reported.pending = Switch(pending == abi::NVML_FEATURE_ENABLED);
  if (full && !Ask("nvmlDeviceGetDefaultEccMode", calls_.nvmlDeviceGetDefaultEccMode, device_, &usual))
    reported.usual = Switch(usual == abi::NVML_FEATURE_ENABLED);
}

// Locked clocks have no getter. This function can only find out whether the architecture and the driver have
// the setter (NVML's documentation: graphics from Volta on, memory from Ampere on).
void GpuReader::Clocks(Setting setting) {
  const bool memory = setting == Setting::kMemoryClocks;
  ReportedSetting& reported = Of(setting);
  reported.usual = kUnlocked;
  const bool has = memory ? calls_.nvmlDeviceSetMemoryLockedClocks != nullptr
                          : calls_.nvmlDeviceSetGpuLockedClocks != nullptr;
  abi::nvmlDeviceArchitecture_t architecture{};
  if (!has) {
    reported.supported = false;
    reported.why = "this driver is too old for it";
  } else if (Ask("nvmlDeviceGetArchitecture", calls_.nvmlDeviceGetArchitecture, device_, &architecture)) {
    reported.why = "the driver does not tell; it can be tried";
  } else if (static_cast<unsigned>(architecture) < (memory ? kAmpere : kVolta)) {
    reported.supported = false;
    reported.why = fmt::format("this needs a GPU of the {} generation or later", memory ? "Ampere" : "Volta");
  } else if (reading_.clocks.empty()) {
    reported.why = "the device does not tell its clocks; it can be tried";
  } else {
    reported.supported = true;
  }
}

void GpuReader::SupportedClocks() {
  std::vector<unsigned> memory(64);
  auto count = static_cast<unsigned>(memory.size());
  if (Ask("nvmlDeviceGetSupportedMemoryClocks", calls_.nvmlDeviceGetSupportedMemoryClocks, device_, &count,
          memory.data()))
    return;
  memory.resize(std::min<std::size_t>(count, memory.size()));
  std::vector<unsigned> graphics(kMaxClocks);
  for (const unsigned mhz : memory) {
    count = kMaxClocks;
    if (Ask("nvmlDeviceGetSupportedGraphicsClocks", calls_.nvmlDeviceGetSupportedGraphicsClocks, device_, mhz,
            &count, graphics.data()))
      continue;
    auto& list = reading_.clocks[mhz];
    list.assign(graphics.begin(), graphics.begin() + std::min(count, kMaxClocks));
    std::sort(list.begin(), list.end());
    if (list.empty()) reading_.clocks.erase(mhz);
  }
}

void GpuReader::ClockNow(Setting setting) {
  const bool memory = setting == Setting::kMemoryClocks;
  unsigned now = 0;
  if (Ask("nvmlDeviceGetClockInfo", calls_.nvmlDeviceGetClockInfo, device_,
          memory ? abi::NVML_CLOCK_MEM : abi::NVML_CLOCK_GRAPHICS, &now))
    return;
  (memory ? reading_.memory_mhz : reading_.graphics_mhz) = now;
}

void GpuReader::Energy() {
  unsigned long long energy = 0;
  if (!Ask("nvmlDeviceGetTotalEnergyConsumption", calls_.nvmlDeviceGetTotalEnergyConsumption, device_,
           &energy))
    reading_.energy_mj = energy;
}

}  // namespace

base::Result<DeviceReading> ReadDevice(const driver::Nvml& nvml, const std::string& uuid) {
  auto device = nvml.DeviceByUuid(uuid);
  if (!device) return base::Fail(std::move(device).error());
  GpuReader reader(nvml, *device);
  reader.Persistence(true);
  reader.ComputeMode(true);
  reader.Power(true);
  reader.SupportedClocks();
  reader.Clocks(Setting::kMemoryClocks);
  reader.Clocks(Setting::kGraphicsClocks);
  reader.Ecc(true);
  reader.ClockNow(Setting::kMemoryClocks);
  reader.ClockNow(Setting::kGraphicsClocks);
  reader.Energy();
  return reader.Take();
}

base::Result<DeviceReading> ReadSettings(const driver::Nvml& nvml, const std::string& uuid,
                                         const std::set<Setting>& settings) {
  auto device = nvml.DeviceByUuid(uuid);
  if (!device) return base::Fail(std::move(device).error());
  GpuReader reader(nvml, *device);
  if (settings.contains(Setting::kPersistence)) reader.Persistence(false);
  if (settings.contains(Setting::kComputeMode)) reader.ComputeMode(false);
  if (settings.contains(Setting::kPower)) reader.Power(false);
  if (settings.contains(Setting::kEcc)) reader.Ecc(false);
  for (const auto setting : settings)
    if (IsClocks(setting)) reader.ClockNow(setting);
  reader.Energy();
  return reader.Take();
}

}  // namespace gpuman::device
