// Holding the process, leaving the device, in parts or as a whole, and coming back. The service thread alone
// calls these functions.
//
// The process does not copy: it hands its memory to the mover, a process of the daemon's, as descriptors, and
// gets it back so (ledger/wire/transfer.h). While it is away it holds the host memory with its data as well,
// so that they live exactly as long as it does, whatever becomes of mover and daemon.
//
// Each step happens as a whole or not at all: what fails leaves the process as it was, and its data where
// they were.
#pragma once

#include "driver/abi/cuda.h"
#include "ledger/wire/orders.h"
#include "shim/eviction/eviction_state.h"

namespace gpuman::shim {

struct Ended {
  ledger::wire::Trouble trouble = ledger::wire::Trouble::kNone;
  driver::abi::CUresult driver = driver::abi::CUDA_SUCCESS;
  bool failed = false;  // the driver serves this process no more
  bool ok() const { return trouble == ledger::wire::Trouble::kNone; }
};

inline constexpr std::uint64_t kEverything = UINT64_MAX;

// Closes the gate and waits for the work of all contexts, within the limit. The gate is open again where that
// fails.
Ended Shut(EvictionState& state, const RestLimit& limit);

// Hands over so many bytes at least of what can leave, or all of it, and gives it up. The gate is shut.
Ended HandOut(EvictionState& state, std::uint64_t bytes);

// Puts memory behind all addresses again, with the same bytes. The gate is shut.
Ended FetchBack(EvictionState& state);

// Returns how many bytes of the process are in host memory.
std::uint64_t BytesAway(EvictionState& state);

}  // namespace gpuman::shim
