// Keeps short what the program has in flight, while a job whose work goes first shares its GPU
// (Ledger::pace_us): that work waits for the GPU only as long as this.
//
// The gate is open for a time, the *window*; then it closes until the work of all contexts has ended, and
// opens again. The window grows or shrinks so that the work needs about pace_us to end. Where the work of the
// shortest window takes too long, calls pass one by one, and the work of each ends before the next. A kernel
// or a graph that takes longer is not cut.
//
// Only the service thread calls these functions, in a process that has joined and whose gate is open.
#pragma once

#include <cstdint>

namespace gpuman::shim {

struct GateState;

struct WorkPace {
  std::uint64_t window;       // ns
  std::uint32_t calls;        // GateReading::calls after the last round
  std::uint32_t short_calls;  // single calls in a row whose work ended soon
  bool on;
  bool shut;    // single calls pass the closed gate
  bool failed;  // the driver has failed to wait for the work: there are no more rounds
};

// Returns whether the daemon wants the program's work kept short.
bool IsPaced(const GateState& state);

// One window and the end of its work, or some single calls. Returns early where the slot's order is not
// `order` any more. The gate may stay closed, until EndPace or an order opens it.
void PaceOnce(GateState& state, std::uint32_t order);

// There is no pace now.
void EndPace(GateState& state);

}  // namespace gpuman::shim
