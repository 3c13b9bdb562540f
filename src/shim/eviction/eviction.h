// Holds the process, evicts its memory in part or as a whole, and restores it. Only the service thread calls
// these functions.
//
// The process does not copy. It hands its memory to the mover as descriptors, and gets it back as descriptors
// (ledger/wire/transfer.h). While memory is evicted, the process holds the host memory with the data as well.
// So the data live exactly as long as the process does, whatever happens to mover and daemon.
//
// Each step happens as a whole or not at all: a step that fails leaves the process as it was, and its data
// where they were.
#pragma once

#include "driver/abi/cuda.h"
#include "ledger/wire/orders.h"
#include "shim/eviction/eviction_state.h"

namespace gpuman::shim {

struct EvictionResult {
  ledger::wire::OrderError error = ledger::wire::OrderError::kNone;
  driver::abi::CUresult driver = driver::abi::CUDA_SUCCESS;
  bool failed = false;  // the driver does not serve this process any more
  bool ok() const { return error == ledger::wire::OrderError::kNone; }
};

inline constexpr std::uint64_t kEverything = UINT64_MAX;

// How many bytes at least are to leave each device.
struct BytesToEvict {
  std::uint64_t bytes[kMaxDevices];
};

// Closes the gate and waits for the work of all contexts, within the limit; serves call grants meanwhile
// (gate/rest.h). Where that fails, the gate is open again. `was_at_rest`: the gate is closed already.
EvictionResult Shut(EvictionState& state, const RestLimit& limit, bool was_at_rest = false);

// Closes the gate of a process whose launches get marks, where no memory is to leave: its work stands in its
// streams (gate/stream_gates.h) until the gate opens or Shut is called. Calls that wait for it are in flight.
EvictionResult ShutStreams(EvictionState& state, const RestLimit& limit);

// Hands out as much of the memory that can leave as `leaving` says, or all of it, and gives it up. Either all
// devices give up theirs, or none does. The gate is closed.
EvictionResult HandOut(EvictionState& state, const BytesToEvict& leaving);

// Maps memory at all addresses again, with the same bytes in it. The gate is closed.
EvictionResult FetchBack(EvictionState& state);

// Returns how many bytes of the process are in host memory.
std::uint64_t BytesAway(EvictionState& state);
// Returns how many of them came from the device.
std::uint64_t BytesAwayFrom(EvictionState& state, int device);

}  // namespace gpuman::shim
