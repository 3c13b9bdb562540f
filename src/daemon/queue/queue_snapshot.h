// The queue as the next pass over it would leave it, for those who ask: a value, which stays as it is while
// the queue changes. What takes long of it is made on any thread (Make).
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "queue/dependencies.h"
#include "queue/explain.h"
#include "queue/forecast.h"
#include "queue/plan.h"
#include "queue/snapshot.h"

namespace gpuman::daemon {

// Valid as long as what it refers to.
struct QueueView {
  const queue::Snapshot& snapshot;
  const queue::Plan& plan;
  const std::vector<queue::WallTime>& starts;  // estimated, by place in snapshot.waiting
  const std::vector<bool>& presumed;           // as queue::Estimates has it
  queue::WallTime now;
  const queue::Dependents& dependents;
};

// How many of the next jobs an estimate is made for.
inline constexpr std::size_t kForecasts = 1000;

class QueueSnapshot {
 public:
  // `plan`: of this snapshot, where there is one. `dependents` must outlive this object; Make leaves it
  // alone.
  QueueSnapshot(queue::Snapshot snapshot, std::optional<queue::Plan> plan, queue::WallTime now,
                const queue::Dependents& dependents)
      : snapshot_(std::move(snapshot)), known_(std::move(plan)), now_(now), dependents_(dependents) {}
  QueueSnapshot(const QueueSnapshot&) = delete;
  QueueSnapshot& operator=(const QueueSnapshot&) = delete;

  // Once, before what follows.
  void Make();

  QueueView view() const {
    return {snapshot_, plan_, estimates_.starts, estimates_.presumed, now_, dependents_};
  }
  // On the thread of `dependents`.
  const queue::Explainer& explainer() const { return *explainer_; }
  // The rows of snapshot.waiting in the order of a list: those that are next in their order, then the others
  // by id.
  const std::vector<queue::Index>& order() const { return order_; }
  // kNone: it did not wait.
  queue::Index RowOf(queue::JobId job) const;

 private:
  const queue::Snapshot snapshot_;
  std::optional<queue::Plan> known_;
  const queue::WallTime now_;
  const queue::Dependents& dependents_;
  queue::Plan plan_;
  queue::Estimates estimates_;
  std::vector<queue::Index> order_;
  std::vector<std::pair<queue::JobId, queue::Index>> rows_;  // by id
  std::optional<queue::Explainer> explainer_;
};

}  // namespace gpuman::daemon
