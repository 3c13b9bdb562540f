// The thread of an evictable process that does what the daemon orders: holds the process, takes it off the
// GPU, whole or in part, and brings it back.
//
// The thread starts with the first context, sleeps until there is an order, and calls the driver only while
// it carries one out: between two orders none of its calls is in flight, so the driver's own checkpoint of
// the process finds nothing of it to wait for. A child of a fork starts a thread of its own.
#pragma once

#include <cstdint>

namespace gpuman::shim {

struct EvictionState;

struct ServiceThread {
  std::uint32_t started;  // atomic
  std::uint32_t working;  // a futex word; it may have a call of the driver in flight
  std::uint32_t ending;   // atomic; the program is on its way out: its driver may be at its end too
  std::uint64_t ends;     // since when, CLOCK_MONOTONIC, ns; known before `ending` is
  bool shut;              // the gate, by an order; the service thread alone changes it
};

// For as long as it lives the service thread waits for others, with no call of the driver in flight, and the
// program's end does not wait for the service thread. Whoever goes on after it looks at `ending` first.
class IdleScope {
 public:
  explicit IdleScope(ServiceThread& service_thread);
  ~IdleScope();
  IdleScope(const IdleScope&) = delete;
  IdleScope& operator=(const IdleScope&) = delete;

 private:
  ServiceThread& service_thread_;
};

// Says whether the program is on its way out.
bool IsEnding(const EvictionState& state);

// The service thread calls this before it calls the driver for what was away. At the program's end it does
// that only for a thread that waits at the gate, or for a program that lives on: the driver's own end may
// have come, and nobody waits for the service thread any more.
void AwaitNeed(EvictionState& state);

// Starts the thread where it has something to attend to: the job can be evicted, the process has joined or
// may still, and the program's calls pass a gate.
void StartServiceThread(EvictionState& state);

}  // namespace gpuman::shim
