#include "daemon/queue/queue_snapshot_maker.h"

#include <algorithm>
#include <utility>

namespace gpuman::daemon {
namespace {

// After work for a question the loop has so many times its time for other work, however much is asked.
constexpr int kRest = 4;

}  // namespace

QueueSnapshotMaker::QueueSnapshotMaker(boost::asio::io_context& loop, const base::Clock& clock, Copy copy,
                                       Aside aside)
    : clock_(clock), copy_(std::move(copy)), aside_(std::move(aside)), timer_(loop) {}

void QueueSnapshotMaker::OnChanged() {
  ++changes_;
  latest_.reset();
}

void QueueSnapshotMaker::Rest(base::MonoTime began) {
  const auto now = clock_.Mono();
  rested_at_ = now + kRest * (now - began);
}

void QueueSnapshotMaker::With(Then then) {
  if (auto shared = latest_.lock()) return then(std::move(shared));
  questions_.push_back({changes_, std::move(then)});
  if (!pending_) Schedule();
}

void QueueSnapshotMaker::Schedule() {
  pending_ = true;
  if (IsRested()) return Make();
  timer_.expires_at(rested_at_);
  timer_.async_wait(self_.Bind([](QueueSnapshotMaker& me, boost::system::error_code error) {
    if (!error) me.Make();
  }));
}

void QueueSnapshotMaker::Make() {
  const auto began = clock_.Mono();
  const std::shared_ptr<QueueSnapshot> snapshot = copy_();
  const auto made =
      self_.Bind([snapshot, changes = changes_](QueueSnapshotMaker& me) { me.OnMade(snapshot, changes); });
  const bool is_short = snapshot->size() <= kShort;
  if (is_short) snapshot->Make();
  Rest(began);
  if (is_short) return made();
  aside_({[snapshot] { snapshot->Make(); }, made});
}

// The snapshot lacks changes made while it was made. Callers that asked after such a change get the next one.
void QueueSnapshotMaker::OnMade(const Snapshot& made, std::uint64_t changes) {
  pending_ = false;
  if (changes == changes_) latest_ = made;
  auto answered = std::exchange(questions_, {});
  const auto later = std::stable_partition(answered.begin(), answered.end(), [&](const Question& question) {
    return question.changes <= changes;
  });
  questions_.assign(std::make_move_iterator(later), std::make_move_iterator(answered.end()));
  answered.erase(later, answered.end());
  if (!questions_.empty()) Schedule();
  for (const auto& question : answered) question.then(made);
}

}  // namespace gpuman::daemon
