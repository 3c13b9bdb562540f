// Tells of a stream whether it is captured, which context it has, and whether it is the same as another
// stream.
//
// The functions take a stream as functions without the per-thread default stream name it (PerThread).
#pragma once

#include "driver/abi/cuda.h"
#include "shim/accounting/meter.h"
#include "shim/accounting/stream_block_allocator.h"
#include "shim/gate/gate_state.h"

namespace gpuman::shim {

// Returns the stream that a `_ptsz` function means.
inline driver::abi::CUstream PerThread(driver::abi::CUstream stream) {
  return stream == nullptr ? driver::abi::CU_STREAM_PER_THREAD : stream;
}

// Returns true also where the driver does not tell.
bool IsCapturing(driver::abi::CUstream stream);

// Finds the stream's context and device. Returns false where this is no stream, or where the shim does not
// count its device.
bool WhereOf(GateState& state, driver::abi::CUstream stream, AllocationTarget& where);

// Returns the key of a stream of that context. The key is not sure where the driver has no number for the
// stream, since the handle may later stand for another stream. It is not sure for the default stream of a
// thread either.
StreamKey KeyOf(std::uint64_t context, driver::abi::CUstream stream);

}  // namespace gpuman::shim
