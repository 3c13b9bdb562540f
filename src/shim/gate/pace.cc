#include "shim/gate/pace.h"

#include <sys/prctl.h>

#include "ledger/wire/orders.h"
#include "shim/gate/resting.h"
#include "shim/libc/clock.h"
#include "shim/link/watch.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;

constexpr std::uint64_t kFirstWindow = 200 * kMicrosecond;
constexpr std::uint64_t kShortestWindow = 30 * kMicrosecond, kLongestWindow = 5 * kMillisecond;
// Work that does not end within this time is one long kernel, or waits for another process: the program goes
// on.
constexpr std::uint64_t kLongestRest = 1'000 * kMillisecond;
constexpr unsigned long kTimerSlack = 1;             // ns; 0 in its place: the usual slack
constexpr std::uint32_t kLongestPaceUs = 1'000'000;  // a program may overwrite its ledger

std::uint64_t NextWindow(std::uint64_t window, std::uint64_t rested, std::uint64_t pace) {
  // At most twice as long or half as long as before.
  const std::uint64_t next = rested == 0 ? 2 * window : window * pace / rested;
  const std::uint64_t near = next > 2 * window ? 2 * window : next < window / 2 ? window / 2 : next;
  return near < kShortestWindow ? kShortestWindow : near > kLongestWindow ? kLongestWindow : near;
}

}  // namespace

bool IsPaced(GateState& state) {
  const std::uint32_t pace = wire::Load(state.ledger->pace_us);
  return pace != 0 && pace <= kLongestPaceUs && !state.pace.failed;
}

void PaceOnce(GateState& state, std::uint32_t order) {
  WorkPace& pace = state.pace;
  wire::Slot& slot = SlotOf(state);
  if (pace.window == 0) pace.window = kFirstWindow;
  // The windows are shorter than the slack that a thread's timers have otherwise.
  if (!pace.on) (void)::prctl(PR_SET_TIMERSLACK, kTimerSlack);
  pace.on = true;
  wire::WaitOnFor(slot.order, order, pace.window);
  if (wire::Load(slot.order) != order) return;
  const GateReading reading = ReadGate(state.gate);
  if (reading.calls == pace.calls && !reading.in_flight) {
    pace.window = NextWindow(pace.window, 0, 0);
    return;
  }
  const std::uint64_t began = NowNs();
  driver::abi::CUresult result = driver::abi::CUDA_SUCCESS;
  const Rested rested =
      ComeToRest(state, RestLimit(began + kLongestRest, slot.order, order), /*was_at_rest=*/false, result);
  // The threads that leave the gate now do not notify the daemon: for it the gate was open all the time.
  NotifyOfGate(state, false);
  pace.failed = rested == Rested::kFailed;
  if (rested == Rested::kYes) {
    pace.window = NextWindow(pace.window, NowNs() - began, wire::Load(state.ledger->pace_us) * kMicrosecond);
    pace.calls = ReadGate(state.gate).calls;
    TellNoRest(state);
    const std::uint32_t now = wire::Load(slot.order);
    if (now == order || wire::OrderKindOf(now) == wire::OrderKind::kRun) OpenGate(state);
  }
}

void EndPace(GateState& state) {
  if (!state.pace.on) return;
  state.pace = {};
  (void)::prctl(PR_SET_TIMERSLACK, 0);
  NotifyOfGate(state, true);
}

}  // namespace gpuman::shim
