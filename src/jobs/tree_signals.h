// Sends signals to whole jobs, on a thread of its own: to find all processes of a job, the thread must list
// all processes of the machine; to end a fork bomb, it must do that many times.
//
// The caller does only the part that costs one system call: it sends SIGKILL to a cgroup at once, by
// cgroup.kill. The thread lists the process table once for all jobs that have an order, serves the smallest
// job first, and repeats that until each job has its signal. A job has one order under way. A further order
// joins a SIGKILL that is under way; otherwise it waits. All waiting orders of a job become one order, with
// the strongest of their signals.
//
// Not thread-safe: lives on the event loop.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/ids.h"
#include "base/process.h"
#include "keeper/process_tree.h"

namespace gpuman::jobs {

using base::JobId;

struct SignalOrder {
  keeper::ProcessTree tree;
  int signal = 0;
  // The tree may continue with another run, which gets no signal: `is_over`, called on the thread, says
  // whether the run that is meant is over. A process that is about to execute the other run's command gets no
  // signal either.
  bool has_runs = false;
  std::optional<base::ProcessId> run{};  // the main process of the run that is meant, if known
  std::function<bool()> is_over{};
};

struct SignalOrderResult {
  std::size_t processes = 0;  // in a cgroup with more than some hundred processes not all are counted
  base::MonoTime at{};        // when the last signal was sent
};

class TreeSignals {
 public:
  using Done = std::function<void(const SignalOrderResult&)>;

  // `to_loop` calls its argument on the loop. `table` and `clock` are thread-safe and must outlive this
  // object.
  TreeSignals(base::Executor to_loop, const base::ProcessTable& table, const base::Clock& clock);
  // Waits for the listing that is under way. Every ordered signal has then been sent to the processes of one
  // listing.
  ~TreeSignals();
  TreeSignals(const TreeSignals&) = delete;
  TreeSignals& operator=(const TreeSignals&) = delete;

  // `done` is called on the loop, never from within this call: when the signal has been sent to all
  // processes, or to as many as possible within keeper::kKillPatience.
  void Send(JobId job, SignalOrder order, Done done);
  // Drops orders that wait, since they were meant for this run. Every waiting `done` is called at once, with
  // what has been sent so far.
  void RunIsOver(JobId job);

 private:
  struct Walk;
  struct Pending {
    std::shared_ptr<Walk> walk;  // under way
    std::vector<Done> done{};
    bool over = false;  // the run is over: no further order may join
    std::optional<SignalOrder> next{};
    std::vector<Done> next_done{};
  };
  struct Thread;  // the thread's side

  void Begin(JobId job, Pending& pending, SignalOrder order, std::vector<Done> done);
  void OnFinished(JobId job);

  const base::Executor to_loop_;
  const base::Clock& clock_;
  std::map<JobId, Pending> pending_;
  std::shared_ptr<TreeSignals*> self_;  // a callback that outlives this object finds nullptr
  std::unique_ptr<Thread> side_;
};

}  // namespace gpuman::jobs
