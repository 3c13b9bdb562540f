// Calls into the driver that several parts of the shim make for the shim itself. Thread-safe.
#pragma once

#include <cstdint>

#include "driver/abi/cuda.h"

namespace gpuman::shim {

// A thread of the shim that calls the driver calls this before the gate is first closed. No capture concerns
// the thread from then on, and the driver makes what it keeps for each thread. That can take the dynamic
// linker's lock, as LearnAll does (driver.h).
void MeetDriver();

// Waits for the work of the context, for as long as it takes, and returns what the driver says.
driver::abi::CUresult SynchronizeContext(std::uint64_t context);

// While an object lives, queries of pools, trims and waits by the calling thread spoil no capture of the
// program. While a stream is captured, the driver allows them only to a thread whose capture mode is relaxed.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  driver::abi::CUstreamCaptureMode mode_;
  bool exchanged_;
};

}  // namespace gpuman::shim
