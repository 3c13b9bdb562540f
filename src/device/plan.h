// Changes of what is wanted of a GPU, and the steps that bring the GPU there. Pure.
//
// A change takes a record and gives the next one; it is stored before the first step, so that a daemon that
// starts after any crash knows what the GPU is to be. What a layer covers is remembered as it was found and,
// when the layer goes, owed until it is set.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/reading.h"
#include "device/record.h"
#include "device/wish.h"

namespace gpuman::device {

// An explicit word about a setting counts above the profiles in force: they lose it.
Record WithValues(Record record, const Values& values, const Reading& reading, base::WallTime now);
// `usual`: what each goes to (UsualOf).
Record WithoutValues(Record record, const Values& usual);
// A layer takes the place of the one of its kind. Settings that are new to layers and were not asked for are
// remembered as `reading` has them; those that nobody can read, as not locked.
Record WithLayer(Record record, Layer layer, const Reading& reading);
Record WithoutLayer(Record record, bool of_job);
// What is owed has been set.
Record Settled(Record record);
// What became of an ECC mode that waits for a reset.
Record WithEccSeen(Record record, const Reading& reading, base::WallTime now);

// Every one of `wishes` on this device, in the light of what else is wanted: graphics clocks have to go with
// the memory clock. A lock of graphics clocks that does not go with a new memory clock is an error too.
base::Result<Values> ResolveAll(std::span<const Wish> wishes, const Reading& reading, const Record& record);

struct Step {
  Setting setting{};
  std::optional<Value> from;  // to go back to; nullopt: not known
  Value to{};
  friend bool operator==(const Step&, const Step&) = default;
};

// From the device as it is to what `next` wants and owes. What is as it should be needs no step; locked
// clocks, which cannot be read, need one where `former` wanted them otherwise, or with `anew` (the driver may
// have forgotten them). In the order of doing.
std::vector<Step> StepsTo(const Record& next, const Record& former, const Reading& reading, bool anew);

struct Drift {
  Setting setting{};
  Value wanted{}, found{};  // of clocks, `found` is the clock at this moment
  friend bool operator==(const Drift&, const Drift&) = default;
};

// Where the device differs from what is wanted. Locked clocks: only when they run above what they were locked
// to, which a lock forbids; below it they may be for good reasons.
std::vector<Drift> DriftOf(const Record& record, const Reading& reading);

}  // namespace gpuman::device
