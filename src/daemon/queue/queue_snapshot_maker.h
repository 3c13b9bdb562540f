// Makes snapshots of the queue for answers to users: one at a time, for all callers that asked before it was
// begun. The work of a snapshot of a long queue is done off the loop, and the loop has a rest after the part
// that it does itself.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/fair_task_executor.h"
#include "base/weak_self.h"
#include "daemon/queue/queue_snapshot.h"

namespace gpuman::daemon {

class QueueSnapshotMaker {
 public:
  using Snapshot = std::shared_ptr<const QueueSnapshot>;
  using Then = std::function<void(Snapshot)>;
  // Returns the queue as it is now, before QueueSnapshot::Make.
  using Copy = std::function<std::shared_ptr<QueueSnapshot>()>;
  // Does the task off the loop.
  using Aside = std::function<void(base::FairTaskExecutor::Task task)>;

  // A snapshot of so many waiting jobs takes less than a millisecond.
  static constexpr std::size_t kShort = 2000;

  // `loop` and `clock` must outlive this object.
  QueueSnapshotMaker(boost::asio::io_context& loop, const base::Clock& clock, Copy copy, Aside aside);

  // The queue has changed: no later caller gets a snapshot from before.
  void OnChanged();
  // Calls `then` with a snapshot that has all changes made before this call: now, or after some time.
  void With(Then then);

  // Whether the last work for a question took so little, or is so long ago, that the loop can do more.
  bool IsRested() const { return clock_.Mono() >= rested_at_; }
  // The loop has worked for a question since `began`.
  void Rest(base::MonoTime began);

 private:
  struct Question {
    std::uint64_t changes;  // that the snapshot must have
    Then then;
  };

  void Schedule();
  void Make();
  void OnMade(const Snapshot& made, std::uint64_t changes);

  const base::Clock& clock_;
  const Copy copy_;
  const Aside aside_;
  std::uint64_t changes_ = 0;
  std::vector<Question> questions_;
  bool pending_ = false;                       // one is being made, or will be at rested_at_
  std::weak_ptr<const QueueSnapshot> latest_;  // of the queue as it is; shared by those that use it now
  base::MonoTime rested_at_{};
  boost::asio::steady_timer timer_;
  base::WeakSelf<QueueSnapshotMaker> self_{this};
};

}  // namespace gpuman::daemon
