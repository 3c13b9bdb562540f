// Views and snapshots of the next pass, for answers to users.
#include <algorithm>
#include <utility>

#include "daemon/queue/dispatcher.h"
#include "queue/forecast.h"

namespace gpuman::daemon {

namespace {
constexpr std::size_t kShort = 2000;  // waiting jobs: a snapshot takes less than a millisecond
}

bool Dispatcher::IsViewCheap() const {
  if (!dirty_ && forecast_) return true;
  return updater_.snapshot().waiting.size() <= kShort && clock_.Mono() >= next_snapshot_;
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
  const auto ended = clock_.Mono();
  if (!known) next_snapshot_ = ended + kRestPerPass * (ended - began);
  return {snapshot, plan_, estimates_.starts, estimates_.presumed, now, dependents_};
}

void Dispatcher::WithSnapshot(std::function<void(std::shared_ptr<const QueueSnapshot>)> then) {
  FollowClock(clock_.Wall());
  if (auto shared = latest_.lock()) return then(std::move(shared));
  pending_questions_.push_back({changes_, std::move(then)});
  if (!snapshot_pending_) ScheduleSnapshot();
}

void Dispatcher::ScheduleSnapshot() {
  snapshot_pending_ = true;
  if (clock_.Mono() >= next_snapshot_) return MakeSnapshot();
  snapshot_timer_.expires_at(next_snapshot_);
  snapshot_timer_.async_wait(self_.Bind([](Dispatcher& me, boost::system::error_code error) {
    if (!error) me.MakeSnapshot();
  }));
}

// This makes only the copy of the snapshot; QueueSnapshot::Make does the rest.
void Dispatcher::MakeSnapshot() {
  const auto began = clock_.Mono();
  const auto& snapshot = updater_.View(began);
  const bool planned = !dirty_ && plan_.verdicts.size() == snapshot.waiting.size();
  const auto shared = std::make_shared<QueueSnapshot>(snapshot, planned ? std::optional(plan_) : std::nullopt,
                                                      clock_.Wall(), dependents_);
  const auto made =
      self_.Bind([shared, changes = changes_](Dispatcher& me) { me.OnSnapshotMade(shared, changes); });
  const bool is_short = snapshot.waiting.size() <= kShort;
  if (is_short) shared->Make();
  const auto ended = clock_.Mono();
  next_snapshot_ = ended + kRestPerPass * (ended - began);
  if (is_short) return made();
  callbacks_.aside(base::kEveryUser, {[shared] { shared->Make(); }, made});
}

// The snapshot lacks changes made while it was made. Callers that asked after such a change get the next one.
void Dispatcher::OnSnapshotMade(const std::shared_ptr<const QueueSnapshot>& shared, std::uint64_t changes) {
  snapshot_pending_ = false;
  if (changes == changes_) latest_ = shared;
  auto questions = std::exchange(pending_questions_, {});
  const auto later =
      std::stable_partition(questions.begin(), questions.end(),
                            [&](const PendingQuestion& question) { return question.changes <= changes; });
  pending_questions_.assign(std::make_move_iterator(later), std::make_move_iterator(questions.end()));
  questions.erase(later, questions.end());
  if (!pending_questions_.empty()) ScheduleSnapshot();
  for (const auto& question : questions) question.then(shared);
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
