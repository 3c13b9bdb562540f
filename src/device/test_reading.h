// Devices for tests, as the driver would report them.
#pragma once

#include "device/device_reading.h"

namespace gpuman::device {

inline DeviceReading H200() {
  DeviceReading reading;
  reading.settings[Setting::kPersistence] = {true, "", Switch(true), {}, Switch(false)};
  reading.settings[Setting::kComputeMode] = {
      true, "", Mode(ComputeMode::kDefault), {}, Mode(ComputeMode::kDefault)};
  reading.settings[Setting::kPower] = {true, "", Milliwatts(700'000), {}, Milliwatts(700'000)};
  reading.settings[Setting::kMemoryClocks] = {true, "", {}, {}, kUnlocked};
  reading.settings[Setting::kGraphicsClocks] = {true, "", {}, {}, kUnlocked};
  reading.settings[Setting::kEcc] = {true, "", Switch(true), Switch(true), Switch(true)};
  reading.power = PowerRange{200'000, 700'000};
  for (std::uint32_t mhz = 345; mhz <= 1980; mhz += 15) reading.clocks[3201].push_back(mhz);
  reading.clocks[2201] = {345, 360, 375};
  reading.graphics_mhz = 1980;
  reading.memory_mhz = 3201;
  return reading;
}

// A laptop's GPU: it has no ECC, a fixed power limit, and does not list its clocks.
inline DeviceReading Laptop() {
  DeviceReading reading = H200();
  reading.settings[Setting::kEcc] = {false, "this kind of GPU does not have it", {}, {}, {}};
  reading.settings[Setting::kPower] = {false, "this kind of GPU does not have it", {}, {}, {}};
  reading.power.reset();
  reading.clocks.clear();
  for (const auto setting : {Setting::kMemoryClocks, Setting::kGraphicsClocks})
    reading.settings[setting] = {std::nullopt, "the device does not tell its clocks", {}, {}, kUnlocked};
  return reading;
}

}  // namespace gpuman::device
