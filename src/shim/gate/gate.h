// The gate: what a program's calls pass on their way to the driver, and wait at while its memory leaves the
// GPU, is gone, or comes back.
//
// A thread in a call says so in a word of its own and then looks whether the gate is open, with plain loads
// and stores; who closes the gate says so in every thread's words, makes every processor see it (membarrier)
// and waits until no call is in flight. So the open gate costs two stores and a load on a cache line that no
// other thread touches: no lock, no system call, no allocation but at a thread's first call.
//
// All of it lies in memory that a fork wipes: a child's gate is open and knows no thread.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "shim/libc/clock.h"

namespace gpuman::shim {

struct GateState;

// The words of one thread.
struct alignas(64) ThreadSlot {
  // How deep the thread is in calls, in the low byte; above it how many calls it has made, which costs no
  // store more.
  std::uint32_t in_flight;
  std::uint32_t open;  // 1: it may go without looking further
  std::uint32_t used;  // 0: of no thread, or wiped by a fork
  std::uint32_t seen;  // calls that were counted (CallsSince)
};

inline constexpr std::uint32_t kDepthMask = 0xff, kOneCall = 0x100;

struct ThreadSlotChunk;

struct Gate {
  pthread_mutex_t registry;  // held to add threads, to close and to open
  std::uint32_t closed;      // a futex word
  bool probed, expedited;    // whether the kernel has the membarrier
  bool unsafe;               // a thread went without a word of its own: never closed again
  ThreadSlotChunk* chunks;
};

extern __thread ThreadSlot* thread_slot __attribute__((tls_model("initial-exec"), visibility("hidden")));

// Returns the state with the gate of this process; null: there can be none. Whoever makes the state hands
// this function to the gate, since a call passes the gate before anything else of the shim.
using FindState = GateState*();

// Does what GateGuard has to do where the gate is not simply open. It keeps errno.
ThreadSlot* EnterSlowPath(FindState* find);

// For the length of a call into the driver. A call within a call passes whatever the gate is.
class GateGuard {
 public:
  explicit GateGuard(FindState* find) {
    ThreadSlot* const own = thread_slot;
    if (__builtin_expect(own != nullptr, 1)) {
      const std::uint32_t before = own->in_flight;
      __atomic_store_n(&own->in_flight, before + 1, __ATOMIC_RELAXED);
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      if (__builtin_expect(__atomic_load_n(&own->open, __ATOMIC_ACQUIRE) == 1, 1)) {
        thread_slot_ = own;
        before_ = before;
        return;
      }
    }
    thread_slot_ = EnterSlowPath(find);
    before_ = thread_slot_ != nullptr ? thread_slot_->in_flight - 1 : 0;
  }
  ~GateGuard() {
    if (__builtin_expect(thread_slot_ != nullptr, 1))
      __atomic_store_n(&thread_slot_->in_flight, before_ + kOneCall, __ATOMIC_RELEASE);
  }
  GateGuard(const GateGuard&) = delete;
  GateGuard& operator=(const GateGuard&) = delete;

 private:
  ThreadSlot* thread_slot_;  // null: this process has no gate
  std::uint32_t before_;
};

// A hook that has to wait for what may need the gate to close is outside of the gate for as long as this
// object lives. Its end waits while the gate is closed. A call within a call may not use it (MayExitGate).
class GateExit {
 public:
  explicit GateExit(GateState& state);
  ~GateExit();
  GateExit(const GateExit&) = delete;
  GateExit& operator=(const GateExit&) = delete;

 private:
  GateState& state_;
};
bool MayExitGate();

// Returns how many calls were made since this was asked last, and says whether one is in flight. One thread
// asks.
std::uint64_t CallsSince(Gate& gate, bool& in_flight);

// How long the service thread waits for the program to come to rest: up to the deadline (CLOCK_MONOTONIC,
// ns), and no longer than the order stands. Work may wait on the GPU for what another process does next, and
// that one is held too: whoever withdraws the order lets both go on at once.
class RestLimit {
 public:
  // `order`: the word of the slot that the daemon writes.
  RestLimit(std::uint64_t deadline, const std::uint32_t& order) : deadline_(deadline), order_(order) {}
  bool IsWithdrawn() const;
  bool IsOver() const { return IsWithdrawn() || NowNs() >= deadline_; }

 private:
  std::uint64_t deadline_;
  const std::uint32_t& order_;
};

// Closes the gate and waits until no call is in flight, within the limit. It returns false where a call went
// on, and the gate is open again then.
bool CloseGate(GateState& state, const RestLimit& limit);
void OpenGate(GateState& state);

}  // namespace gpuman::shim
