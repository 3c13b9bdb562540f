// Keeps short what the program has in flight, while a job whose work goes first shares its GPU
// (Ledger::pace_us): that work waits for the GPU only as long as this.
//
// The gate is open for a time, the *window*; then it closes until the work of all contexts has ended, and
// opens again. The window grows or shrinks so that the work needs about pace_us to end. A kernel or a graph
// that takes longer is not cut.
//
// Only the service thread calls these functions, in a process that has joined and whose gate is open.
#pragma once

#include <cstdint>

namespace gpuman::shim {

struct GateState;

struct WorkPace {
  std::uint64_t window;  // ns; 0: the first round is still to come
  std::uint32_t calls;   // GateReading::calls after the last round
  bool failed;           // the driver has failed to wait for the work: there are no more rounds
  bool on;
};

// Returns whether the daemon wants the program's work kept short.
bool IsPaced(GateState& state);

// Waits for the window and then for the work, and adapts the window. Returns early where the slot's order is
// not `order` any more. The gate is open again, unless the new order closes it.
void PaceOnce(GateState& state, std::uint32_t order);

// There is no pace now.
void EndPace(GateState& state);

}  // namespace gpuman::shim
