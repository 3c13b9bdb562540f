// What the shim keeps of its link to the daemon: whether the process counts in a ledger, and in which ledger.
//
// The process state is one object (process_state.h), in layers: the state of a room is the base class of the
// state of the room above. So a function gets what its room and the rooms below keep, and nothing else.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "ledger/wire/layout.h"
#include "shim/libc/kept_file.h"
#include "shim/link/watch.h"

namespace gpuman::shim {

enum class JoinState : std::uint32_t {
  kAlone,   // no daemon has answered yet: the shim counts without a limit
  kJoined,  // the shim counts in the ledger
  kNever    // the process is in no job of any daemon: the shim does nothing
};

struct LinkState {
  std::atomic<JoinState> join_state;
  std::uint32_t tries;
  std::uint64_t next_try;  // CLOCK_MONOTONIC, ns; atomic
  pthread_mutex_t join;    // held while a thread asks the daemon

  // Written once, under `meter` (accounting_state.h), before `join_state` becomes kJoined.
  ledger::wire::Ledger* ledger;
  unsigned slot;
  KeptFile file;  // the ledger's file, to reclaim slots

  ActivityWatchState watch;
};

inline bool IsJoined(const LinkState& state) {
  return state.join_state.load(std::memory_order_acquire) == JoinState::kJoined;
}

}  // namespace gpuman::shim
