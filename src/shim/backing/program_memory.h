// Memory of the program's own virtual memory calls in a process whose memory can leave the device: made so
// that it can be passed on, and known to the program by tokens (accounting/made_memory.h).
//
// What is mapped once, whole, and is nobody else's has a region, by which it leaves and comes back; the rest
// stays on the device. For calls that have passed the gate.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/backing/backing_state.h"

namespace gpuman::shim {

using ProgramHandle = driver::abi::CUmemGenericAllocationHandle;

// As cuMemCreate: a token where such memory can leave, else the driver's handle.
driver::abi::CUresult CreateForProgram(BackingState& state, ProgramHandle* handle, std::size_t size,
                                       const driver::abi::CUmemAllocationProp& prop,
                                       unsigned long long flags);

// What the driver knows by the program's handle; the program's own where it is no token, 0 for one that is
// gone.
struct Held {
  ProgramHandle handle;
  int kept;             // as PieceBacking's
  std::uint32_t types;  // by which it may be exported
  unsigned char direct;
  bool token;
};
Held HeldBy(BackingState& state, ProgramHandle handle);

// False: no token; the driver is to be asked. Else `result` is what cuMemRelease answers.
bool ReleaseHeld(BackingState& state, ProgramHandle handle, driver::abi::CUresult& result);
// The driver has answered cuMemRetainAllocationHandle: the handle becomes the token of what is there.
void RetainHeld(BackingState& state, ProgramHandle& handle, driver::abi::CUdeviceptr address);
// The driver has mapped it.
void MappedHeld(BackingState& state, driver::abi::CUdeviceptr address, std::size_t size,
                ProgramHandle handle);
// Others can reach it from now on.
void StaysHeld(BackingState& state, ProgramHandle handle);
// The same of all that can leave and has addresses there.
void StaysAt(BackingState& state, driver::abi::CUdeviceptr address, std::size_t size);
// As the program asked when it made what is mapped there; all bits where it is none of this.
std::uint32_t TypesAt(BackingState& state, driver::abi::CUdeviceptr address);

// The mappings in a range, from before the driver is asked to take them away until it has answered.
class Unmapping {
 public:
  Unmapping(BackingState& state, driver::abi::CUdeviceptr address, std::size_t size);
  ~Unmapping() { taken_.Reset(); }
  Unmapping(const Unmapping&) = delete;
  Unmapping& operator=(const Unmapping&) = delete;
  void End(bool unmapped);

 private:
  BackingState& state_;
  Table<MadeMapping> taken_;
};

}  // namespace gpuman::shim
