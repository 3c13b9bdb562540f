// Views and snapshots of the next pass, for answers to users.
#include <algorithm>
#include <utility>

#include "daemon/queue/dispatcher.h"
#include "queue/forecast.h"

namespace gpuman::daemon {

bool Dispatcher::IsViewCheap() const {
  if (!dirty_ && forecast_) return true;
  return updater_.snapshot().waiting.size() <= QueueSnapshotMaker::kShort && snapshots_.IsRested();
}

Dispatcher::View Dispatcher::CurrentView() {
  const auto began = clock_.Mono();
  const auto now = clock_.Wall();
  FollowClock(now);
  const bool known = !dirty_ && forecast_;
  const auto& snapshot = updater_.View(clock_.Mono());
  if (dirty_ || plan_.verdicts.size() != snapshot.waiting.size()) {
    plan_ = queue::Pass(snapshot, now);
    dirty_ = forecast_ = false;
    // The next pass is posted already, and will start the jobs that this plan starts.
  }
  if (!forecast_) estimates_ = queue::Forecast(snapshot, plan_, now, kForecasts);
  forecast_ = true;
  if (!known) snapshots_.Rest(began);
  return {snapshot, plan_, estimates_.starts, estimates_.presumed, now, dependents_};
}

void Dispatcher::WithSnapshot(QueueSnapshotMaker::Then then) {
  FollowClock(clock_.Wall());
  snapshots_.With(std::move(then));
}

std::shared_ptr<QueueSnapshot> Dispatcher::CopySnapshot() {
  const auto& snapshot = updater_.View(clock_.Mono());
  const bool planned = !dirty_ && plan_.verdicts.size() == snapshot.waiting.size();
  return std::make_shared<QueueSnapshot>(snapshot, planned ? std::optional(plan_) : std::nullopt,
                                         clock_.Wall(), dependents_);
}

Dispatcher::Backlog Dispatcher::CurrentBacklog() const {
  Backlog backlog;
  backlog.paused = state_.paused;
  for (const auto& verdict : plan_.verdicts) ++backlog.jobs[verdict.reason];
  const auto now = clock_.Wall();
  for (const auto& row : updater_.snapshot().waiting) {
    if (row.held || row.dependency != queue::DependencyState::kMet || row.begin > now) continue;
    backlog.oldest = std::min(backlog.oldest.value_or(queue::kNever), row.since);
  }
  return backlog;
}

}  // namespace gpuman::daemon
