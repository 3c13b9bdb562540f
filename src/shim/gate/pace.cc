#include "shim/gate/pace.h"

#include <sys/prctl.h>
#include <unistd.h>

#include "ledger/wire/orders.h"
#include "shim/gate/resting.h"
#include "shim/libc/clock.h"
#include "shim/link/watch.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;

constexpr std::uint64_t kFirstWindow = 100 * kMicrosecond;
constexpr std::uint64_t kShortestWindow = 30 * kMicrosecond, kLongestWindow = 5 * kMillisecond;
// Work that does not end within this time is one long kernel, or waits for another process: the program goes
// on.
constexpr std::uint64_t kLongestRest = 100 * kMillisecond;
constexpr std::uint32_t kLongestPaceUs = 1'000'000;  // a program may overwrite its ledger
constexpr unsigned long kTimerSlack = 1;             // ns; 0 in its place: the usual slack
// How long threads look for the end of a short wait before they sleep. On a machine of few processors they
// would only be in each other's way.
constexpr std::uint32_t kSpinNs = 300'000;
constexpr long kEnoughProcessors = 4;
// After so many single calls in a row whose work ended in half of the time, calls pass by the window again.
constexpr unsigned kShortCalls = 4;
// Where the work of the shortest window takes so many times too long, calls pass one by one.
constexpr std::uint64_t kCoarse = 4;
constexpr std::uint64_t kSinglesInARow = 5 * kMillisecond;  // before the service thread looks after the rest
constexpr std::uint64_t kComesToGate = 200 * kMicrosecond, kReturns = kMillisecond;
constexpr std::uint64_t kCallPoll = 5 * kMicrosecond;

std::uint64_t PaceOf(const GateState& state) { return wire::Load(state.ledger->pace_us) * kMicrosecond; }

// Work that took too long shortens the window at once, and other work lets it grow little by little: so it
// suits the long kernels among the short ones.
std::uint64_t NextWindow(std::uint64_t window, std::uint64_t rested, std::uint64_t pace) {
  std::uint64_t next = window + window / 10;
  if (rested > pace) next = rested > 2 * pace ? window / 2 : window * pace / rested;
  return next < kShortestWindow ? kShortestWindow : next > kLongestWindow ? kLongestWindow : next;
}

bool StaysOpen(const GateState& state, std::uint32_t order) {
  const std::uint32_t now = wire::Load(SlotOf(state).order);
  return now == order || wire::OrderKindOf(now) == wire::OrderKind::kRun;
}

Rested Rest(GateState& state, std::uint64_t began, std::uint32_t order, bool was_at_rest) {
  driver::abi::CUresult result = driver::abi::CUDA_SUCCESS;
  const Rested rested =
      ComeToRest(state, RestLimit(began + kLongestRest, SlotOf(state).order, order), was_at_rest, result);
  // For the daemon the gate is open all the time: threads that come to it now, or leave it, do not notify.
  NotifyOfGate(state, false);
  state.pace.failed = rested == Rested::kFailed;
  state.pace.shut = rested == Rested::kYes;
  return rested;
}

void Open(GateState& state) {
  state.pace.shut = false;
  TellNoRest(state);
  OpenGate(state);
}

// Lets one call pass the closed gate. Returns false where no thread comes.
bool PassOne(GateState& state) {
  ThreadSlot* thread = nullptr;
  for (const std::uint64_t end = NowNs() + kComesToGate; thread == nullptr;) {
    const std::uint32_t seen = wire::Load(state.gate.wake_ups);
    thread = LongestWaiting(state.gate, kAnyDevice);
    if (thread != nullptr) break;
    if (NowNs() >= end) return false;
    AwaitWakeUp(state.gate, seen, kComesToGate);
  }
  const std::uint32_t waits = wire::Load(thread->waits);
  GivePermit(*thread);
  for (const std::uint64_t end = NowNs() + kReturns;;) {
    const GatePermitState now = WhatBecameOf(*thread);
    if (now == GatePermitState::kReturned) return true;
    // It has blocked; or it has not run in all that time, and waits on.
    if (NowNs() >= end && (now != GatePermitState::kNotTaken || TakePermitBack(*thread, waits))) return true;
    AwaitWakeUp(state.gate, wire::Load(state.gate.wake_ups), kCallPoll);
  }
}

// Each call's work ends before the next call passes.
void PassSingles(GateState& state, std::uint32_t order) {
  const std::uint64_t until = NowNs() + kSinglesInARow;
  while (NowNs() < until && StaysOpen(state, order) && IsPaced(state)) {
    const std::uint64_t began = NowNs();
    if (!PassOne(state)) return Open(state);
    if (Rest(state, began, order, /*was_at_rest=*/true) != Rested::kYes) return;
    state.pace.short_calls = NowNs() - began <= PaceOf(state) / 2 ? state.pace.short_calls + 1 : 0;
    if (state.pace.short_calls < kShortCalls) continue;
    state.pace.short_calls = 0;
    return Open(state);
  }
}

}  // namespace

bool IsPaced(const GateState& state) {
  const std::uint32_t pace = wire::Load(state.ledger->pace_us);
  return pace != 0 && pace <= kLongestPaceUs && !state.pace.failed;
}

void PaceOnce(GateState& state, std::uint32_t order) {
  WorkPace& pace = state.pace;
  if (!pace.on) {
    pace.on = true;
    pace.window = kFirstWindow;
    // The windows are shorter than the slack that a thread's timers have otherwise.
    (void)::prctl(PR_SET_TIMERSLACK, kTimerSlack);
    if (::sysconf(_SC_NPROCESSORS_ONLN) >= kEnoughProcessors) SpinAtGate(state.gate, kSpinNs);
  }
  if (wire::Load(state.gate.closed) == 0) pace.shut = false;  // an order has come and gone
  if (pace.shut) return PassSingles(state, order);
  AwaitChange(state.gate, SlotOf(state).order, order, pace.window);
  if (wire::Load(SlotOf(state).order) != order) return;
  const GateReading reading = ReadGate(state.gate);
  if (reading.calls == pace.calls && !reading.in_flight) {
    pace.window = NextWindow(pace.window, 0, 1);
    return;
  }
  const std::uint64_t began = NowNs();
  if (Rest(state, began, order, /*was_at_rest=*/false) != Rested::kYes) return;
  const std::uint64_t rested = NowNs() - began;
  pace.calls = ReadGate(state.gate).calls;
  const bool single = pace.window == kShortestWindow && rested > kCoarse * PaceOf(state);
  pace.window = NextWindow(pace.window, rested, PaceOf(state));
  if (StaysOpen(state, order) && !single) Open(state);
}

void EndPace(GateState& state) {
  if (!state.pace.on) return;
  if (state.pace.shut) Open(state);
  SpinAtGate(state.gate, 0);
  state.pace = {};
  (void)::prctl(PR_SET_TIMERSLACK, 0);
  NotifyOfGate(state, true);
}

}  // namespace gpuman::shim
