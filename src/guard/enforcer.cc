#include "guard/enforcer.h"

#include <signal.h>

#include <utility>

#include "guard/round.h"

namespace gpuman::guard {

base::Result<std::size_t> Enforcer::Send(const Action& action) {
  const int signal = action.what == What::kKill ? SIGKILL : SIGTERM;
  if (action.job) return hands_.SignalJob(*action.job, signal);
  GPUMAN_TRY(hands_.SignalProcess(*action.process, signal));
  return 1;
}

void Enforcer::Carry(std::vector<Action> actions) {
  std::vector<Event> failures;
  for (auto& action : actions) {
    if (action.what == What::kTell) continue;
    if (action.what == What::kSuspend) {
      hands_.SuspendJob(*action.job, action.event.reason, action.event.message, action.return_after);
      continue;
    }
    if (action.first && action.job) hands_.Announce(*action.job, action.event.reason, action.event.message);
    auto sent = Send(action);
    const base::MonoTime at = clock_.Mono();
    if (sent) {
      action.event.data[action.what == What::kKill ? "sigkill_ns" : "signal_ns"] = Nanoseconds(at);
      action.event.data["signalled"] = static_cast<std::int64_t>(*sent);
      continue;
    }
    // Ended by itself meanwhile; and what cannot be signalled is told of once, not with every attempt.
    if (sent.error().code == base::ErrorCode::kNotFound || action.event.kind.empty()) continue;
    Event failure = action.event;
    failure.kind = kSignalFailed;
    failure.at = at;
    failure.message = std::move(sent.error()).In("ending it failed").message + ". " + action.event.message;
    failures.push_back(std::move(failure));
  }
  for (auto& action : actions) {
    if (action.note_in_log && action.event.job) hands_.Note(*action.event.job, action.event.message);
    if (!action.event.kind.empty()) hands_.Emit(std::move(action.event));
  }
  for (auto& failure : failures) hands_.Emit(std::move(failure));
}

}  // namespace gpuman::guard
