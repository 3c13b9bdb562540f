// Changes of what is wanted of a GPU, and the steps that bring the GPU there. Pure.
//
// A change takes a record and gives the next one; it is stored before the first step, so that a daemon that
// starts after any crash knows what the GPU is to be. What a layer covers is remembered as it was found and,
// when the layer goes, to be restored until it is set.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/desired_setting.h"
#include "device/reading.h"
#include "device/record.h"

namespace gpuman::device {

// An explicit word about a setting counts above the profiles in force: they lose it.
SettingsRecord WithValues(SettingsRecord record, const Values& values, const Reading& reading,
                          base::WallTime now);
// `usual`: what each goes to (DefaultOf).
SettingsRecord WithoutValues(SettingsRecord record, const Values& usual);
// A layer takes the place of the one of its kind. Settings that are new to layers and were not asked for are
// remembered as `reading` has them; those that nobody can read, as not locked.
SettingsRecord WithLayer(SettingsRecord record, Layer layer, const Reading& reading);
SettingsRecord WithoutLayer(SettingsRecord record, bool of_job);
// What was to be restored has been set.
SettingsRecord WithRestored(SettingsRecord record);
// What became of an ECC mode that waits for a reset.
SettingsRecord WithEccSeen(SettingsRecord record, const Reading& reading, base::WallTime now);

// Every one of `desired` on this device, in the light of what else is wanted: graphics clocks have to go with
// the memory clock. A lock of graphics clocks that does not go with a new memory clock is an error too.
base::Result<Values> ResolveAll(std::span<const DesiredSetting> desired, const Reading& reading,
                                const SettingsRecord& record);

struct Step {
  Setting setting{};
  std::optional<Value> from;  // to go back to; nullopt: not known
  Value to{};
  friend bool operator==(const Step&, const Step&) = default;
};

// From the device as it is to what `next` wants and restores. What is as it should be needs no step; locked
// clocks, which cannot be read, need one where `former` wanted them otherwise, or with `anew` (the driver may
// have forgotten them). In the order of doing.
std::vector<Step> StepsTo(const SettingsRecord& next, const SettingsRecord& former, const Reading& reading,
                          bool anew);

struct Drift {
  Setting setting{};
  Value wanted{}, found{};  // of clocks, `found` is the clock at this moment
  friend bool operator==(const Drift&, const Drift&) = default;
};

// Where the device differs from what is wanted. Locked clocks: only when they run above what they were locked
// to, which a lock forbids; below it they may be for good reasons.
std::vector<Drift> DriftOf(const SettingsRecord& record, const Reading& reading);

}  // namespace gpuman::device
