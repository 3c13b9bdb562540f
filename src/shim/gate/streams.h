// What a stream is: captured or not, of which context, and whether two are the same.
//
// Streams are named as calls without the per-thread default stream name them (PerThread).
#pragma once

#include "driver/abi/cuda.h"
#include "shim/accounting/meter.h"
#include "shim/accounting/stream_blocks.h"
#include "shim/gate/gate_state.h"

namespace gpuman::shim {

// The stream that a `_ptsz` function means.
inline driver::abi::CUstream PerThread(driver::abi::CUstream stream) {
  return stream == nullptr ? driver::abi::CU_STREAM_PER_THREAD : stream;
}

// Also where the driver does not say.
bool IsCapturing(driver::abi::CUstream stream);

// The stream's context and device. False: it is none, or beyond what is counted.
bool WhereOf(GateState& state, driver::abi::CUstream stream, Where& where);

// Of a stream of that context. A handle may come to stand for another stream, so where the driver has no
// number for it, and of the default stream of a thread, it is not sure.
StreamKey KeyOf(std::uint64_t context, driver::abi::CUstream stream);

}  // namespace gpuman::shim
