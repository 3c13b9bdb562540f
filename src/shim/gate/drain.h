// Waiting for the work of all contexts, with an end to the waiting.
//
// The driver's own wait has no end, so a thread that does nothing else calls it. Where that takes too long
// the caller gives up and leaves the thread in it; the thread is of use again when the work has come to its
// end.
#pragma once

#include <cstdint>

#include "driver/abi/cuda.h"

namespace gpuman::shim {

struct GateState;
class RestLimit;

struct Drain {
  static constexpr unsigned kMaxContexts = 64;
  bool started;
  std::uint32_t asked, done;  // futex words; the thread is at work where they differ
  std::uint32_t result;       // CUresult
  unsigned contexts;
  std::uint64_t context[kMaxContexts];
};

enum class Drained { kYes, kTooLong, kFailed };

// Starts the thread, and waits until it has met the driver. The service thread calls this before the gate is
// ever shut.
void StartDrain(GateState& state);

// Waits for the work of all contexts, within the limit. The service thread calls this while the gate is
// closed. With kFailed `result` says what the driver did.
Drained DrainContexts(GateState& state, const RestLimit& limit, driver::abi::CUresult& result);

}  // namespace gpuman::shim
