#include "daemon/shims/hold_answers.h"

#include <fmt/format.h>

#include "daemon/shims/slot_state.h"
#include "daemon/shims/slot_text.h"

namespace gpuman::daemon {
namespace {

using ledger::wire::MemoryResidency;
using ledger::wire::OrderError;

constexpr base::Millis kTakesUp{5'000};  // for a shim to take up an order

bool TookTooLong(const ledger::SlotStatus& one) {
  return one.answered && (one.error == OrderError::kBusy || one.error == OrderError::kCapturing);
}

// Why the process will not be held; empty: it may be yet.
std::string WhyNot(const ledger::SlotStatus& one, bool stopped, bool is_late) {
  if (stopped) return "it is stopped (by a signal or a debugger)";
  // A process that was held already is at work again while it makes granted calls.
  if (one.answered && (one.residency != MemoryResidency::kEvicting || one.error != OrderError::kNone))
    return one.error == OrderError::kNone ? "it runs on" : TextOf(one);
  const bool silent =
      one.residency != MemoryResidency::kEvicting && one.residency != MemoryResidency::kHeld && is_late;
  return silent ? "libgpuman.so in it does not answer" : "";
}

}  // namespace

HoldAnswers ReadHoldAnswers(const std::vector<ledger::SlotStatus>& slots,
                            const std::function<bool(const base::ProcessId&)>& is_stopped,
                            base::MonoTime began, base::MonoTime now) {
  HoldAnswers answers;
  for (const auto& one : slots) {
    if (!HasContext(one) || IsHeld(one)) continue;
    const bool stopped = is_stopped(one.process);
    if (one.residency == MemoryResidency::kHeld && stopped) continue;
    answers.all_held = false;
    if (!stopped && TookTooLong(one)) {
      answers.again.push_back(one.process);
      continue;
    }
    const std::string why = WhyNot(one, stopped, now >= began + kTakesUp);
    if (answers.why.empty() && !why.empty())
      answers.why = fmt::format("process {}: {}", one.process.pid, why);
  }
  return answers;
}

bool AreOpening(const std::vector<ledger::SlotStatus>& slots,
                const std::function<bool(const base::ProcessId&)>& is_stopped) {
  return std::any_of(slots.begin(), slots.end(), [&](const ledger::SlotStatus& one) {
    return HasContext(one) && one.ordered == ledger::wire::OrderKind::kRun && !one.answered &&
           !is_stopped(one.process);
  });
}

}  // namespace gpuman::daemon
