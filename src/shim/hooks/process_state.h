// All that the shim keeps in a process, and the way to it.
//
// It lies in memory that a fork wipes: a child starts with zeros, which is a state that has not been anywhere
// yet, with every mutex free. That is how the driver sees it too: contexts do not survive a fork. No mutex is
// held while the driver is called, except `pools`, `contexts` and `ipc.mutex`, each around calls of its own
// kind. Order: contexts, pools, ipc, books, meter.
#pragma once

#include <cerrno>

#include "shim/eviction/eviction_state.h"

namespace gpuman::shim {

struct ProcessState : EvictionState {};

// The state of this process as it is, joined or not; null where there can be none.
ProcessState* UnjoinedState();

// The state of this process, joined where that is possible now; null where the shim has nothing to do. It
// waits for the daemon at the first call: half a second until the daemon takes the connection, then ten until
// it answers.
ProcessState* JoinedState();

// For the length of a hook: the program's errno stays as it was.
class HookScope {
 public:
  HookScope() : errno_(errno), state_(JoinedState()) {}
  ~HookScope() { errno = errno_; }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;
  explicit operator bool() const { return state_ != nullptr; }
  ProcessState& operator*() const { return *state_; }

 private:
  int errno_;
  ProcessState* state_;
};

}  // namespace gpuman::shim
