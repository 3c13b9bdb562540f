// Leaving the device and coming back. For the attendant alone.
//
// The process does not copy: it hands its memory to the mover, a process of the daemon's, as descriptors, and
// gets it back so (ledger/wire/transfer.h). While it is away it holds the host memory with its data as well,
// so that they live exactly as long as it does, whatever becomes of mover and daemon.
//
// Either happens as a whole or not at all: an eviction that fails leaves the process on the device with the
// gate open, a restore that fails leaves it evicted with the gate closed, and the data is where it was.
#pragma once

#include "driver/abi/cuda.h"
#include "ledger/wire/orders.h"
#include "shim/guest.h"

namespace gpuman::shim {

struct Ended {
  ledger::wire::Trouble trouble = ledger::wire::Trouble::kNone;
  driver::abi::CUresult driver = driver::abi::CUDA_SUCCESS;
  bool failed = false;  // the driver serves this process no more: the gate is open
};

// Closes the gate, waits for the work of all contexts, hands over what can leave and gives it up. Waiting for
// the program ends at the deadline (CLOCK_MONOTONIC, ns). On success the gate stays closed.
Ended Evict(Guest& guest, std::uint64_t deadline, std::uint64_t& evicted);

// Memory behind the same addresses again, with the same bytes; opens the gate.
Ended Restore(Guest& guest);

}  // namespace gpuman::shim
