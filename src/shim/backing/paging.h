// Managed memory in place of plain memory. The driver pages it, so a process can have more of it than its
// device holds, and processes can take turns where the daemon cannot move their memory.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/accounting/meter.h"
#include "shim/backing/backing_state.h"

namespace gpuman::shim {

// Returns whether the environment of the process asks for managed memory, whatever the device can do.
bool WantsManaged();
// Returns whether the process may have more of it than the device has (gpuman run --oversubscribe).
bool MayExceedDevice();

// Returns whether the shim makes plain memory of managed memory on the device. It never does so where the
// device does not page by faults: there the process could not have more than fits.
bool IsManaged(BackingState& state, int device);

// Allocates `bytes`, which are reserved already. Returns out of memory where the process would have more than
// the device has, unless it may (MayExceedDevice).
driver::abi::CUresult AllocateManaged(BackingState& state, const AllocationTarget& where,
                                      driver::abi::CUdeviceptr* pointer, std::uint64_t bytes);

// Tells the daemon, in the slot, how many bytes of managed memory there are.
void TellManaged(BackingState& state);

}  // namespace gpuman::shim
