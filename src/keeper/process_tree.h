// All processes of one job: everything below its keeper (a child subreaper, so nothing that daemonises,
// double forks or changes session gets away) and everything in its cgroup. Used by the keeper and by the
// guard.
//
// No state; thread-safe. Signals go through pidfds after the start time was checked. Zombies are no members.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <set>
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
// The same from one listing of the process table, for callers that look at many jobs at once. `table` is
// asked for what the cgroup names and the listing does not have.
std::vector<base::ProcessInfo> Members(const ProcessTree& tree, const std::vector<base::ProcessInfo>& listing,
                                       const base::ProcessTable& table);

// The signal once to every one of them; for SIGTERM and the like SIGCONT follows, so that a stopped process
// hears it. How many got it.
std::size_t SignalAll(const std::vector<base::ProcessInfo>& members, int signal);
// The same to every member found.
std::size_t SignalTree(const ProcessTree& tree, int signal, const base::ProcessTable& table);

struct KillReport {
  std::size_t killed = 0;  // processes this call sent SIGKILL to, one by one
  bool complete = false;   // a last look found nothing that had not been sent it
};

// SIGKILL to every member, faster than they can fork: cgroup.kill where there is one, else everything found
// is stopped until a look finds nothing new, then killed, until a look finds nothing left. Does not wait for
// processes that the kernel cannot end yet (uninterruptible sleep): `complete` means they have their SIGKILL.
KillReport KillTree(const ProcessTree& tree, const base::ProcessTable& table);

// SIGKILL to what is in the tree's cgroup, by one write; false: there is none, or it cannot be killed so.
bool KillAtOnce(const ProcessTree& tree);

// The same as KillTree for what `look` finds, without a cgroup.
KillReport KillAll(const std::function<std::vector<base::ProcessInfo>()>& look);

// The same in steps, for who looks at several trees in turn: a step for each look.
class Killing {
 public:
  // Stops or kills what a look has found. True: everything in it had its SIGKILL before, and the kill is
  // complete; else another look is needed.
  bool Step(const std::vector<base::ProcessInfo>& members);
  std::size_t killed() const { return killed_.size(); }

 private:
  std::set<base::ProcessId> stopped_, killed_;
  bool plain_ = true;  // few, and none appears behind our back
  bool began_ = false;
  bool kills_ = false;  // SIGKILL has been sent to what an earlier look found
};

// How long a fork bomb may hold up whoever kills it; the next order goes on where this one stopped.
inline constexpr std::chrono::seconds kKillPatience{5};

}  // namespace gpuman::keeper
