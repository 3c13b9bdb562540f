// Processes of shared jobs that do not take up orders, because a user stopped them or for another reason.
#include <fmt/format.h>

#include <utility>

#include "daemon/sharing/share_controller.h"
#include "daemon/shims/process_stop.h"

namespace gpuman::daemon {
namespace {

using ledger::wire::MemoryResidency;
using ledger::wire::OrderKind;

constexpr base::Millis kAnswerPollInterval{50};
// The time a shim has to take up an order, and to carry out an order that it has taken up. The latter is
// longer than a shim waits for a mover.
constexpr base::Millis kTakesUp{10'000}, kCarriesOut{150'000};

}  // namespace

// Says why the process is silent; empty: it answers, or still has time to.
std::string ShareController::WhySilent(const Entry& entry, const ledger::SlotStatus& one) const {
  if (one.residency == MemoryResidency::kNone) return {};
  if (const auto by = IsStopped(one.process))
    return fmt::format("process {} is stopped ({})", one.process.pid,
                       *by == ProcessStopCause::kSignal ? "by a signal" : "by a debugger");
  const bool works =
      one.residency == MemoryResidency::kEvicting || one.residency == MemoryResidency::kRestoring;
  if (one.answered || clock_.Mono() < entry.ordered + (works ? kCarriesOut : kTakesUp)) return {};
  return fmt::format("libgpuman.so in process {} does not answer", one.process.pid);
}

void ShareController::CheckAnswers(Entry& entry) {
  entry.answers_at = clock_.Mono() + kAnswerPollInterval;
  std::string silence;
  for (const auto& one : shims_.SlotStatusesOf(entry.job.id))
    if (silence.empty()) silence = WhySilent(entry, one);
  if (silence.empty() == entry.silence.empty()) return;
  entry.silence = silence;
  const bool answers = silence.empty();
  Feed(share::event::ResponsivenessChanged{entry.job.id, answers, std::move(silence)});
}

// A silent process that was ordered to give up memory keeps it, so that no job waits for it any longer.
void ShareController::LetGoOfSilent(Entry& entry, const std::vector<ledger::SlotStatus>& slots) {
  if (entry.silence.empty() || clock_.Mono() < entry.ordered + settings().yield_limit) return;
  for (const auto& one : slots) {
    std::string why = one.answered ? std::string() : WhySilent(entry, one);
    if (!why.empty() && evictions_.CancelOrder(entry.job.id, one.process, why))
      (void)Order(entry.job.id, one.process, {OrderKind::kHold, {}});
  }
}

}  // namespace gpuman::daemon
