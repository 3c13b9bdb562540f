// What the program is doing, told to the daemon in the slot: it decides by that who has the GPU. Every change
// is followed by a notification to the daemon's socket where the job is watched, or something waits for room.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "ledger/wire/orders.h"
#include "shim/refusal.h"

namespace gpuman::shim {

struct ProcessState;

struct Watch {
  pthread_mutex_t mutex;
  ledger::wire::Activity own;  // but for those who wait; the service thread's
  std::uint64_t own_since;     // CLOCK_MONOTONIC, ns
  std::uint64_t last_call;     // the same, when something was seen last; the service thread alone
  std::uint32_t at_gate, for_room;
  std::uint64_t wants;
};

// For as long as it lives a thread waits at the gate.
class AtGate {
 public:
  explicit AtGate(ProcessState& state);
  ~AtGate();
  AtGate(const AtGate&) = delete;
  AtGate& operator=(const AtGate&) = delete;

 private:
  ProcessState& state_;
};

bool AnyAtGate(ProcessState& state);

// What the service thread knows.
void TellActivity(ProcessState& state, ledger::wire::Activity own, std::uint64_t since);
// Looks what the program does; for the service thread, while the gate is open. How long until it is worth
// looking again, ms; -1: nobody wants to know.
int LookAtActivity(ProcessState& state);

// An allocation that found no room waits for the daemon to make some, outside of the gate. `offers` is what
// the ledger said before the allocation was tried. False: there will be none.
struct RoomWait {
  std::uint64_t began;  // CLOCK_MONOTONIC, ns; 0: not yet
};
std::uint32_t OffersOf(ProcessState& state);
bool AwaitRoom(ProcessState& state, std::uint64_t bytes, std::uint32_t offers, RoomWait& wait);

// Calls attempt(full) until it has succeeded, or failed for another reason than want of room (`full`), or no
// room came. The daemon is told of what `device` did not give in the end.
template <typename Attempt>
auto WithRoom(ProcessState& state, int device, std::uint64_t bytes, Attempt attempt) {
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
