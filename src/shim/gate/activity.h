// What the program does, as its calls through the gate show it, and allocations that wait outside of the gate
// for room on the device.
#pragma once

#include <cstdint>

#include "shim/accounting/refusal.h"

namespace gpuman::shim {

struct GateState;

// Looks what the program does, and tells it (watch.h). For the service thread, while the gate is open. It
// returns how long until it is worth looking again, ms; -1: nobody wants to know.
int LookAtActivity(GateState& state);

// An allocation that found no room waits for the daemon to make some, outside of the gate. `offers` is what
// the ledger said before the allocation was tried. AwaitRoom returns false where there will be no room.
struct RoomWait {
  std::uint64_t began;  // CLOCK_MONOTONIC, ns; 0: not yet
};
std::uint32_t OffersOf(GateState& state);
bool AwaitRoom(GateState& state, std::uint64_t bytes, std::uint32_t offers, RoomWait& wait);

// Calls attempt(full) until it has succeeded, or has failed for another reason than want of room (`full`), or
// no room came. It tells the daemon of what `device` did not give in the end.
template <typename Attempt>
auto WithRoom(GateState& state, int device, std::uint64_t bytes, Attempt attempt) {
  RoomWait wait{};
  for (;;) {
    const std::uint32_t offers = OffersOf(state);
    bool full = false;
    const auto result = attempt(full);
    if (full && AwaitRoom(state, bytes, offers, wait)) continue;
    TellIfRefused(state, device, bytes, result, full);
    return result;
  }
}

}  // namespace gpuman::shim
