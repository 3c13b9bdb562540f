// What the daemon orders a process to do with its memory, and what the process answers: words of the
// process's slot. Both sides can wait on these words.
//
// The low two bits of `order` are the order kind. The other bits count orders, so that every order differs
// from the order before. The daemon repeats a refused order as the next order of the same kind. The process
// takes the current order and tells its memory residency on the way. When it has carried out or refused the
// order, it writes the order to `answered`. The daemon may give any order in any state. An order that fails
// leaves the process in the state it was in.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ledger/wire/layout.h"
#include "ledger/wire/words.h"

namespace gpuman::ledger::wire {

enum class MemoryResidency : std::uint32_t {
  kNone = 0,  // the process has no context: it has nothing on the GPU, and no thread answers
  kOnGpu = 1,
  kEvicting = 2,
  kEvicted = 3,
  kRestoring = 4,
  kFailed = 5,  // the driver has failed this process for good; the program learns that from its calls
  kHeld = 6     // no call passes and no work is in flight; all memory is on the GPU, or a part of it
};
inline constexpr std::uint32_t kMemoryResidencies = 7;

enum class OrderKind : std::uint32_t {
  // All memory is on the GPU, and the gate is open. Where `order_bytes` is kStayHeld, a closed gate stays
  // closed. Only a shim with the flag kFetches knows that.
  kRun = 0,
  kLeave = 1,  // the gate is closed, all memory that can leave is evicted (suspended)
  // The gate is closed, the work is done; memory stays where it is. Where `order_bytes` is above 0, it is the
  // patience of this order in ms, in place of the ledger's, and the hold is provisional: when the patience is
  // over the process runs again, held or not, unless another order came.
  kHold = 2,
  // As kHold, and of each home at least its `order_bytes` are evicted in all (Slot, EvictableGpuEntry).
  kTake = 3
};
inline constexpr std::uint64_t kStayHeld = 1;
constexpr OrderKind OrderKindOf(std::uint32_t order) { return static_cast<OrderKind>(order & 3); }
// Returns the order that comes after `order`, with the given kind.
constexpr std::uint32_t OrderAfter(std::uint32_t order, OrderKind what) {
  return ((order >> 2) + 1) << 2 | static_cast<std::uint32_t>(what);
}

// What the program does, as far as the shim sees it. The shim keeps the word up to date while the ledger says
// that the job is watched. It tells kAtGate and kForRoom at any time.
enum class Activity : std::uint32_t {
  kUnknown = 0,
  kBusy = 1,
  kIdle = 2,    // no work in flight, and no call for as long as the ledger says
  kAtGate = 3,  // a thread waits at the closed gate
  kForRoom = 4  // a thread waits for room for its allocation (`wants`)
};
inline constexpr std::uint32_t kActivities = 5;

// Why an order was not carried out. The process is in the state it was in before, with its data.
enum class OrderError : std::uint32_t {
  kNone = 0,
  kBudget = 1,      // the order needs more host memory than the job may have
  kHostMemory = 2,  // the order needs more host memory than the machine has available
  kBusy = 3,        // calls or work in flight did not end in time
  kCapturing = 4,   // a stream was being captured all the time
  kNoRoom = 5,      // the device has no room for the memory to come back
  kDriver = 6,      // another error of the driver; PackError adds it
  kNoMover = 7,     // the daemon or the mover was not there, or gave up before the order was done
  kDescriptors = 8  // the process may not have so many descriptors
};
inline constexpr std::uint32_t kOrderErrors = 9;

inline constexpr std::uint32_t kPatienceMs = 30'000;

// The error is in the lower half, the driver's error (CUresult) in the upper half.
constexpr std::uint32_t PackError(OrderError error, std::uint32_t driver) {
  return (driver & 0xffff) << 16 | static_cast<std::uint32_t>(error);
}
constexpr std::uint32_t DriverErrorOf(std::uint32_t error) { return error >> 16; }
constexpr OrderError OrderErrorOf(std::uint32_t error) {
  return (error & 0xffff) < kOrderErrors ? static_cast<OrderError>(error & 0xffff) : OrderError::kDriver;
}

// Waits while the word has the value, for at most `milliseconds` (below 0: without end). The wait may also
// end for no reason.
inline void WaitOn(const std::uint32_t& word, std::uint32_t value, int milliseconds) {
  const timespec time{milliseconds / 1000, (milliseconds % 1000) * 1'000'000L};
  (void)::syscall(SYS_futex, &word, FUTEX_WAIT, value, milliseconds < 0 ? nullptr : &time, nullptr, 0);
}
// The same in nanoseconds.
inline void WaitOnFor(const std::uint32_t& word, std::uint32_t value, std::int64_t nanoseconds) {
  const timespec time{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  (void)::syscall(SYS_futex, &word, FUTEX_WAIT, value, nanoseconds < 0 ? nullptr : &time, nullptr, 0);
}
inline void WakeAll(std::uint32_t& word) {
  (void)::syscall(SYS_futex, &word, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
}

}  // namespace gpuman::ledger::wire
