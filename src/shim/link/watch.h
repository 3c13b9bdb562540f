// What the program does. The shim tells it to the daemon in the slot, and the daemon decides by it which job
// has the GPU. The shim sends a notification after each change where the job is watched, and whenever
// allocations wait for more room than before.
//
// Thread-safe.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "ledger/wire/orders.h"

namespace gpuman::shim {

struct LinkState;

struct ActivityWatchState {
  pthread_mutex_t mutex;
  ledger::wire::Activity own;  // without the threads that wait
  std::uint64_t own_since;     // when `own` began; CLOCK_MONOTONIC, ns
  std::uint64_t last_call;  // when a call was last seen; CLOCK_MONOTONIC, ns; only the service thread uses it
  std::uint64_t completed;  // calls that CallsSince has counted; only the service thread uses it
  std::uint32_t at_gate, for_room;
  // Bytes that allocations wait for. The first number is of the GPU of which the slot tells, the others are
  // of the entries of Ledger::home.
  std::uint64_t wants[1 + ledger::wire::kHomes];
  // While this is true, threads that come to the gate or leave it send no notification; the service thread
  // sends one later.
  bool quiet;
};

// A thread waits at the gate while the object lives.
class GateWaitScope {
 public:
  explicit GateWaitScope(LinkState& state);
  ~GateWaitScope();
  GateWaitScope(const GateWaitScope&) = delete;
  GateWaitScope& operator=(const GateWaitScope&) = delete;

 private:
  LinkState& state_;
};

// An allocation of `bytes` waits for room while the object lives. `entry`: 1 + the index of the GPU's entry
// in Ledger::home; 0: the slot tells of the GPU.
class RoomWaitScope {
 public:
  RoomWaitScope(LinkState& state, std::uint32_t entry, std::uint64_t bytes);
  ~RoomWaitScope();
  RoomWaitScope(const RoomWaitScope&) = delete;
  RoomWaitScope& operator=(const RoomWaitScope&) = delete;

 private:
  LinkState& state_;
  const std::uint32_t entry_;
  const std::uint64_t bytes_;
};

// Returns how many bytes allocations wait for, as the ledger tells. `entry`: as for RoomWaitScope.
std::uint64_t WantsOf(const LinkState& state, std::uint32_t entry);

bool AnyAtGate(LinkState& state);
bool AnyForRoom(LinkState& state);
// Returns whether a thread waits at the gate or for room.
bool AnyWaits(LinkState& state);
// Between the two calls the process comes to rest: threads pass the gate one by one, and the daemon is not
// notified of each.
void BeginQuietGate(LinkState& state);
void EndQuietGate(LinkState& state);

// A thread of the program tells that the program, which was idle, works again.
void TellWorksAgain(LinkState& state);

// What the service thread, or TellWorksAgain, has told last.
ledger::wire::Activity OwnActivity(LinkState& state);

// The service thread tells what the program does, and since when (CLOCK_MONOTONIC, ns).
void TellActivity(LinkState& state, ledger::wire::Activity own, std::uint64_t since);

}  // namespace gpuman::shim
