// The gate: a program's calls pass it on their way to the driver. They wait at it while the program's memory
// leaves the GPU, is evicted, or comes back.
//
// A thread in a call says so in its thread slot and then looks whether the gate is open, with plain loads and
// stores. The service thread closes the gate: it says so in every thread slot, and makes every processor see
// it (membarrier). From then on it sees every call in flight. So the open gate costs two stores and a load on
// a cache line that no other thread touches. It needs no lock and no system call, and allocates only at a
// thread's first call.
//
// A thread that waits at the closed gate may get a permit: then its call passes, and the gate stays closed.
//
// All of it lies in memory that a fork wipes: a child's gate is open and knows no thread.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "shim/libc/clock.h"

namespace gpuman::shim {

struct GateState;

// What a call does that passes. The shim waits for a context in a thread of its own (drain.h), and that may
// neither meet a capture that begins nor a context that ends. So such calls are told apart: while one is in
// flight no wait begins, and the call itself waits for one that is left from before (AwaitDrains).
enum class CallKind : std::uint32_t {
  kPlain,
  kCapture,     // it begins a capture
  kEndsContext  // it may end a context
};

// The words of one thread.
struct alignas(64) ThreadSlot {
  // The lowest 7 bits: how many calls the thread is in, one within another. Then kDelicate: one of them is
  // not CallKind::kPlain. The bits above: how many calls the thread has made. One store writes all.
  std::uint32_t in_flight;
  std::uint32_t open;  // 1: the thread may pass without looking further
  std::uint32_t used;  // 0: no thread has the slot, or a fork has wiped it
  std::uint32_t seen;  // calls that CallsSince has counted
  // Where the thread waits at the gate:
  std::uint32_t waits;   // its number in the order of arrival; 0: it does not wait, or has a permit
  std::uint32_t device;  // 1 + the device of its current context; 0: not known
  std::uint32_t kind;    // CallKind
  std::uint32_t permit;  // a futex word; 1: the thread may pass, or look again
};

inline constexpr std::uint32_t kDepthMask = 0x7f, kDelicate = 0x80, kInCallMask = 0xff, kOneCall = 0x100;
constexpr std::uint32_t InFlightWord(std::uint32_t before, CallKind kind) {
  return kind == CallKind::kPlain ? before + 1 : (before + 1) | kDelicate;
}

// The word before the call that it shows was entered. Of a call within a call, kDelicate stays until the
// outer one ends.
constexpr std::uint32_t WordBefore(std::uint32_t word) {
  return (word & kDepthMask) > 1 ? word - 1 : word & ~kInCallMask;
}

struct ThreadSlotChunk;

// Where a thread that arrives at the closed gate finds the service thread.
enum class RestPhase : std::uint32_t {
  kNone,    // nobody asks who waits
  kComing,  // the service thread brings the process to rest (rest.h), and sleeps on `wake_ups`
  kHeld     // the process is held for now; the service thread sleeps on its order
};

struct Gate {
  pthread_mutex_t registry;  // held to add a thread, and to close or open the gate
  std::uint32_t closed;      // a futex word
  bool probed, expedited;    // whether the shim has asked for the membarrier, and whether the kernel has it
  bool unsafe;               // a thread passed without a thread slot: the gate never closes again
  bool for_captures;         // under `registry`; the gate is open until no stream is captured
  ThreadSlotChunk* chunks;
  // A futex word. Grows when a thread arrives at the closed gate, or a drain is done.
  std::uint32_t wake_ups;
  std::uint32_t arrivals;  // atomic; the last number of an arrival
  std::uint32_t phase;     // atomic; RestPhase
  std::uint32_t slow;      // atomic; 1: threads take the slow path at each call (TakeSlowPath)
  // Atomic; 1: the next call tells that the program works again (AlertOnCall).
  std::uint32_t alerts;
};

extern __thread ThreadSlot* thread_slot __attribute__((tls_model("initial-exec"), visibility("hidden")));

// Returns the state with the gate of this process; null: there can be none. The room that makes the state
// hands this function to the gate, since a call passes the gate before it reaches any other code of the shim.
using FindState = GateState*();

// Does the work of GateGuard where the thread may not simply pass. It keeps errno.
ThreadSlot* EnterSlowPath(FindState* find, CallKind kind);

// An object lives as long as a call into the driver. A call within a call passes, whether the gate is open or
// not.
class GateGuard {
 public:
  explicit GateGuard(FindState* find, CallKind kind = CallKind::kPlain) {
    ThreadSlot* const own = thread_slot;
    if (__builtin_expect(own != nullptr, 1)) {
      const std::uint32_t before = own->in_flight;
      __atomic_store_n(&own->in_flight, InFlightWord(before, kind), __ATOMIC_RELAXED);
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      if (__builtin_expect(__atomic_load_n(&own->open, __ATOMIC_ACQUIRE) == 1, 1)) {
        thread_slot_ = own;
        before_ = before;
        took_slow_path_ = false;
        return;
      }
    }
    thread_slot_ = EnterSlowPath(find, kind);
    before_ = thread_slot_ != nullptr ? WordBefore(thread_slot_->in_flight) : 0;
    took_slow_path_ = thread_slot_ != nullptr;
  }
  // Whether the thread could not simply pass: something may have to be done for its call.
  bool took_slow_path() const { return took_slow_path_; }
  ~GateGuard() {
    if (__builtin_expect(thread_slot_ != nullptr, 1))
      __atomic_store_n(&thread_slot_->in_flight, before_ + kOneCall, __ATOMIC_RELEASE);
  }
  GateGuard(const GateGuard&) = delete;
  GateGuard& operator=(const GateGuard&) = delete;

