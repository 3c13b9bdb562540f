// The queue as the next pass would leave it, for answers to users: a value, which does not change while the
// queue changes. Make does the part that takes long, on any thread.
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

// Valid as long as the objects that it refers to.
struct QueueView {
  const queue::Snapshot& snapshot;
  const queue::Plan& plan;
  const std::vector<queue::WallTime>& starts;  // estimated, by place in snapshot.waiting
  const std::vector<bool>& presumed;           // as queue::StartEstimates has it
  queue::WallTime now;
  const queue::Dependents& dependents;
};

// How many of the next jobs an estimate is made for.
inline constexpr std::size_t kForecasts = 1000;

class QueueSnapshot {
 public:
  // `plan`: the plan of this snapshot, if there is one. `dependents` must outlive this object; Make does not
  // use it.
  QueueSnapshot(queue::Snapshot snapshot, std::optional<queue::Plan> plan, queue::WallTime now,
                const queue::Dependents& dependents)
      : snapshot_(std::move(snapshot)), known_(std::move(plan)), now_(now), dependents_(dependents) {}
  QueueSnapshot(const QueueSnapshot&) = delete;
  QueueSnapshot& operator=(const QueueSnapshot&) = delete;

  // The caller calls it once, before the functions below.
  void Make();

  std::size_t size() const { return snapshot_.waiting.size(); }  // waiting jobs
  QueueView view() const {
    return {snapshot_, plan_, estimates_.starts, estimates_.presumed, now_, dependents_};
  }
  // To be used on the thread of `dependents`.
  const queue::Explainer& explainer() const { return *explainer_; }
  // The rows of snapshot.waiting in the order in which a list shows them: first the next jobs in their order,
  // then the others by id.
  const std::vector<queue::Index>& order() const { return order_; }
  // kNone: the job did not wait.
  queue::Index RowOf(queue::JobId job) const;

 private:
  const queue::Snapshot snapshot_;
  std::optional<queue::Plan> known_;
  const queue::WallTime now_;
  const queue::Dependents& dependents_;
  queue::Plan plan_;
  queue::StartEstimates estimates_;
  std::vector<queue::Index> order_;
  std::vector<std::pair<queue::JobId, queue::Index>> rows_;  // by id
  std::optional<queue::Explainer> explainer_;
};

}  // namespace gpuman::daemon
