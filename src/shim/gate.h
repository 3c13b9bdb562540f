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

namespace gpuman::shim {

struct Guest;

// One thread's.
struct alignas(64) Passenger {
  // How deep it is in calls, in the low byte; above it how many calls it has made, which costs nothing
  // beside.
  std::uint32_t in_flight;
  std::uint32_t open;  // 1: it may go without looking further
  std::uint32_t used;  // 0: of no thread, or wiped by a fork
  std::uint32_t seen;  // calls that were counted (CallsSince)
};

inline constexpr std::uint32_t kDepthMask = 0xff, kOneCall = 0x100;

struct PassengerChunk;

struct Gate {
  pthread_mutex_t registry;  // held to add threads, to close and to open
  std::uint32_t closed;      // a futex word
  bool probed, expedited;    // whether the kernel has the membarrier
  bool unsafe;               // a thread went without a word of its own: never closed again
  PassengerChunk* chunks;
};

extern __thread Passenger* passenger __attribute__((tls_model("initial-exec"), visibility("hidden")));

// Whether memory of this process may have to leave the GPU: by the environment it was started with, since
// it has to be known when the program asks for the driver's functions.
bool MayBeEvicted();

// What Passage does where the gate is not simply open. Keeps errno.
Passenger* EnterSlowly();

// For the length of a call into the driver. A call within a call passes whatever the gate is.
class Passage {
 public:
  Passage() {
    Passenger* const own = passenger;
    if (__builtin_expect(own != nullptr, 1)) {
      const std::uint32_t before = own->in_flight;
      __atomic_store_n(&own->in_flight, before + 1, __ATOMIC_RELAXED);
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      if (__builtin_expect(__atomic_load_n(&own->open, __ATOMIC_ACQUIRE) == 1, 1)) {
        passenger_ = own;
        before_ = before;
        return;
      }
    }
    passenger_ = EnterSlowly();
    before_ = passenger_ != nullptr ? passenger_->in_flight - 1 : 0;
  }
  ~Passage() {
    if (__builtin_expect(passenger_ != nullptr, 1))
      __atomic_store_n(&passenger_->in_flight, before_ + kOneCall, __ATOMIC_RELEASE);
  }
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

 private:
  Passenger* passenger_;  // null: this process has no gate
  std::uint32_t before_;
};

// For a hook that has to wait for what may need the gate to close: outside of it until this ends, which waits
// while it is closed. Not from within a call within a call.
class StepAside {
 public:
  StepAside();
  ~StepAside();
  StepAside(const StepAside&) = delete;
  StepAside& operator=(const StepAside&) = delete;
};
bool MayStepAside();

// Calls since this was asked last, and whether one is in flight. For one thread.
std::uint64_t CallsSince(Gate& gate, bool& in_flight);

std::uint64_t NowNs();

// How long the attendant waits for the program to come to rest: up to the deadline (CLOCK_MONOTONIC, ns), and
// no longer than the order stands. Work may wait on the GPU for what another process does next, and that one
// is held too: whoever withdraws the order lets both go on at once.
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

// Closes the gate and waits until no call is in flight, within the limit. False: a call went on;
// the gate is open again.
bool CloseGate(Guest& guest, const RestLimit& limit);
void OpenGate(Guest& guest);

}  // namespace gpuman::shim
