#include "keeper/process_tree.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "keeper/cgroup.h"

namespace gpuman::keeper {
namespace {

using base::ProcessId;
using base::ProcessInfo;

// Below this many members, and as long as no new one appears between two looks, they are killed without being
// stopped first: an ordinary job dies one look at the process table sooner.
constexpr std::size_t kPlainKill = 64;

bool Lives(const ProcessInfo& process) { return process.state != 'Z' && process.state != 'X'; }

// `find(pid)` looks up a process that only the cgroup names.
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

// Signals every member that is not yet in `done`, and returns how many it signalled.
std::size_t SignalNew(const std::vector<ProcessInfo>& members, int signal, std::set<ProcessId>& done) {
  std::size_t count = 0;
  for (const auto& member : members) {
    if (!done.insert(member.id).second) continue;
    ++count;
    (void)base::SendSignal(member.id, signal);  // it may have ended meanwhile
  }
  return count;
}

std::vector<ProcessInfo> Marked(const std::string& key, const base::ProcessTable& table) {
  if (key.empty()) return {};
  auto listing = table.List();
  std::erase_if(listing, [&](const ProcessInfo& process) {
    return process.state == 'Z' || table.Environment(process.id.pid, kKeyVariable) != key;
  });
  return listing;
}

}  // namespace

std::vector<ProcessInfo> Members(const ProcessTree& tree, const base::ProcessTable& table) {
  // Without a keeper there is no process below one, so only the cgroup is read.
  const auto listing = tree.keeper == ProcessId{} ? std::vector<ProcessInfo>() : table.List();
  return MembersOf(tree, listing, [&](pid_t pid) { return table.Find(pid); });
}

std::vector<ProcessInfo> Members(const ProcessTree& tree, const std::vector<ProcessInfo>& listing,
                                 const base::ProcessTable& table) {
  std::unordered_map<pid_t, const ProcessInfo*> listed;
  return MembersOf(tree, listing, [&](pid_t pid) -> std::optional<ProcessInfo> {
    if (listed.empty())
      for (const auto& process : listing) listed.emplace(process.id.pid, &process);
    const auto found = listed.find(pid);
    return found == listed.end() ? table.Find(pid) : std::optional(*found->second);
  });
}

std::size_t SignalAll(const std::vector<ProcessInfo>& members, int signal) {
  const bool wake = signal != SIGKILL && signal != SIGSTOP && signal != SIGTSTP && signal != SIGCONT;
  std::size_t reached = 0;
  for (const auto& member : members) {
    if (!base::SendSignal(member.id, signal)) continue;
    ++reached;
    if (wake && member.state == 'T') (void)base::SendSignal(member.id, SIGCONT);
  }
  return reached;
}

std::size_t SignalTree(const ProcessTree& tree, int signal, const base::ProcessTable& table) {
  return SignalAll(Members(tree, table), signal);
}

bool ProcessTreeKiller::Step(const std::vector<ProcessInfo>& members) {
  if (!std::exchange(began_, true)) plain_ = members.size() <= kPlainKill;
  if (kills_) {
    if (std::all_of(members.begin(), members.end(), [&](const auto& m) { return killed_.contains(m.id); }))
      return true;
    plain_ = false;
  }
  if (!plain_ && SignalNew(members, SIGSTOP, stopped_) > 0) return false;
  (void)SignalNew(members, SIGKILL, killed_);
  kills_ = true;
  return false;
}

KillReport KillAll(const std::function<std::vector<ProcessInfo>()>& look) {
  const auto give_up = std::chrono::steady_clock::now() + kKillPatience;
  ProcessTreeKiller killing;
  bool complete = false;
  while (!complete && std::chrono::steady_clock::now() < give_up) complete = killing.Step(look());
  return {killing.killed(), complete};
}

bool KillAtOnce(const ProcessTree& tree) { return !tree.cgroup.empty() && KillCgroup(tree.cgroup); }

KillReport KillTree(const ProcessTree& tree, const base::ProcessTable& table) {
  (void)KillAtOnce(tree);
  return KillAll([&] { return Members(tree, table); });
}

std::string MakeKey() {
  std::array<unsigned char, 16> bytes{};
  (void)!::getrandom(bytes.data(), bytes.size(), 0);
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

void EndLeftovers(const std::filesystem::path& cgroup, const std::string& key,
                  const base::ProcessTable& table) {
  const auto look = [&] {
    auto found = Members(ProcessTree{ProcessId{}, cgroup}, table);
    for (auto& process : Marked(key, table))
      if (std::none_of(found.begin(), found.end(), [&](const auto& f) { return f.id == process.id; }))
        found.push_back(std::move(process));
    return found;
  };
  if (!cgroup.empty()) KillCgroup(cgroup);
  KillAll(look);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!look().empty() && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (!cgroup.empty()) RemoveCgroup(cgroup);
}

}  // namespace gpuman::keeper
