// Device memory accounting across processes: exact at capacity, lock-free, and consistent after a process was
// killed at any instruction.
//
// A change is written as an intent into the process's slot, then takes effect by one compare-and-swap on the
// GPU's word, which names slot and sequence number of the change, and is then carried over into the slot's
// `held`. Whoever meets a word whose change is not carried over yet does that first, so a process that dies
// between the steps leaves nothing undone. Sequence numbers grow with each change and live on when a slot
// changes hands.
#pragma once

#include <cstdint>

#include "sim/state/layout.h"

namespace gpuman::sim {

std::uint64_t UnitsForBytes(std::uint64_t bytes);

// Changes what `slot` holds of `gpu`; by the slot's own process, one thread at a time. False when more than
// `capacity_units` would be in use, or less than nothing held.
bool ChangeHeld(Shared& shared, unsigned gpu, unsigned slot, std::int64_t units,
                std::uint64_t capacity_units);

// Gives back all that the slot of a process known to be dead holds; by any number of processes at a time.
// `owner` is the dead process; does nothing once the slot belongs to another.
void GiveBackAll(Shared& shared, unsigned slot, std::uint64_t owner);

std::uint64_t UsedUnits(const Shared& shared, unsigned gpu);
std::uint64_t HeldUnits(const ProcessSlot& slot, unsigned gpu);

}  // namespace gpuman::sim
