// The result of one read of a GPU's settings. Values; an absent optional means unknown, never zero.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "device/setting.h"

namespace gpuman::device {

struct ReportedSetting {
  std::optional<bool> supported;  // nullopt: only an attempt to set it shows this
  std::string why;                // a sentence: why it is not supported or not known
  std::optional<Value> now;
  std::optional<Value> pending;  // for ECC: the value after the next reset
  std::optional<Value> usual;    // the device's own default
};

struct PowerRange {
  std::uint32_t least_mw = 0, most_mw = 0;
};

struct DeviceReading {
  std::map<Setting, ReportedSetting> settings;  // the settings that were read
  std::optional<PowerRange> power;
  // For each memory clock, the graphics clocks that are possible with it; MHz, ascending. Empty: the device
  // does not report them.
  std::map<std::uint32_t, std::vector<std::uint32_t>> clocks;
  // The clocks at the time of the read, in MHz. NVML does not report locked clocks.
  std::optional<std::uint32_t> graphics_mhz, memory_mhz;
  std::optional<std::uint64_t> energy_mj;  // used since the driver was loaded, or the GPU was reset
};

// nullptr: the setting was not read.
inline const ReportedSetting* Find(const DeviceReading& reading, Setting setting) {
  const auto it = reading.settings.find(setting);
  return it == reading.settings.end() ? nullptr : &it->second;
}

}  // namespace gpuman::device
