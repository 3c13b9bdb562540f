// What the daemon orders a process to do with its memory, and what the process answers: words of its slot
// that both can wait on.
//
// The daemon counts `order` up: odd means be evicted, even be on the GPU; an order that was refused is given
// again as the next number of the same kind. The process takes what stands there, tells its stage on the way
// and the order in `answered` when it is done with it, carried out or not.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ledger/wire/layout.h"

namespace gpuman::ledger::wire {

enum class Stage : std::uint32_t {
  kNone = 0,  // it has no context: nothing of it is on the GPU, and nobody answers
  kOnGpu = 1,
  kEvicting = 2,
  kEvicted = 3,
  kRestoring = 4,
  kFailed = 5  // its driver has failed for good; the program learns of it by its own calls
};
inline constexpr std::uint32_t kStages = 6;

// Why an order was not carried out. The process is where it was before, with its data.
enum class Trouble : std::uint32_t {
  kNone = 0,
  kBudget = 1,      // more host memory than the job may have
  kHostMemory = 2,  // more than the machine has available
  kBusy = 3,        // calls or work in flight did not come to an end in time
  kCapturing = 4,   // a stream was captured all the time
  kNoRoom = 5,      // the device has no room to come back to
  kDriver = 6,      // another error of the driver's, which comes with it
  kNoMover = 7,     // the daemon or its mover is not there, or was gone before it was done
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

constexpr bool OrdersEviction(std::uint32_t order) { return (order & 1) != 0; }

inline std::uint32_t Load(const std::uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_SEQ_CST); }
inline void Store(std::uint32_t& word, std::uint32_t value) {
  __atomic_store_n(&word, value, __ATOMIC_SEQ_CST);
}

// Waits while the word has the value; also returns for no reason. Below 0: without end.
inline void WaitOn(const std::uint32_t& word, std::uint32_t value, int milliseconds) {
  const timespec time{milliseconds / 1000, (milliseconds % 1000) * 1'000'000L};
  (void)::syscall(SYS_futex, &word, FUTEX_WAIT, value, milliseconds < 0 ? nullptr : &time, nullptr, 0);
}
inline void WakeAll(std::uint32_t& word) {
  (void)::syscall(SYS_futex, &word, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
}

}  // namespace gpuman::ledger::wire
