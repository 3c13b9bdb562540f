// What the shim keeps to carry out the daemon's orders, and of memory that is off the device.
#pragma once

#include "ledger/wire/transfer.h"
#include "shim/backing/backing_state.h"
#include "shim/eviction/service_thread.h"

namespace gpuman::shim {

struct EvictionState : BackingState {
  ServiceThread service_thread;
  // Both are the service thread's own.
  unsigned segments;                        // of host memory that has the data that is away
  int segment[ledger::wire::kMaxSegments];  // in the descriptor store
};

}  // namespace gpuman::shim
