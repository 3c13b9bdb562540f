// Waits for the work of the contexts, each device by itself.
//
// The driver's own wait has no limit, so threads that do nothing else call it: one *drain thread* for each
// device that has a context. The service thread asks a drain thread and looks later. A drain thread whose
// wait takes too long stays in the driver, and can be used again when the work has ended.
//
// Only the service thread uses a drain thread, where nothing else is said.
#pragma once

#include <cstdint>

#include "driver/abi/cuda.h"
#include "shim/accounting/arrays.h"

namespace gpuman::shim {

struct GateState;

struct DrainThread {
  static constexpr unsigned kMaxContexts = 64;
  std::uint32_t started;      // atomic; 1: its thread is there. Set under `contexts`
  std::uint32_t met;          // atomic; 1: the thread has called MeetDriver
  std::uint32_t asked, done;  // futex words; the thread works while they differ
  std::uint32_t result;       // CUresult
  std::uint32_t called_off;   // atomic; the last of `asked` that AwaitDrains has called off
  std::uint32_t outlasted;    // atomic; the last of `asked` for which a thread has waited in vain
  GateState* state;           // the state whose service thread is woken when the work is done
  unsigned contexts;          // how many there are of those that follow
  std::uint64_t context[kMaxContexts];

  // What the service thread knows of the device.
  bool fresh;                 // it has asked since an order closed the gate
  bool asked_in_flight;       // a call was in flight when it asked
  std::uint32_t calls;        // GateReading::calls when it asked
  bool works;                 // there may be work that has not ended
  std::uint64_t works_since;  // CLOCK_MONOTONIC, ns
};

struct Drain {
  DrainThread thread[kMaxDevices];
  std::uint32_t started;  // atomic; how many have been started
  bool attended;          // atomic; the service thread wants drain threads
};

// Starts the drain threads of all devices with contexts, and waits until their threads have called
// MeetDriver. From now on DrainDevice starts drain threads. The service thread calls this before it first
// closes the gate. Where a thread takes long to end a context, they are started with the first order.
void StartDrain(GateState& state);

// A context has been made on the device. Starts its drain thread where the service thread wants drain
// threads. Any thread may call this; it holds state.contexts.
void DrainDevice(GateState& state, int device);

// Returns the devices that have contexts, one bit each, and starts drain threads that could not be started
// before. The caller holds state.contexts. With a drain thread that cannot be started, `all` becomes false.
std::uint64_t DevicesToDrain(GateState& state, bool& all);

// Any thread may call this.
bool IsStarted(const DrainThread& thread);
// Lets the drain thread wait for all contexts of its device. The caller holds state.contexts. Returns false
// where there are too many contexts.
bool AskDrainThread(GateState& state, int device);
// Returns whether the thread has done what it was asked; then `result` is the driver's answer.
bool IsDrainDone(const DrainThread& thread, driver::abi::CUresult& result);
// Returns whether the thread may have left out contexts of the last wait that it was asked for.
bool WasCalledOff(const DrainThread& thread);

// A wait may outlive the order for which it was asked: the order is withdrawn, or the work takes too long, or
// it stands in its streams meanwhile. A call that ends a context of the device or begins a capture
// (kEveryDevice) calls this first, and so does the program's end. No drain thread begins to wait for a
// further context then; this returns when none waits any more, or after `nanoseconds`. While such a call is
// in flight no drain thread is asked. The caller holds no lock of the shim.
inline constexpr int kEveryDevice = -1;
inline constexpr std::uint64_t kDrainPatience = 1'000'000'000;
void AwaitDrains(GateState& state, int device, std::uint64_t nanoseconds = kDrainPatience);

}  // namespace gpuman::shim
