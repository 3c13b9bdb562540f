// What the program does, as its calls through the gate show it; and allocations that wait outside the gate
// for room on the device.
#pragma once

#include <cstdint>

#include "shim/accounting/refusal.h"

namespace gpuman::shim {

struct GateState;

// Finds out what the program does, and tells it (watch.h). The service thread calls this while the gate is
// open. Returns after how many nanoseconds it should look again; -1: the job is not watched.
std::int64_t CheckActivity(GateState& state);

// An allocation that found no room waits outside the gate until the daemon makes room. `offers` is what
// OffersOf returned before the allocation was tried. AwaitRoom returns false where there will be no room.
struct RoomWait {
  std::uint64_t began;  // CLOCK_MONOTONIC, ns; 0: the wait has not begun
};
std::uint32_t OffersOf(GateState& state);
bool AwaitRoom(GateState& state, int device, std::uint64_t bytes, std::uint32_t offers, RoomWait& wait);

// Calls attempt(full) until it succeeds, fails for another reason than a lack of room (`full`), or no room
// comes. Where the program does not get the memory on `device` in the end, it tells the daemon so.
template <typename Attempt>
auto WithRoom(GateState& state, int device, std::uint64_t bytes, Attempt attempt) {
  RoomWait wait{};
  for (;;) {
    const std::uint32_t offers = OffersOf(state);
    bool full = false;
    const auto result = attempt(full);
    if (full && AwaitRoom(state, device, bytes, offers, wait)) continue;
    TellIfRefused(state, device, bytes, result, full);
    return result;
  }
}

}  // namespace gpuman::shim
