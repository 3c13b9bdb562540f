// The gate: a program's calls pass it on their way to the driver. They wait at it while the program's memory
// leaves the GPU, is evicted, or comes back.
//
// A thread in a call says so in its thread slot and then looks whether the gate is open, with plain loads and
// stores. The service thread closes the gate: it says so in every thread slot, makes every processor see it
// (membarrier), and waits until no call is in flight. So the open gate costs two stores and a load on a cache
// line that no other thread touches. It needs no lock and no system call, and allocates only at a thread's
// first call.
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
  // The low byte: how many calls the thread is in, one within another. The bits above: how many calls it has
  // made. One store writes both.
  std::uint32_t in_flight;
  std::uint32_t open;  // 1: the thread may pass without looking further
  std::uint32_t used;  // 0: no thread has the slot, or a fork has wiped it
  std::uint32_t seen;  // calls that CallsSince has counted
};

inline constexpr std::uint32_t kDepthMask = 0xff, kOneCall = 0x100;

struct ThreadSlotChunk;

struct Gate {
  pthread_mutex_t registry;  // held to add a thread, and to close or open the gate
  std::uint32_t closed;      // a futex word
  bool probed, expedited;    // whether the shim has asked for the membarrier, and whether the kernel has it
  bool unsafe;               // a thread passed without a thread slot: the gate never closes again
  ThreadSlotChunk* chunks;
};

extern __thread ThreadSlot* thread_slot __attribute__((tls_model("initial-exec"), visibility("hidden")));

// Returns the state with the gate of this process; null: there can be none. The room that makes the state
// hands this function to the gate, since a call passes the gate before it reaches any other code of the shim.
using FindState = GateState*();

// Does the work of GateGuard where the thread may not simply pass. It keeps errno.
ThreadSlot* EnterSlowPath(FindState* find);

// An object lives as long as a call into the driver. A call within a call passes, whether the gate is open or
// not.
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
  ThreadSlot* thread_slot_;  // null: this process has no gate, or the thread has no slot
  std::uint32_t before_;
};

// A hook that has to wait for something that may need the gate closed is outside the gate while an object
// lives. The destructor waits while the gate is closed. A call within a call may not use this (MayExitGate).
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

// Returns how many calls the program has made since the last CallsSince, and says whether a call is in
// flight. Only one thread may call this.
std::uint64_t CallsSince(Gate& gate, bool& in_flight);

// How long the service thread waits until the program has no call and no work in flight: up to the deadline
// (CLOCK_MONOTONIC, ns), and no longer than the order stands. Work on the GPU may wait for another process
// that is held too; when the daemon withdraws the order, both go on at once.
class RestLimit {
 public:
  // `order`: the word of the slot that the daemon writes (Slot::order).
  RestLimit(std::uint64_t deadline, const std::uint32_t& order) : deadline_(deadline), order_(order) {}
  bool IsWithdrawn() const;
  bool IsOver() const { return IsWithdrawn() || NowNs() >= deadline_; }

 private:
  std::uint64_t deadline_;
  const std::uint32_t& order_;
};

// Closes the gate and waits until no call is in flight, within the limit. Returns false where a call did not
// end; then the gate is open again.
bool CloseGate(GateState& state, const RestLimit& limit);
void OpenGate(GateState& state);

}  // namespace gpuman::shim
