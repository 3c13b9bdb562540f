// Memory of plain pools, given out and freed in the order of streams (stream_pools.h). Nothing here waits for
// the device but an allocation that finds no room.
//
// For calls that have passed the gate and hold none of the state's mutexes. Thread-safe.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/backing/backing.h"
#include "shim/backing/backing_state.h"

namespace gpuman::shim {

struct StreamRequest {
  Where where;                     // the stream's
  driver::abi::CUmemoryPool pool;  // null: the current one of the stream's device
  driver::abi::CUstream stream;    // as PerThread names it; not captured
  std::uint64_t bytes;             // above 0
};

// False: it is the driver's to answer. Else `result` is what cuMemAllocFromPoolAsync answers.
bool AllocateInOrder(BackingState& state, const StreamRequest& request, driver::abi::CUdeviceptr* pointer,
                     driver::abi::CUresult& result);

// What cuMemFreeAsync answers is `result`; kDriver: what the driver does.
enum class FreedInOrder { kNotOfPools, kDone, kDriver };
FreedInOrder FreeInOrder(BackingState& state, driver::abi::CUdeviceptr pointer, driver::abi::CUstream stream,
                         driver::abi::CUresult& result);

// Of the pool with that number (Region::pool): frees it now that nothing uses it. False: nothing is there.
bool FreeOfPool(BackingState& state, unsigned number, driver::abi::CUdeviceptr pointer);
// What was given out there, of the region. False: nothing was.
bool FindInPool(BackingState& state, const Region& region, driver::abi::CUdeviceptr pointer, Found& found);

}  // namespace gpuman::shim
