// Managed memory in place of plain memory: the driver pages it, so a process can have more than its device
// holds, and several take turns where the daemon cannot move their memory.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/accounting/meter.h"
#include "shim/backing/backing_state.h"

namespace gpuman::shim {

// The process asks for managed memory by its environment, whatever the device can do.
bool WantsManaged();
// It may have more of it than the device (gpuman run --oversubscribe).
bool MayExceedDevice();

// Whether plain memory is made managed on the device. Never where the device does not page by faults: there
// it could not have more than fits.
bool IsManaged(BackingState& state, int device);

// `bytes` are reserved already. Out of memory where it would be more than the device has, unless it may.
driver::abi::CUresult AllocateManaged(BackingState& state, const Where& where,
                                      driver::abi::CUdeviceptr* pointer, std::uint64_t bytes);

// For the daemon to read, in the slot.
void TellManaged(BackingState& state);

}  // namespace gpuman::shim
