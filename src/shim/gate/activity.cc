#include "shim/gate/activity.h"

#include <cerrno>

#include "ledger/wire/orders.h"
#include "ledger/wire/slot_balance.h"
#include "shim/accounting/homes.h"
#include "shim/gate/gate_state.h"
#include "shim/libc/clock.h"
#include "shim/libc/lock.h"
#include "shim/link/watch.h"
#include "shim/symbols/driver.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names
using wire::Activity;

constexpr std::uint64_t kPollIntervalMs = 1000;
constexpr std::uint32_t kLongestAlertUs = 1'000'000;  // a program may overwrite its ledger
constexpr std::uint64_t kShortestIntervalNs = 100'000;
constexpr std::int64_t kAlertedIntervalNs = 20'000'000;

// Returns whether the contexts have nothing to do, as far as their default streams know. Work in other
// streams does not show; the shim waits for it when it closes the gate.
bool IsDrained(GateState& state) {
  auto* const push = GPUMAN_REAL(cuCtxPushCurrent_v2);
  auto* const pop = GPUMAN_REAL(cuCtxPopCurrent_v2);
  auto* const query = GPUMAN_REAL(cuStreamQuery);
  if (push == nullptr || pop == nullptr || query == nullptr) return false;
  // Their holders may be in the driver, for as long as the program's work takes.
  const TryLocked lock(state.contexts);
  if (!lock) return false;
  const TryLocked no_capture(state.capturing);  // a query would spoil a capture
  bool drained = no_capture && wire::Load(state.captures) == 0;
  state.context.ForEach([&](std::uint64_t context, const Context&) {
    if (!drained || push(reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(context))) != CUDA_SUCCESS)
      return;
    drained = query(CU_STREAM_LEGACY) == CUDA_SUCCESS;
    CUcontext ignored = nullptr;
    pop(&ignored);
  });
  return drained;
}

// Returns whether there will be no room for `bytes`.
bool IsDenied(const GateState& state, std::uint64_t bytes) {
  const std::uint64_t least = wire::Load(state.ledger->denied);
  return least != 0 && bytes >= least;
}

}  // namespace

std::int64_t CheckActivity(GateState& state) {
  const std::uint32_t idle_ms = wire::Load(state.ledger->watched_ms);
  const std::uint32_t alert_us = wire::Load(state.ledger->alert_us);
  ActivityWatchState& watch = state.watch;
  if (idle_ms == 0) {
    if (OwnActivity(state) != Activity::kUnknown) TellActivity(state, Activity::kUnknown, NowNs());
    return -1;
  }
  const std::uint64_t idle_ns = alert_us != 0 && alert_us < kLongestAlertUs
                                    ? alert_us * std::uint64_t{1'000}
                                    : idle_ms * std::uint64_t{1'000'000};
  const std::uint64_t now = NowNs();
  bool in_flight = false;
  const std::uint64_t calls = CallsSince(state.gate, in_flight);
  watch.completed += calls;
  wire::Store(state.ledger->slot[state.slot].completed, watch.completed);
  // A thread that waits is not idle: it goes on as soon as its wait ends.
  const bool quiet = calls == 0 && !in_flight && !AnyWaits(state);
  const Activity own = OwnActivity(state);
  if (!quiet || own == Activity::kUnknown) {
    watch.last_call = now;
    if (own != Activity::kBusy) TellActivity(state, Activity::kBusy, now);
  } else if (own == Activity::kBusy && now - watch.last_call >= idle_ns) {
    if (IsDrained(state)) {
      TellActivity(state, Activity::kIdle, watch.last_call);
      if (alert_us != 0) AlertOnCall(state);
    } else {
      watch.last_call = now;
    }
  }
  // One that tells of its next call needs no looking after.
  if (alert_us != 0 && OwnActivity(state) == Activity::kIdle) return kAlertedIntervalNs;
  return static_cast<std::int64_t>(idle_ns / 2 > kShortestIntervalNs ? idle_ns / 2 : kShortestIntervalNs);
}

std::uint32_t OffersOf(GateState& state) { return IsJoined(state) ? wire::Load(state.ledger->offers) : 0; }

bool AwaitRoom(GateState& state, int device, std::uint64_t bytes, std::uint32_t offers, RoomWait& wait) {
  const std::uint32_t patience = IsJoined(state) ? wire::Load(state.ledger->room_patience_ms) : 0;
  // A program may overwrite its ledger. The daemon writes no time that is longer than this.
  constexpr std::uint32_t kMaxMs = 3'600'000;
  if (patience == 0 || patience > kMaxMs || !MayExitGate() || IsDenied(state, bytes)) return false;
  if (wait.began == 0) wait.began = NowNs();
  const int before = errno;
  bool offered = false;
  {
    const std::uint32_t entry = HomeEntryOf(state, device);
    const RoomWaitScope waiting(state, entry, bytes);
    const GateExit aside(state);
    for (;;) {
      offered = wire::Load(state.ledger->offers) != offers;
      // Read again each time: the daemon may have changed the value, or repaired it.
      const std::uint64_t end =
          wait.began + std::uint64_t{wire::Load(state.ledger->room_patience_ms)} * 1'000'000;
      const std::uint64_t now = NowNs();
      // A denial wakes the thread as an offer does. It counts here: once the wait is over, the daemon takes
      // the next one for another allocation, to which the denial does not apply.
      const bool denied = IsDenied(state, bytes) || IsDenied(state, WantsOf(state, entry));
      offered = offered && !denied;
      if (offered || denied || now >= end) break;
      const std::uint64_t left_ms = (end - now) / 1'000'000 + 1;
      wire::WaitOn(state.ledger->offers, offers,
                   static_cast<int>(left_ms < kPollIntervalMs ? left_ms : kPollIntervalMs));
    }
  }
  errno = before;
  return offered;
}

}  // namespace gpuman::shim
