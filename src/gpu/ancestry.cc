#include "gpu/ancestry.h"

#include <limits>

namespace gpuman::gpu {
namespace {

constexpr std::size_t kMaxKnown = 4096;

}  // namespace

void Ancestry::Add(base::JobId job, base::ProcessId keeper) {
  if (keeper.pid <= 0) return;
  keepers_.emplace(keeper, job);
  // A process below the keeper is not older than the keeper.
  std::erase_if(known_, [&](const auto& entry) { return entry.first.start_time >= keeper.start_time; });
}

void Ancestry::Remove(base::JobId job, base::ProcessId keeper) {
  if (keepers_.erase({keeper, job}) == 0) return;
  std::erase_if(known_, [&](const auto& entry) { return entry.second.job == job; });
}

std::optional<base::JobId> Ancestry::JobOfKeeper(base::ProcessId process) const {
  const base::JobId lowest{std::numeric_limits<std::int64_t>::min()};
  const auto found = keepers_.lower_bound({process, lowest});
  return found != keepers_.end() && found->first == process ? std::optional(found->second) : std::nullopt;
}

// Called when the parent of the path's last process has ended. Reads again, upwards from the path's end, and
// drops ended processes. True: the first that still lives has another parent now, or is another process.
// False: it still has the same parent, which we cannot see, or the whole path has ended.
bool Ancestry::Reread(Path& path, std::size_t& reads) const {
  const base::ProcessInfo before = path.back();
  for (; !path.empty(); path.pop_back()) {
    ++reads;
    auto now = table_.Find(path.back().id.pid);
    if (!now || now->id != path.back().id) continue;
    const bool moved = now->id != before.id || now->parent != before.parent;
    path.back() = std::move(*now);
    return moved;
  }
  return false;
}

Ancestry::Found Ancestry::Learn(const Path& path, KnownAncestry known) {
  if (known_.size() + path.size() > kMaxKnown) known_.clear();
  for (const auto& process : path)
    if (process.id != known.reached) known_[process.id] = known;
  return {known.job, !known.reached};
}

Ancestry::Found Ancestry::JobAbove(const base::ProcessInfo& process, std::size_t most) {
  Path path{process};
  for (std::size_t reads = 0; reads < most;) {
    if (const auto known = known_.find(path.back().id); known != known_.end()) {
      if (!known->second.reached) return Learn(path, known->second);
      ++reads;
      auto reached = table_.Find(known->second.reached->pid);
      const bool is_there = reached && reached->id == *known->second.reached;
      if (is_there) {
        path.push_back(std::move(*reached));
        continue;
      }
      known_.erase(known);  // it has ended: continue step by step
    }
    if (path.back().parent <= 1) return Learn(path, {});
    ++reads;
    auto parent = table_.Find(path.back().parent);
    // The parent has ended, or its pid now belongs to a process that is younger than the child.
    if (!parent || parent->id.start_time > path.back().id.start_time) {
      if (!Reread(path, reads)) return {};
      continue;
    }
    if (const auto job = JobOfKeeper(parent->id)) return Learn(path, {std::nullopt, job});
    path.push_back(std::move(*parent));
  }
  if (path.size() < 2) return {std::nullopt, false};
  return Learn(path, {path.back().id, std::nullopt});
}

}  // namespace gpuman::gpu
