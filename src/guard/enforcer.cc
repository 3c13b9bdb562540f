#include "guard/enforcer.h"

#include <signal.h>

#include <utility>

#include "guard/decision_context.h"

namespace gpuman::guard {

namespace {

void Stamp(Event& event, ActionKind what, const SignalJobResult& sent) {
  event.data[what == ActionKind::kKill ? "sigkill_ns" : "signal_ns"] = Nanoseconds(sent.at);
  event.data["signalled"] = static_cast<std::int64_t>(sent.processes);
}

}  // namespace

base::Result<> Enforcer::Send(Action& action) {
  const int signal = action.what == ActionKind::kKill ? SIGKILL : SIGTERM;
  if (!action.job) {
    GPUMAN_TRY(actuator_.SignalProcess(*action.process, signal));
    Stamp(action.event, action.what, {1, clock_.Mono()});
    return {};
  }
  const auto tell = [this, what = action.what, event = action.event](const SignalJobResult& sent) {
    if (event.kind.empty()) return;
    Event told = event;
    Stamp(told, what, sent);
    actuator_.Emit(std::move(told));
  };
  GPUMAN_TRY(actuator_.SignalJob(*action.job, signal, tell));
  action.event.kind = {};  // `tell` emits it
  return {};
}

void Enforcer::Perform(std::vector<Action> actions) {
  std::vector<Event> failures;
  for (auto& action : actions) {
    if (action.what == ActionKind::kTell) continue;
    if (action.what == ActionKind::kSuspend) {
      actuator_.SuspendJob(*action.job, action.event.reason, action.event.message, action.return_after);
      continue;
    }
    if (action.first && action.job)
      actuator_.Announce(*action.job, action.event.reason, action.event.message);
    auto sent = Send(action);
    if (sent) continue;
    // kNotFound: the target has ended by itself. An event without a kind: the failure was reported with the
    // first attempt.
    if (sent.error().code == base::ErrorCode::kNotFound || action.event.kind.empty()) continue;
    Event failure = action.event;
    failure.kind = kSignalFailed;
    failure.at = clock_.Mono();
    failure.message = std::move(sent.error()).In("ending it failed").message + ". " + action.event.message;
    failures.push_back(std::move(failure));
  }
  for (auto& action : actions) {
    if (action.note_in_log && action.event.job) actuator_.Note(*action.event.job, action.event.message);
    if (!action.event.kind.empty()) actuator_.Emit(std::move(action.event));
  }
  for (auto& failure : failures) actuator_.Emit(std::move(failure));
}

}  // namespace gpuman::guard
