// What the shim keeps of the program's calls: the gate that they pass, and what is in flight behind it.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "shim/accounting/accounting_state.h"
#include "shim/gate/drain.h"
#include "shim/gate/gate.h"

namespace gpuman::shim {

struct GateState : AccountingState {
  Gate gate;
  std::uint32_t captures;     // atomic; streams that capture
  pthread_mutex_t capturing;  // held where a capture begins, and where one would be spoilt; after contexts
  Drain drain;
};

}  // namespace gpuman::shim
