// Waits for the work of all contexts, within a limit.
//
// The driver's own wait has no limit, so a thread that does nothing else calls it. Where that takes too long,
// the caller gives up and leaves the thread in the driver's wait. The thread can be used again when the work
// has ended.
#pragma once

#include <cstdint>

#include "driver/abi/cuda.h"

namespace gpuman::shim {

struct GateState;
class RestLimit;

struct Drain {
  static constexpr unsigned kMaxContexts = 64;
  bool started;
  std::uint32_t asked, done;  // futex words; the thread works while they differ
  std::uint32_t result;       // CUresult
  unsigned contexts;
  std::uint64_t context[kMaxContexts];
};

enum class Drained { kYes, kTooLong, kFailed };

// Starts the thread, and waits until it has called MeetDriver. The service thread calls this before it first
// closes the gate.
void StartDrain(GateState& state);

// Waits for the work of all contexts, within the limit. The service thread calls this while the gate is
// closed. With kFailed, `result` is the driver's error.
Drained DrainContexts(GateState& state, const RestLimit& limit, driver::abi::CUresult& result);

}  // namespace gpuman::shim
