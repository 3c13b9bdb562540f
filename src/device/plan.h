// Changes of a GPU's settings record, and the steps that set the GPU to the record. Pure.
//
// A change takes a record and returns the next record. The caller stores the next record before the first
// step, so that a daemon that starts after a crash knows the wanted settings of the GPU. The record keeps the
// value that a layer covers. When the layer is removed, the record lists that value as to be restored, until
// the value is set.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/desired_setting.h"
#include "device/device_reading.h"
#include "device/record.h"

namespace gpuman::device {

// An explicit request for a setting overrides the profiles in force: they lose that setting.
SettingsRecord WithValues(SettingsRecord record, const Values& values, const DeviceReading& reading,
                          base::WallTime now);
// `usual`: the values after the settings are withdrawn (DefaultOf).
SettingsRecord WithoutValues(SettingsRecord record, const Values& usual);
// Replaces the layer of the same kind. For each setting of the layer that no layer covered before and no
// administrator asked for, the record keeps the value in `reading`. Clocks cannot be read; the record keeps
// them as unlocked.
SettingsRecord WithLayer(SettingsRecord record, ActiveProfile layer, const DeviceReading& reading);
SettingsRecord WithoutLayer(SettingsRecord record, bool of_job);
// Notes that all values that were to be restored are set.
SettingsRecord WithRestored(SettingsRecord record);
// Notes `now` if an ECC mode that waited for a reset is in effect.
SettingsRecord WithEccSeen(SettingsRecord record, const DeviceReading& reading, base::WallTime now);

// The values of all of `desired` on this device. They must fit the other wanted settings in `record`:
// graphics clocks must be possible with the memory clock. It is also an error if a new memory clock is not
// possible with the locked graphics clocks.
base::Result<Values> ResolveAll(std::span<const DesiredSetting> desired, const DeviceReading& reading,
                                const SettingsRecord& record);

struct DevicePlanStep {
  Setting setting{};
  std::optional<Value> from;  // the value for undoing; nullopt: not known
  Value to{};
  friend bool operator==(const DevicePlanStep&, const DevicePlanStep&) = default;
};

// The steps, in order, from the device's state to the values that `next` wants and restores. A setting that
// has its value needs no step. Locked clocks cannot be read: they get a step if `former` wanted another
// value, or if `anew` is true (the driver may have forgotten them).
std::vector<DevicePlanStep> StepsTo(const SettingsRecord& next, const SettingsRecord& former,
                                    const DeviceReading& reading, bool anew);

struct Drift {
  Setting setting{};
  Value wanted{}, found{};  // for clocks, `found` is the clock at this moment
  friend bool operator==(const Drift&, const Drift&) = default;
};

// The settings in which the device differs from the record. For locked clocks only a clock above the lock
// counts, because the lock forbids it; load, power or temperature may keep a clock below its lock.
std::vector<Drift> DriftOf(const SettingsRecord& record, const DeviceReading& reading);

}  // namespace gpuman::device
