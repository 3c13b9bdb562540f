// What the program is doing, told to the daemon in the slot: it decides by that who has the GPU. Every change
// is followed by a notification to the daemon's socket where the job is watched, or something waits for room.
//
// Thread-safe.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "ledger/wire/orders.h"

namespace gpuman::shim {

struct LinkState;

struct Watch {
  pthread_mutex_t mutex;
  ledger::wire::Activity own;  // but for those who wait; the service thread's
  std::uint64_t own_since;     // CLOCK_MONOTONIC, ns
  std::uint64_t last_call;     // the same, when something was seen last; the service thread alone
  std::uint32_t at_gate, for_room;
  std::uint64_t wants;
};

// For as long as it lives, a thread waits at the gate.
class AtGate {
 public:
  explicit AtGate(LinkState& state);
  ~AtGate();
  AtGate(const AtGate&) = delete;
  AtGate& operator=(const AtGate&) = delete;

 private:
  LinkState& state_;
};

// For as long as it lives, an allocation of so many bytes waits for room.
class ForRoom {
 public:
  ForRoom(LinkState& state, std::uint64_t bytes);
  ~ForRoom();
  ForRoom(const ForRoom&) = delete;
  ForRoom& operator=(const ForRoom&) = delete;

 private:
  LinkState& state_;
  const std::uint64_t bytes_;
};

bool AnyAtGate(LinkState& state);
// A thread waits at the gate or for room.
bool AnyWaits(LinkState& state);

// Tells what the service thread knows of the program.
void TellActivity(LinkState& state, ledger::wire::Activity own, std::uint64_t since);

}  // namespace gpuman::shim
