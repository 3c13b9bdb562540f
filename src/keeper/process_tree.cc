#include "keeper/process_tree.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include "keeper/cgroup.h"

namespace gpuman::keeper {
namespace {

using base::ProcessId;
using base::ProcessInfo;

// Below this many members, and as long as none appears behind our back, they are killed without being stopped
// first: an ordinary job dies one look at the process table sooner.
constexpr std::size_t kPlainKill = 64;
// What a fork bomb may cost the caller; the next call goes on where this one stopped.
constexpr std::chrono::seconds kPatience{5};

bool Lives(const ProcessInfo& process) { return process.state != 'Z' && process.state != 'X'; }

// `find(pid)` looks a process up that only the cgroup names.
template <typename Find>
std::vector<ProcessInfo> MembersOf(const ProcessTree& tree, const std::vector<ProcessInfo>& listing,
                                   Find find) {
  std::vector<ProcessInfo> members;
  const bool keeper_lives = std::any_of(
      listing.begin(), listing.end(), [&](const ProcessInfo& process) { return process.id == tree.keeper; });
  if (keeper_lives)
    for (auto& process : base::Descendants(listing, tree.keeper.pid))
      if (process.id.pid != tree.keeper.pid && Lives(process)) members.push_back(std::move(process));
  if (tree.cgroup.empty()) return members;
  std::set<pid_t> known;
  for (const auto& member : members) known.insert(member.id.pid);
  for (const pid_t pid : CgroupPids(tree.cgroup)) {
    if (pid == tree.keeper.pid || !known.insert(pid).second) continue;
    if (auto process = find(pid); process && Lives(*process)) members.push_back(std::move(*process));
  }
  return members;
}

// Signals every member not yet in `done`; how many those were.
std::size_t SignalNew(const std::vector<ProcessInfo>& members, int signal, std::set<ProcessId>& done) {
  std::size_t count = 0;
  for (const auto& member : members) {
    if (!done.insert(member.id).second) continue;
    ++count;
    (void)base::SendSignal(member.id, signal);  // ended meanwhile: as good
  }
  return count;
}

}  // namespace

std::vector<ProcessInfo> Members(const ProcessTree& tree, const base::ProcessTable& table) {
  return MembersOf(tree, table.List(), [&](pid_t pid) { return table.Find(pid); });
}

std::vector<ProcessInfo> Members(const ProcessTree& tree, const std::vector<ProcessInfo>& listing) {
  return MembersOf(tree, listing, [&](pid_t pid) -> std::optional<ProcessInfo> {
    const auto found = std::find_if(listing.begin(), listing.end(),
                                    [&](const auto& process) { return process.id.pid == pid; });
    return found == listing.end() ? std::nullopt : std::optional(*found);
  });
}

std::size_t SignalTree(const ProcessTree& tree, int signal, const base::ProcessTable& table) {
  const bool wake = signal != SIGKILL && signal != SIGSTOP && signal != SIGTSTP && signal != SIGCONT;
  std::size_t reached = 0;
  for (const auto& member : Members(tree, table)) {
    if (!base::SendSignal(member.id, signal)) continue;
    ++reached;
    if (wake && member.state == 'T') (void)base::SendSignal(member.id, SIGCONT);
  }
  return reached;
}

KillReport KillAll(const std::function<std::vector<ProcessInfo>()>& look) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  std::set<ProcessId> stopped;
  std::set<ProcessId> killed;
  auto members = look();
  bool plain = members.size() <= kPlainKill;
  KillReport report;
  while (std::chrono::steady_clock::now() < give_up) {
    if (!plain && SignalNew(members, SIGSTOP, stopped) > 0) {
      members = look();
      continue;
    }
    report.killed += SignalNew(members, SIGKILL, killed);
    members = look();
    report.complete =
        std::all_of(members.begin(), members.end(), [&](const auto& m) { return killed.contains(m.id); });
    if (report.complete) break;
    plain = false;
  }
  return report;
}

KillReport KillTree(const ProcessTree& tree, const base::ProcessTable& table) {
  if (!tree.cgroup.empty()) KillCgroup(tree.cgroup);
  return KillAll([&] { return Members(tree, table); });
}

KillReport KillRun(const ProcessTree& tree, const base::ProcessTable& table,
                   const std::function<bool()>& is_over) {
  // Before the kill of the cgroup: behind it there may be nothing but the next run.
  auto at_first = std::optional(Members(tree, table));
  if (!tree.cgroup.empty()) KillCgroup(tree.cgroup);
  const auto keeper = table.Find(tree.keeper.pid);
  const auto is_on_its_way = [&](const ProcessInfo& process) {
    return keeper && process.parent == tree.keeper.pid && process.name == keeper->name;
  };
  return KillAll([&]() -> std::vector<ProcessInfo> {
    if (at_first) return *std::exchange(at_first, std::nullopt);
    auto members = Members(tree, table);
    std::erase_if(members, is_on_its_way);
    // Asked behind the look: a run is written down before its command is executed.
    if (!members.empty() && is_over()) return {};
    return members;
  });
}

}  // namespace gpuman::keeper
