// Memory of the program's own virtual memory calls, in a process whose memory can leave the device. The shim
// makes it so that it can be exported, and the program knows it by tokens (accounting/memory_token_table.h).
//
// Memory that is mapped once, as a whole, and that no other process can reach, has a region, by which it
// leaves and comes back. Other memory stays on the device. The callers have passed the gate.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/backing/backing_state.h"

namespace gpuman::shim {

using ProgramHandle = driver::abi::CUmemGenericAllocationHandle;

// Makes memory as cuMemCreate does. The handle is a token where such memory can leave, else the driver's
// handle.
driver::abi::CUresult CreateForProgram(BackingState& state, ProgramHandle* handle, std::size_t size,
                                       const driver::abi::CUmemAllocationProp& prop,
                                       unsigned long long flags);

// What a handle of the program stands for. `handle`: the driver's handle; the program's own where that is no
// token; 0 where the token's memory has ended.
struct HandleInfo {
  ProgramHandle handle;
  int kept;             // as PieceBacking::kept
  std::uint32_t types;  // handle types by which the program may export it
  unsigned char direct;
  bool token;
};
HandleInfo InfoOf(BackingState& state, ProgramHandle handle);

// Returns false where the handle is no token; then the driver has to be asked. Otherwise `result` is the
// answer of cuMemRelease.
bool ReleaseHeld(BackingState& state, ProgramHandle handle, driver::abi::CUresult& result);
// A hook calls this when the driver has answered cuMemRetainAllocationHandle: the handle becomes the token of
// the memory at the address.
void RetainHeld(BackingState& state, ProgramHandle& handle, driver::abi::CUdeviceptr address);
// A hook calls this when the driver has mapped the memory of the handle.
void MappedHeld(BackingState& state, driver::abi::CUdeviceptr address, std::size_t size,
                ProgramHandle handle);
// The memory stays on the device from now on, since others can reach it.
void StaysHeld(BackingState& state, ProgramHandle handle);
// The same for all memory in the range that can leave.
void StaysAt(BackingState& state, driver::abi::CUdeviceptr address, std::size_t size);
// Returns the handle types that the program asked for when it made the memory at the address; all bits where
// this is not such memory.
std::uint32_t TypesAt(BackingState& state, driver::abi::CUdeviceptr address);

// The mappings in a range, from before the shim asks the driver to unmap them until the driver has answered.
class Unmapping {
 public:
  Unmapping(BackingState& state, driver::abi::CUdeviceptr address, std::size_t size);
  ~Unmapping() { taken_.Reset(); }
  Unmapping(const Unmapping&) = delete;
  Unmapping& operator=(const Unmapping&) = delete;
  void End(bool unmapped);

 private:
  BackingState& state_;
  HashTable<TokenMapping> taken_;
};

}  // namespace gpuman::shim
