#include "daemon/shims/slot_text.h"

#include <fmt/format.h>

namespace gpuman::daemon {

std::string TextOf(const ledger::SlotStatus& slot) {
  using ledger::wire::OrderError;
  switch (slot.error) {
    case OrderError::kNone:
      return {};
    case OrderError::kBudget:
      return "its data is more than its job may keep in the host's memory";
    case OrderError::kHostMemory:
      return "the machine has too little memory available for its data";
    case OrderError::kBusy:
      return "its GPU work did not come to an end in time";
    case OrderError::kCapturing:
      return "it was recording a CUDA graph all the time";
    case OrderError::kNoRoom:
      return "its GPU has no room for it to come back";
    case OrderError::kDriver:
      return fmt::format("the driver failed with CUDA error {}", slot.driver_error);
    case OrderError::kNoMover:
      return "gpuman-mover, which copies its memory, was not there, ended, or got no context on the GPU "
             "(in compute mode exclusive-process it gets none: gpuman device compute-mode default)";
    case OrderError::kDescriptors:
      return "its process may not keep as many descriptors as its memory needs";
  }
  return "unknown error";
}

}  // namespace gpuman::daemon
