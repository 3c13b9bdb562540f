// All processes of one job: everything below its keeper (a child subreaper, so a process that daemonises,
// double forks or changes session stays below it) and everything in its cgroup. A process that has left both
// still carries the job's key. The keeper and the guard use it.
//
// No state; thread-safe. Signals go through pidfds after the start time was checked. Zombies are no members.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/result.h"

namespace gpuman::keeper {

struct ProcessTree {
  base::ProcessId keeper;        // if it has ended, or its pid is reused, nothing is below it
  std::filesystem::path cgroup;  // the job's own; empty: none
};

// Every living process of the job; the keeper is none of them.
std::vector<base::ProcessInfo> Members(const ProcessTree& tree, const base::ProcessTable& table);
// The same from one listing of the process table, for callers that look at many jobs at once. A process that
// the cgroup names and the listing lacks is looked up in `table`.
std::vector<base::ProcessInfo> Members(const ProcessTree& tree, const std::vector<base::ProcessInfo>& listing,
                                       const base::ProcessTable& table);

// Sends the signal once to each of them. SIGCONT follows SIGTERM and the like, so that a stopped process gets
// it. Returns how many got it.
std::size_t SignalAll(const std::vector<base::ProcessInfo>& members, int signal);
// The same for every member found.
std::size_t SignalTree(const ProcessTree& tree, int signal, const base::ProcessTable& table);

struct KillReport {
  std::size_t killed = 0;  // processes this call sent SIGKILL to, one by one
  bool complete = false;   // the last look found only processes that had got SIGKILL before
};

// Sends SIGKILL to every member, faster than they can fork. Uses cgroup.kill where there is one; else it
// stops everything found until a look finds nothing new, then kills, until a look finds nothing left. Does
// not wait for processes that the kernel cannot end yet (uninterruptible sleep): `complete` means they have
// their SIGKILL.
KillReport KillTree(const ProcessTree& tree, const base::ProcessTable& table);

// Sends SIGKILL to everything in the tree's cgroup by one write; false: there is no cgroup, or it lacks
// cgroup.kill.
bool KillAtOnce(const ProcessTree& tree);

// The same as KillTree for the processes that `look` finds, without a cgroup.
KillReport KillAll(const std::function<std::vector<base::ProcessInfo>()>& look);

// The same in steps, for a caller that looks at several trees in turn: one step for each look.
class ProcessTreeKiller {
 public:
  // Stops or kills what a look has found. True: everything found had its SIGKILL before, and the kill is
  // complete; else another look is needed.
  bool Step(const std::vector<base::ProcessInfo>& members);
  std::size_t killed() const { return killed_.size(); }

 private:
  std::set<base::ProcessId> stopped_, killed_;
  bool plain_ = true;  // few members, and no new one appears between two looks
  bool began_ = false;
  bool kills_ = false;  // SIGKILL has been sent to what an earlier look found
};

// The variable that marks every process of a job; children inherit it.
inline constexpr const char* kKeyVariable = "GPUMAN_JOB_KEY";
std::string MakeKey();  // 32 random hex digits

// Kills the processes that a job left, found by its cgroup and its key (empty: none), and waits until they
// are gone, some seconds at most. The job's keeper, or the root of an attached job, must be dead and of this
// boot.
void EndLeftovers(const std::filesystem::path& cgroup, const std::string& key,
                  const base::ProcessTable& table);

// How long one order to kill may work on a fork bomb; the next order goes on where this one stopped.
inline constexpr std::chrono::seconds kKillPatience{5};

}  // namespace gpuman::keeper
