// The process state: all that the shim keeps in a process.
//
// It lies in memory that a fork wipes. A child starts with zeros: a state that has not joined yet, with every
// mutex free. The driver does the same: contexts do not survive a fork. No mutex is held while the shim calls
// the driver, except `pools`, `contexts`, `capturing`, `ipc.mutex` and that of a stream's gate, each around
// calls of its own kind. Mutexes are locked in this order: contexts, capturing, pools, ipc, books, meter, and
// at last those of stream_gates.h: the registry, a gate's own.
#pragma once

#include <cerrno>

#include "shim/eviction/eviction_state.h"

namespace gpuman::shim {

struct ProcessState : EvictionState {};

// Returns the state of this process, joined or not; null where there can be none.
ProcessState* UnjoinedState();

// Returns the state of this process, and joins first where that is possible now; null where the shim has
// nothing to do. The first call waits for the daemon: half a second until the daemon takes the connection,
// then ten seconds until it answers.
ProcessState* JoinedState();

// An object lives as long as a hook: the program's errno stays as it was.
class HookErrnoScope {
 public:
  HookErrnoScope() : errno_(errno), state_(JoinedState()) {}
  ~HookErrnoScope() { errno = errno_; }
  HookErrnoScope(const HookErrnoScope&) = delete;
  HookErrnoScope& operator=(const HookErrnoScope&) = delete;
  explicit operator bool() const { return state_ != nullptr; }
  ProcessState& operator*() const { return *state_; }

 private:
  int errno_;
  ProcessState* state_;
};

}  // namespace gpuman::shim
