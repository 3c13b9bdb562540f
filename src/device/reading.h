// What one read of a GPU's settings returned. Values; an absent optional is unknown, never zero.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "device/setting.h"

namespace gpuman::device {

struct Reported {
  std::optional<bool> supported;  // nullopt: only a try will show it
  std::string why;                // the reason why it is not supported or not known, a sentence
  std::optional<Value> now;
  std::optional<Value> pending;  // for ECC: the value after the next reset
  std::optional<Value> usual;    // the device's own default
};

struct PowerRange {
  std::uint32_t least_mw = 0, most_mw = 0;
};

struct Reading {
  std::map<Setting, Reported> settings;  // the settings that were read
  std::optional<PowerRange> power;
  // For each memory clock the graphics clocks that are possible with it. MHz, ascending. Empty: the device
  // does not report them.
  std::map<std::uint32_t, std::vector<std::uint32_t>> clocks;
  // The clocks at this moment, MHz: locked clocks cannot be read.
  std::optional<std::uint32_t> graphics_mhz, memory_mhz;
  std::optional<std::uint64_t> energy_mj;  // used since the driver was loaded, or the GPU was reset
};

// nullptr: the setting was not read.
inline const Reported* Find(const Reading& reading, Setting setting) {
  const auto it = reading.settings.find(setting);
  return it == reading.settings.end() ? nullptr : &it->second;
}

}  // namespace gpuman::device
