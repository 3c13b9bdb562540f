// The thread of an evictable process that does what the daemon orders: holds the process, takes it off the
// GPU, whole or in part, and brings it back.
//
// It starts with the first context, sleeps until there is an order, and calls the driver only while it
// carries one out: between two orders none of its calls is in flight, so the driver's
// own checkpoint of the process finds nothing of it to wait for. A child of a fork starts its own.
#pragma once

#include <cstdint>

namespace gpuman::shim {

struct Guest;

struct Attendant {
  std::uint32_t started;  // atomic
  std::uint32_t working;  // a futex word; it may have a call of the driver in flight
  std::uint32_t ending;   // atomic; the program is on its way out
  bool shut;              // the gate, by an order; the attendant alone changes it
};

// Starts it where there is something to attend to: a job that can be evicted, joined, and a gate before the
// program's calls.
void StartAttendant(Guest& guest);

}  // namespace gpuman::shim
