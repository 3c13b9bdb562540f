// What the shim keeps of its link to the daemon: whether the process counts in a ledger, and in which.
//
// All that the shim keeps in a process is one object (process_state.h), in layers: the state of a room is the
// base of the state of the room above, so a function can take what its room and those below keep, and nothing
// else.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "ledger/wire/layout.h"
#include "shim/libc/kept_file.h"
#include "shim/link/watch.h"

namespace gpuman::shim {

enum class JoinState : std::uint32_t {
  kAlone,   // no daemon has answered yet: counts, without a limit
  kJoined,  // counts in the ledger
  kNever    // no job of any daemon: does nothing
};

struct LinkState {
  std::atomic<JoinState> join_state;
  std::uint32_t tries;
  std::uint64_t next_try;  // CLOCK_MONOTONIC, ns; atomic
  pthread_mutex_t join;    // held to ask the daemon

  // Written once, under `meter` (accounting_state.h), before the process says that it has joined.
  ledger::wire::Ledger* ledger;
  unsigned slot;
  KeptFile file;  // of the ledger, for reclaiming

  Watch watch;
};

inline bool IsJoined(const LinkState& state) {
  return state.join_state.load(std::memory_order_acquire) == JoinState::kJoined;
}

}  // namespace gpuman::shim
