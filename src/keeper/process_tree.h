// All processes of one job: everything below its keeper (a child subreaper, so nothing that daemonises,
// double forks or changes session gets away) and everything in its cgroup. Used by the keeper and by the
// guard.
//
// No state; thread-safe. Signals go through pidfds after the start time was checked. Zombies are no members.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/process.h"
#include "base/result.h"

namespace gpuman::keeper {

struct ProcessTree {
  base::ProcessId keeper;        // ended, or its pid reused: nothing is below it
  std::filesystem::path cgroup;  // the job's own; empty: none
};

// Every living process of the job; the keeper is none of them.
std::vector<base::ProcessInfo> Members(const ProcessTree& tree, const base::ProcessTable& table);
// The same from one listing of the process table, for callers that look at many jobs at once.
std::vector<base::ProcessInfo> Members(const ProcessTree& tree,
                                       const std::vector<base::ProcessInfo>& listing);

// The signal once to every member found; for SIGTERM and the like SIGCONT follows, so that a stopped process
// hears it. How many got it.
std::size_t SignalTree(const ProcessTree& tree, int signal, const base::ProcessTable& table);

struct KillReport {
  std::size_t killed = 0;  // processes this call sent SIGKILL to, one by one
  bool complete = false;   // a last look found nothing that had not been sent it
};

// SIGKILL to every member, faster than they can fork: cgroup.kill where there is one, else everything found
// is stopped until a look finds nothing new, then killed, until a look finds nothing left. Does not wait for
// processes that the kernel cannot end yet (uninterruptible sleep): `complete` means they have their SIGKILL.
KillReport KillTree(const ProcessTree& tree, const base::ProcessTable& table);
// The same from outside of the keeper, which may start the job's next run as soon as the first processes are
// gone: that one is spared. `is_over` is asked whether another run has begun; a process on its way to execve
// is none yet.
KillReport KillRun(const ProcessTree& tree, const base::ProcessTable& table,
                   const std::function<bool()>& is_over);

// The same for what `look` finds, without a cgroup.
KillReport KillAll(const std::function<std::vector<base::ProcessInfo>()>& look);

}  // namespace gpuman::keeper
