// What the daemon orders a process to do with its memory, and what the process answers: words of its slot
// that both can wait on.
//
// The low two bits of `order` are the order kind, the others count orders, so that every order differs from
// the one before; an order that was refused is given again as the next of the same kind. The process takes
// the current order, tells its stage on the way, and writes the order to `answered` when it is done with it,
// carried out or not. The daemon may give any order in any state; one that fails leaves the process in the
// state it was in.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ledger/wire/layout.h"
#include "ledger/wire/words.h"

namespace gpuman::ledger::wire {

enum class MemoryStage : std::uint32_t {
  kNone = 0,  // it has no context: it has nothing on the GPU, and no thread answers
  kOnGpu = 1,
  kEvicting = 2,
  kEvicted = 3,
  kRestoring = 4,
  kFailed = 5,  // its driver has failed for good; the program learns that from its own calls
  kHeld = 6     // no call passes and no work is in flight; all of the memory is on the GPU, or a part of it
};
inline constexpr std::uint32_t kStages = 7;

enum class OrderKind : std::uint32_t {
  kRun = 0,    // all memory on the GPU, the gate open
  kLeave = 1,  // the gate closed and all that can leave away: suspended
  kHold = 2,   // the gate closed and the work done; memory stays where it is
  kTake = 3    // the same, and at least `order_bytes` away in all
};
constexpr OrderKind OrderKindOf(std::uint32_t order) { return static_cast<OrderKind>(order & 3); }
// The next order after that one.
constexpr std::uint32_t OrderAfter(std::uint32_t order, OrderKind what) {
  return ((order >> 2) + 1) << 2 | static_cast<std::uint32_t>(what);
}

// What the program does, as far as the shim sees it. The shim keeps it up to date while the ledger says that
// it is watched; it always does so for the last two.
enum class Activity : std::uint32_t {
  kUnknown = 0,
  kBusy = 1,
  kIdle = 2,    // nothing in flight, and no call for as long as the ledger says
  kAtGate = 3,  // a thread waits at the closed gate
  kForRoom = 4  // a thread waits for `wants` bytes of room for its allocation
};
inline constexpr std::uint32_t kActivities = 5;

// Why an order was not carried out. The process is as it was before, with its data.
enum class Trouble : std::uint32_t {
  kNone = 0,
  kBudget = 1,      // more host memory than the job may have
  kHostMemory = 2,  // more than the machine has available
  kBusy = 3,        // calls or work in flight did not come to an end in time
  kCapturing = 4,   // a stream was captured all the time
  kNoRoom = 5,      // the device has no room to come back to
  kDriver = 6,      // another error of the driver, which comes with it
  kNoMover = 7,     // the daemon or its mover was not there, or left before the order was done
  kDescriptors = 8  // the process may not have so many descriptors
};
inline constexpr std::uint32_t kTroubles = 9;

inline constexpr std::uint32_t kPatienceMs = 30'000;

// The trouble in the lower half, the driver's error (CUresult) in the upper.
constexpr std::uint32_t PackError(Trouble trouble, std::uint32_t driver) {
  return (driver & 0xffff) << 16 | static_cast<std::uint32_t>(trouble);
}
constexpr std::uint32_t DriverErrorOf(std::uint32_t error) { return error >> 16; }
constexpr Trouble TroubleOf(std::uint32_t error) {
  return (error & 0xffff) < kTroubles ? static_cast<Trouble>(error & 0xffff) : Trouble::kDriver;
}

// Waits while the word has the value; may also return for no reason. Below 0: without end.
inline void WaitOn(const std::uint32_t& word, std::uint32_t value, int milliseconds) {
  const timespec time{milliseconds / 1000, (milliseconds % 1000) * 1'000'000L};
  (void)::syscall(SYS_futex, &word, FUTEX_WAIT, value, milliseconds < 0 ? nullptr : &time, nullptr, 0);
}
inline void WakeAll(std::uint32_t& word) {
  (void)::syscall(SYS_futex, &word, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
}

}  // namespace gpuman::ledger::wire
