// What the shim keeps to carry out the daemon's orders, and of evicted memory.
#pragma once

#include "ledger/wire/transfer.h"
#include "shim/backing/backing_state.h"
#include "shim/eviction/service_thread.h"

namespace gpuman::shim {

struct EvictionState : BackingState {
  ServiceThreadState service_thread;
  // Only the service thread uses these two.
  unsigned segments;                        // how many segments of host memory hold evicted data
  int segment[ledger::wire::kMaxSegments];  // their numbers in the descriptor store
};

}  // namespace gpuman::shim
