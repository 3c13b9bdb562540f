// Calls into the driver that several parts of the shim make on their own account. Thread-safe.
#pragma once

#include <cstdint>

#include "driver/abi/cuda.h"

namespace gpuman::shim {

// A thread of the shim's that calls the driver does this before the gate is ever shut: no capture is its
// business, and the driver makes what it keeps by thread. That can take the linker's lock, as LearnAll does
// (driver.h).
void MeetDriver();

// Waits for the work of the context, for as long as it takes, and returns what the driver says.
driver::abi::CUresult SynchronizeContext(std::uint64_t context);

// For as long as it lives, the calling thread's questions to pools, trims and waits spoil no capture of the
// program's: the driver counts them among what must not be called while a stream is captured.
class Relaxed {
 public:
  Relaxed();
  ~Relaxed();
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  driver::abi::CUstreamCaptureMode mode_;
  bool exchanged_;
};

}  // namespace gpuman::shim
