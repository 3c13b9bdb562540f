#include "daemon/shims/hold_answers.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/shims/slot_text.h"

namespace gpuman::daemon {
namespace {

using ledger::wire::MemoryStage;
using ledger::wire::Trouble;

constexpr base::Millis kTakesUp{5'000};  // for a shim to take up an order

// Why the process is not held and will not be; empty: it may be yet. `again` as in HoldAnswers.
std::string WhyNot(const ledger::SlotStatus& one, bool stopped, base::MonoTime began, base::MonoTime deadline,
                   base::MonoTime now, bool& again) {
  if (stopped) return "it is stopped (by a signal or a debugger)";
  // A process that was held already is at work again while it makes steps.
  if (one.answered && (one.stage != MemoryStage::kEvicting || one.trouble != Trouble::kNone)) {
    const bool slow = one.trouble == Trouble::kBusy || one.trouble == Trouble::kCapturing;
    again = slow && now < deadline;
    if (again) return {};
    return one.trouble == Trouble::kNone ? "it runs on" : TextOf(one);
  }
  if (one.stage == MemoryStage::kEvicting)
    return now < deadline ? "" : "its calls or its GPU work did not come to an end in time";
  return now < std::max(deadline, began + kTakesUp) ? "" : "libgpuman.so in it does not answer";
}

}  // namespace

HoldAnswers ReadHoldAnswers(const std::vector<ledger::SlotStatus>& slots,
                            const std::function<bool(const base::ProcessId&)>& is_stopped,
                            base::MonoTime began, base::MonoTime deadline, base::MonoTime now) {
  HoldAnswers answers;
  for (const auto& one : slots) {
    if (one.stage == MemoryStage::kNone || one.stage == MemoryStage::kFailed) continue;
    const bool stopped = is_stopped(one.process);
    if (one.stage == MemoryStage::kHeld && (stopped || one.answered)) continue;
    answers.all_held = false;
    bool again = false;
    const std::string why = WhyNot(one, stopped, began, deadline, now, again);
    answers.again = answers.again || again;
    if (answers.why.empty() && !why.empty())
      answers.why = fmt::format("process {}: {}", one.process.pid, why);
  }
  return answers;
}

bool AreOpening(const std::vector<ledger::SlotStatus>& slots,
                const std::function<bool(const base::ProcessId&)>& is_stopped) {
  return std::any_of(slots.begin(), slots.end(), [&](const ledger::SlotStatus& one) {
    const bool has_context = one.stage != MemoryStage::kNone && one.stage != MemoryStage::kFailed;
    return has_context && one.ordered == ledger::wire::OrderKind::kRun && !one.answered &&
           !is_stopped(one.process);
  });
}

}  // namespace gpuman::daemon
