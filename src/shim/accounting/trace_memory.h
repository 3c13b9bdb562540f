// Records memory that counts in the trace of allocations (trace/trace.h), if the job has one; otherwise it
// costs one branch. The thread that calls must be the one that allocates: its call stack is written down.
#pragma once

#include "shim/accounting/accounting_state.h"

namespace gpuman::shim {

// What names memory in the trace: an address, or a number of its kind.
enum class TraceKeyKind : std::uint64_t { kAddress = 0, kArray = 1, kVirtual = 2 };

inline std::uint64_t TraceKey(TraceKeyKind kind, std::uint64_t number) {
  return number | static_cast<std::uint64_t>(kind) << 62;
}

inline bool IsTraced(AccountingState& state, int device) {
  return MayTrace(state.trace) && device >= 0 && device < kMaxDevices &&
         __atomic_load_n(&state.devices[device].known, __ATOMIC_ACQUIRE);
}

inline void NoteAllocated(AccountingState& state, int device, std::uint64_t key, std::uint64_t bytes) {
  if (IsTraced(state, device))
    TraceAllocated(state.trace, {static_cast<std::uint32_t>(device), state.devices[device].uuid}, key, bytes);
}

// Before the driver is asked to free the memory.
inline void NoteFreed(AccountingState& state, std::uint64_t key) {
  if (MayTrace(state.trace)) TraceFreed(state.trace, key);
}

inline void NoteRefused(AccountingState& state, int device, std::uint64_t bytes) {
  if (IsTraced(state, device))
    TraceRefused(state.trace, {static_cast<std::uint32_t>(device), state.devices[device].uuid}, bytes);
}

}  // namespace gpuman::shim
