// The service thread of an evictable process carries out the daemon's orders: it holds the process, evicts
// its memory in whole or in part, and restores it.
//
// The thread starts with the first context, and sleeps until there is an order. It calls the driver only
// while it carries out an order, or looks at what the program does. At other times none of its calls is in
// flight, so the driver's own checkpoint of the process finds no call of the thread to wait for. A child of a
// fork starts a thread of its own.
#pragma once

#include <cstdint>

namespace gpuman::shim {

struct EvictionState;

struct ServiceThreadState {
  std::uint32_t started;  // atomic
  std::uint32_t ready;    // a futex word; 1: the thread has met the driver, or ends without
  std::uint32_t late;     // atomic; 1: a thread of the program has waited for `ready` in vain
  std::uint32_t working;  // a futex word; 1: the thread may have a call of the driver in flight
  std::uint32_t ending;   // atomic; 1: the program is ending, and its driver may be ending too
  std::uint64_t ends;     // when the end began; CLOCK_MONOTONIC, ns; written before `ending`
  bool shut;              // an order has closed the gate; only the service thread changes this
};

// While an object lives, the service thread only waits, with no call of the driver in flight, and the
// program's end does not wait for it. After that, the service thread looks at `ending` before it goes on.
class ServiceThreadIdleScope {
 public:
  explicit ServiceThreadIdleScope(ServiceThreadState& service_thread);
  ~ServiceThreadIdleScope();
  ServiceThreadIdleScope(const ServiceThreadIdleScope&) = delete;
  ServiceThreadIdleScope& operator=(const ServiceThreadIdleScope&) = delete;

 private:
  ServiceThreadState& service_thread_;
};

// Returns whether the program is ending.
bool IsEnding(const EvictionState& state);

// The service thread calls this before it calls the driver to restore memory. While the program is ending,
// this waits until a thread waits at the gate, or until the program has lived on for some seconds: the driver
// may be ending too, and the program's end does not wait for the service thread any more.
void AwaitNeed(EvictionState& state);

// Starts the thread where it has work to do: the job is evictable, the process has joined or may still join,
// and the program's calls pass a gate.
void StartServiceThread(EvictionState& state);

// A thread calls this when it has just made a context on the device and holds no lock of the shim. It waits
// for a limited time until the service thread and the drain thread have called the driver once. If an order
// holds the process, it also waits until the gate is closed.
void AwaitServiceThread(EvictionState& state, int device);

}  // namespace gpuman::shim