 private:
  ThreadSlot* thread_slot_;  // null: this process has no gate, or the thread has no slot
  std::uint32_t before_;
  bool took_slow_path_;
};

// Does the work of QueryGuard where the thread may not simply pass. It keeps errno.
ThreadSlot* EnterAside(FindState* find);

// An object lives as long as a call that only asks (GPUMAN_SHIM_ASIDE). It waits at the closed gate only
// where the process is suspended (Ledger::suspends) and may be checkpointed. It does not count as a call of
// the program: one that asks again and again is not busy for that.
class QueryGuard {
 public:
  explicit QueryGuard(FindState* find) {
    ThreadSlot* const own = thread_slot;
    if (__builtin_expect(own != nullptr, 1)) {
      const std::uint32_t before = own->in_flight;
      __atomic_store_n(&own->in_flight, InFlightWord(before, CallKind::kPlain), __ATOMIC_RELAXED);
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      if (__builtin_expect(__atomic_load_n(&own->open, __ATOMIC_ACQUIRE) == 1, 1)) {
        thread_slot_ = own;
        before_ = before;
        return;
      }
      __atomic_store_n(&own->in_flight, before, __ATOMIC_RELAXED);
    }
    thread_slot_ = EnterAside(find);
    before_ = thread_slot_ != nullptr ? WordBefore(thread_slot_->in_flight) : 0;
  }
  ~QueryGuard() {
    if (thread_slot_ != nullptr) __atomic_store_n(&thread_slot_->in_flight, before_, __ATOMIC_RELEASE);
  }
  QueryGuard(const QueryGuard&) = delete;
  QueryGuard& operator=(const QueryGuard&) = delete;

 private:
  ThreadSlot* thread_slot_;  // null: the call passes without a mark
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
  // No order holds the process. The wait goes on while the order is `running`, and where it becomes one that
  // holds the process.
  RestLimit(std::uint64_t deadline, const std::uint32_t& order, std::uint32_t running)
      : deadline_(deadline), order_(order), running_(running) {}
  bool IsWithdrawn() const;
  bool IsOver() const { return IsWithdrawn() || NowNs() >= deadline_; }

 private:
  std::uint64_t deadline_;
  const std::uint32_t& order_;
  std::uint32_t running_ = 0;  // 0: an order holds the process; no order that runs has this number
};

// Closes the gate for calls that come from now on. GateReading shows those that are in flight. Permits that
// no thread has taken are void. The service thread calls this and the functions below.
void ShutGate(GateState& state);
void OpenGate(GateState& state);
// Opens the gate until no stream is captured: the thread that ends the last capture calls ShutAfterCaptures,
// so that no call passes behind its back before the service thread runs again.
void OpenGateForCaptures(GateState& state);
void ShutAfterCaptures(GateState& state);

// The program is idle, and the gate is open. Its next call tells that it works again (TellWorksAgain), and
// passes.
void AlertOnCall(GateState& state);

// What the thread slots say, while the gate is closed.
struct GateReading {
  bool in_flight = false;     // a call has not returned
  bool delicate = false;      // and one of them is not CallKind::kPlain
  std::uint32_t calls = 0;    // the sum of all calls that have returned; only differences mean anything
  std::uint64_t unseen = 0;   // calls that have returned since the last CallsSince
  bool waits = false;         // a thread waits at the gate
  bool elsewhere = false;     // a thread waits whose device is not known
  std::uint64_t devices = 0;  // the devices for which threads wait, one bit each
};
GateReading ReadGate(Gate& gate);

// Returns the thread that waits longest at the gate for the device, or whose device is not known; null: there
// is none. Below 0: for any device.
ThreadSlot* LongestWaiting(Gate& gate, int device);
// Lets the call of a thread that waits pass. The thread takes the permit when it runs next.
void GivePermit(ThreadSlot& thread);
// Returns whether the thread had not taken its permit yet. Then it waits on, as the one that arrived at
// `waits`.
bool TakePermitBack(ThreadSlot& thread, std::uint32_t waits);
enum class GatePermitState { kNotTaken, kInFlight, kReturned };
GatePermitState WhatBecameOf(const ThreadSlot& thread);

// From now on GateGuard::took_slow_path is true for each call, until LeaveSlowPath.
void TakeSlowPath(Gate& gate);
void LeaveSlowPath(Gate& gate);

// Wakes the service thread where it sleeps in AwaitWakeUp.
void WakeServiceThread(Gate& gate);
// Sleeps until the count is no longer at the value `seen`, for at most `nanoseconds` (below a second).
void AwaitWakeUp(Gate& gate, std::uint32_t seen, std::uint64_t nanoseconds);

}  // namespace gpuman::shim
