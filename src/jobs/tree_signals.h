// Sends signals to whole jobs, on a thread of its own: to find all processes of a job takes a look at every
// process of the machine, and to end those of a fork bomb takes many looks.
//
// The caller does what costs one system call: SIGKILL to a cgroup goes out at once, by cgroup.kill. The
// thread looks at the process table once for all jobs that have an order, serves the smallest job first, and
// looks again until each job has its signal. A job has one order under way: another one joins a SIGKILL that
// is under way, or waits for the one under way and becomes one with the others that wait, where the strongest
// signal wins.
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
#include "base/ids.h"
#include "base/process.h"
#include "keeper/process_tree.h"

namespace gpuman::jobs {

using base::JobId;

struct SignalOrder {
  keeper::ProcessTree tree;
  int signal = 0;
  // The tree may go on with another run, which is spared: told by `is_over`, asked on the thread. A process
  // on its way to that run's command is spared as well.
  bool has_runs = false;
  std::optional<base::ProcessId> run{};  // the main process of the run that is meant, where that is known
  std::function<bool()> is_over{};
};

struct SignalSent {
  std::size_t processes = 0;  // of a cgroup of more than some hundred not all are counted
  base::MonoTime at{};        // when the last one was sent
};

class TreeSignals {
 public:
  // Runs what it is given on the loop; called from the thread.
  using Post = std::function<void(std::function<void()>)>;
  using Done = std::function<void(const SignalSent&)>;

  // `table` and `clock` are thread-safe and outlive this object.
  TreeSignals(Post post, const base::ProcessTable& table, const base::Clock& clock);
  // Waits for the look that is under way. What was ordered has been sent to what one look finds.
  ~TreeSignals();
  TreeSignals(const TreeSignals&) = delete;
  TreeSignals& operator=(const TreeSignals&) = delete;

  // `done` is called on the loop, and never from within this call: when the signal has been sent to all of
  // them, or to as many as could be had within keeper::kKillPatience.
  void Send(JobId job, SignalOrder order, Done done);
  // What waits is not sent any more, since it was meant for this run. Everybody who waits is told at once,
  // with what has been sent so far.
  void RunIsOver(JobId job);

 private:
  struct Walk;
  struct Pending {
    std::shared_ptr<Walk> walk;  // under way
    std::vector<Done> done{};
    bool over = false;  // its run is: it takes nobody in
    std::optional<SignalOrder> next{};
    std::vector<Done> next_done{};
  };
  struct Thread;  // its side

  void Begin(JobId job, Pending& pending, SignalOrder order, std::vector<Done> done);
  void OnFinished(JobId job);

  const Post post_;
  const base::Clock& clock_;
  std::map<JobId, Pending> pending_;
  std::shared_ptr<TreeSignals*> self_;  // callbacks that outlive this object find it gone
  std::unique_ptr<Thread> side_;
};

}  // namespace gpuman::jobs
