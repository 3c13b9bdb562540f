// What the shim keeps of the program's calls: the gate that they pass, and the work in flight behind it.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "shim/accounting/accounting_state.h"
#include "shim/gate/drain.h"
#include "shim/gate/gate.h"
#include "shim/gate/rest.h"
#include "shim/gate/stream_gates.h"

namespace gpuman::shim {

struct GateState : AccountingState {
  Gate gate;
  std::uint32_t captures;  // atomic; how many streams are being captured
  // Held where a capture begins, and where a call would spoil a capture; locked after `contexts`.
  pthread_mutex_t capturing;
  Drain drain;
  PublishedRest rest;
  StreamGates stream_gates;
};

}  // namespace gpuman::shim
