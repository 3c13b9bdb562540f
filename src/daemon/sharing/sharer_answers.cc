// Processes of shared jobs that take no orders up: because somebody stopped them, or for whatever reason.
#include <fmt/format.h>

#include <utility>

#include "daemon/sharing/sharer.h"
#include "daemon/stopped.h"

namespace gpuman::daemon {
namespace {

using ledger::wire::Stage;
using ledger::wire::What;

constexpr base::Millis kLookEvery{50};
// For a shim to take an order up; and to carry one out that it has taken up: longer than it waits for a
// mover.
constexpr base::Millis kTakesUp{10'000}, kCarriesOut{150'000};

}  // namespace

// Empty: it answers, as far as one can tell.
std::string Sharer::WhySilent(const Entry& entry, const ledger::Standing& one) const {
  if (one.stage == Stage::kNone) return {};
  if (const auto by = IsStopped(one.process))
    return fmt::format("process {} is stopped ({})", one.process.pid,
                       *by == StoppedBy::kSignal ? "by a signal" : "by a debugger");
  const bool works = one.stage == Stage::kEvicting || one.stage == Stage::kRestoring;
  if (one.answered || clock_.Mono() < entry.ordered + (works ? kCarriesOut : kTakesUp)) return {};
  return fmt::format("libgpuman.so in process {} does not answer", one.process.pid);
}

void Sharer::LookAtAnswers(Entry& entry) {
  entry.answers_at = clock_.Mono() + kLookEvery;
  std::string silence;
  for (const auto& one : shims_.StandingsOf(entry.job.id))
    if (silence.empty()) silence = WhySilent(entry, one);
  if (silence.empty() == entry.silence.empty()) return;
  entry.silence = silence;
  const bool answers = silence.empty();
  Feed(share::event::Answers{entry.job.id, answers, std::move(silence)});
}

// Who was to give memory up, and does not answer, keeps it: nobody waits for that.
void Sharer::LetGoOfSilent(Entry& entry, const std::vector<ledger::Standing>& standings) {
  if (entry.silence.empty() || clock_.Mono() < entry.ordered + settings().yield_limit) return;
  for (const auto& one : standings) {
    std::string why = one.answered ? std::string() : WhySilent(entry, one);
    if (why.empty()) continue;
    for (auto& [gpu, evicting] : entry.evicting) {
      if (evicting.ordered.erase(one.process) == 0) continue;
      evicting.why = why;
      (void)shims_.Order(entry.job.id, one.process, {What::kHold, {}});
    }
  }
}

}  // namespace gpuman::daemon
