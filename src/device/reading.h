// What one look at one GPU says of its settings. Values; an absent optional is unknown, never zero.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "device/setting.h"

namespace gpuman::device {

struct Reported {
  std::optional<bool> supported;  // nullopt: not known before it is tried
  std::string why;                // not supported, or not known: the reason, a sentence
  std::optional<Value> now;
  std::optional<Value> pending;  // ECC: from the next reset on
  std::optional<Value> usual;    // the device's own default
};

struct PowerRange {
  std::uint32_t least_mw = 0, most_mw = 0;
};

struct Reading {
  std::map<Setting, Reported> settings;  // those that were read
  std::optional<PowerRange> power;
  // By memory clock: the graphics clocks that go with it. MHz, ascending. Empty: the device does not tell.
  std::map<std::uint32_t, std::vector<std::uint32_t>> clocks;
  // What they are at this moment, MHz: locked clocks themselves cannot be asked for.
  std::optional<std::uint32_t> graphics_mhz, memory_mhz;
  std::optional<std::uint64_t> energy_mj;  // used since the driver was loaded, or the GPU reset
};

// nullptr where it was not read.
inline const Reported* Find(const Reading& reading, Setting setting) {
  const auto it = reading.settings.find(setting);
  return it == reading.settings.end() ? nullptr : &it->second;
}

}  // namespace gpuman::device
