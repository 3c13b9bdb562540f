// Device memory accounting across processes: exact at capacity, lock-free, and consistent after a process was
// killed at any instruction.
//
// A change is written as an intent into the process's slot, then takes effect by one compare-and-swap on the
// GPU's word, which names slot and sequence number of the change, and is then applied to the slot's `held`. A
// process that finds a word whose change is not applied yet applies it first, so a process that dies between
// the steps leaves nothing incomplete. Sequence numbers grow with each change and continue when a slot gets a
// new owner.
#pragma once

#include <cstdint>

#include "sim/state/layout.h"

namespace gpuman::sim {

std::uint64_t UnitsForBytes(std::uint64_t bytes);

// Changes what `slot` holds of `gpu`; only the slot's own process calls it, one thread at a time. False if
// the GPU's use would exceed `capacity_units`, or the slot's units would become negative.
bool ChangeHeld(Shared& shared, unsigned gpu, unsigned slot, std::int64_t units,
                std::uint64_t capacity_units);

// Returns all memory of a dead process's slot; any number of processes may call it at the same time. `owner`
// is the dead process; the call does nothing once the slot belongs to another process.
void GiveBackAll(Shared& shared, unsigned slot, std::uint64_t owner);

std::uint64_t UsedUnits(const Shared& shared, unsigned gpu);
std::uint64_t HeldUnits(const ProcessSlot& slot, unsigned gpu);

}  // namespace gpuman::sim
