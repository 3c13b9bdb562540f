// A setting as a user asks for it, in words that fit any device, and its value on one device. Pure.
//
//   persistence, ecc   on | off
//   compute_mode       default | exclusive-process | prohibited
//   power              250W | 250 | 60% (of the highest limit) | min | max | default
//   …clocks            1200 | 1200,1400 | 75% (of the highest clock) | min | max | 50%,max | unlocked
//
// A percentage is fitted to the device: into its range of power, or down to a clock that the device supports.
// A number is not fitted: it is taken, or it is refused and the message names the range.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "device/device_reading.h"
#include "device/setting.h"

namespace gpuman::device {

struct SettingAmount {
  enum class Kind { kNumber, kPercent, kMin, kMax, kDefault };
  Kind kind = Kind::kNumber;
  double number = 0;
  friend bool operator==(const SettingAmount&, const SettingAmount&) = default;
};

struct DesiredSetting {
  Setting setting{};
  std::string text;         // as the user wrote it
  SettingAmount low, high;  // as in Value; unlocked: both are 0
  friend bool operator==(const DesiredSetting&, const DesiredSetting&) = default;
};

// kInvalidArgument: the message says what is allowed.
base::Result<DesiredSetting> ParseDesiredSetting(Setting setting, std::string_view text);

// `memory_mhz`: graphics clocks must be possible with this memory clock; nullopt: with the highest memory
// clock. kNotSupported: this device does not have the setting. kInvalidArgument names the range.
base::Result<Value> Resolve(const DesiredSetting& wanted, const DeviceReading& reading,
                            std::optional<std::uint32_t> memory_mhz = {});

// The value after a setting is withdrawn: the device's default; for clocks, unlocked.
base::Result<Value> DefaultOf(Setting setting, const DeviceReading& reading);

// kNotSupported: the device does not have the setting.
base::Result<> CheckSupported(Setting setting, const DeviceReading& reading);

}  // namespace gpuman::device
