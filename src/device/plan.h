// Changes of a GPU's settings record, and the steps that bring the GPU to it. Pure.
//
// A change takes a record and returns the next one. The caller stores it before the first step, so that a
// daemon that starts after a crash knows what the GPU must be. The record remembers the value that a layer
// covers. When the layer goes, that value is to be restored until it is set.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/desired_setting.h"
#include "device/reading.h"
#include "device/record.h"

namespace gpuman::device {

// An explicit request for a setting overrides the profiles in force: they lose that setting.
SettingsRecord WithValues(SettingsRecord record, const Values& values, const Reading& reading,
                          base::WallTime now);
// `usual`: the value after it (DefaultOf).
SettingsRecord WithoutValues(SettingsRecord record, const Values& usual);
// Replaces the layer of the same kind. The record remembers, from `reading`, each setting that no layer
// covered before and nobody asked for; clocks, which cannot be read, as unlocked.
SettingsRecord WithLayer(SettingsRecord record, Layer layer, const Reading& reading);
SettingsRecord WithoutLayer(SettingsRecord record, bool of_job);
// Everything that was to be restored has been set.
SettingsRecord WithRestored(SettingsRecord record);
// Notes when an ECC mode that waited for a reset is in effect.
SettingsRecord WithEccSeen(SettingsRecord record, const Reading& reading, base::WallTime now);

// The values of all of `desired` on this device, with what else is wanted: graphics clocks must be possible
// with the memory clock. It is also an error if a new memory clock is not possible with the locked graphics
// clocks.
base::Result<Values> ResolveAll(std::span<const DesiredSetting> desired, const Reading& reading,
                                const SettingsRecord& record);

struct Step {
  Setting setting{};
  std::optional<Value> from;  // the value for undoing; nullopt: not known
  Value to{};
  friend bool operator==(const Step&, const Step&) = default;
};

// The steps, in order, from the device's state to what `next` wants and restores. A setting that has its
// value needs no step. Locked clocks cannot be read: they need a step if `former` wanted another value, or
// with `anew` (the driver may have forgotten them).
std::vector<Step> StepsTo(const SettingsRecord& next, const SettingsRecord& former, const Reading& reading,
                          bool anew);

struct Drift {
  Setting setting{};
  Value wanted{}, found{};  // for clocks, `found` is the clock at this moment
  friend bool operator==(const Drift&, const Drift&) = default;
};

// Where the device differs from the record. For locked clocks only a clock above the lock counts, which a
// lock forbids; a clock below it may have good reasons.
std::vector<Drift> DriftOf(const SettingsRecord& record, const Reading& reading);

}  // namespace gpuman::device
