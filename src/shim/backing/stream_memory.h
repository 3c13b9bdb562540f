// Allocates memory of plain pools and frees it, in the order of streams (stream_pools.h). Only an allocation
// that finds no room waits for the device.
//
// The callers have passed the gate and hold none of the state's mutexes. Thread-safe.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/backing/backing.h"
#include "shim/backing/backing_state.h"

namespace gpuman::shim {

struct AsyncAllocRequest {
  AllocationTarget where;          // context and device of the stream
  driver::abi::CUmemoryPool pool;  // null: the current pool of the stream's device
  driver::abi::CUstream stream;    // as PerThread names it; not captured
  std::uint64_t bytes;             // above 0
};

// Returns false where the driver has to answer. Otherwise `result` is the answer of cuMemAllocFromPoolAsync.
bool AllocateInOrder(BackingState& state, const AsyncAllocRequest& request, driver::abi::CUdeviceptr* pointer,
                     driver::abi::CUresult& result);

// kDone: `result` is the answer of cuMemFreeAsync. kDriver: the driver has to answer. kNotOfPools: no pool of
// the shim has the memory.
enum class AsyncFreeResult { kNotOfPools, kDone, kDriver };
AsyncFreeResult FreeInOrder(BackingState& state, driver::abi::CUdeviceptr pointer,
                            driver::abi::CUstream stream, driver::abi::CUresult& result);

// Frees memory of the pool with that number (Region::pool), now that no work uses it. Returns false where no
// block begins at the pointer.
bool FreeOfPool(BackingState& state, unsigned number, driver::abi::CUdeviceptr pointer);
// Finds the block of the region in which the pointer lies. Returns false when there is none.
bool FindInPool(BackingState& state, const Region& region, driver::abi::CUdeviceptr pointer,
                FoundAllocation& found);

}  // namespace gpuman::shim
