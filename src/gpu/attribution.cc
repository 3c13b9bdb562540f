#include "gpu/attribution.h"

#include <algorithm>
#include <utility>

namespace gpuman::gpu {
namespace {

// A walk up the tree that met an ended process starts over; the orphan has got a new parent by then.
constexpr int kWalks = 4;
constexpr int kDeepest = 4096;

bool LiesIn(const std::filesystem::path& path, const std::filesystem::path& directory) {
  const auto [end, rest] = std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return end == directory.end();
}

}  // namespace

void Attribution::SetJob(const JobRoot& root) {
  auto& known = jobs_[root.job];
  if (known == root) return;
  known = root;
  // Ask again about everything that belongs to nobody; what belongs to a job stays with it.
  for (auto& [pid, process] : known_)
    if (!process.job) process = Look(pid);
}

void Attribution::RemoveJob(JobId job) {
  if (jobs_.erase(job) == 0) return;
  for (auto& [pid, process] : known_)
    if (process.job == job) process = Look(pid);
}

std::vector<OwnedProcess> Attribution::Attribute(const std::string& uuid,
                                                 std::span<const GpuProcess> processes) {
  auto& listed = listed_[uuid];
  std::vector<OwnedProcess> owned;
  owned.reserve(processes.size());
  for (const auto& process : processes) {
    auto it = known_.find(process.pid);
    const bool here_before = std::binary_search(listed.begin(), listed.end(), process.pid);
    if (it == known_.end()) {
      it = known_.emplace(process.pid, Look(process.pid)).first;
    } else if (!here_before) {
      const auto now = table_.Find(process.pid);
      if (!now || now->id != it->second.id) it->second = Look(process.pid);
    }
    const auto& known = it->second;
    owned.push_back({known.id, known.job, known.uid, known.name, process.kind, process.memory,
                     ours_.contains(process.pid)});
  }
  std::vector<pid_t> before = std::exchange(listed, {});
  listed.reserve(processes.size());
  for (const auto& process : processes) listed.push_back(process.pid);
  std::sort(listed.begin(), listed.end());
  DropUnlisted(before);
  return owned;
}

void Attribution::Forget(const std::string& uuid) {
  const auto it = listed_.find(uuid);
  if (it == listed_.end()) return;
  const std::vector<pid_t> before = std::move(it->second);
  listed_.erase(it);
  DropUnlisted(before);
}

void Attribution::DropUnlisted(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    const bool listed = std::any_of(listed_.begin(), listed_.end(), [pid](const auto& gpu) {
      return std::binary_search(gpu.second.begin(), gpu.second.end(), pid);
    });
    if (!listed) known_.erase(pid);
  }
}

Attribution::Known Attribution::Look(pid_t pid) const {
  const auto info = table_.Find(pid);
  if (!info) return {{pid, 0}, std::nullopt, std::nullopt, {}};
  const auto uid = table_.Owner(pid);
  return {info->id, FindJob(*info, uid), uid, info->name};
}

std::optional<JobId> Attribution::FindJob(const base::ProcessInfo& process, std::optional<uid_t> uid) const {
  if (jobs_.empty()) return std::nullopt;
  if (const auto job = ByAncestry(process)) return job;
  const auto container = container_of_(process.id.pid);
  if (container && !(own_container_ && own_container_->group.id == container->group.id)) {
    const auto job = ByContainer(container->group.id);
    if (job || !container->group.pod_uid.empty()) return job;
  }
  if (const auto job = ByCgroup(process.id.pid)) return job;
  return ByEnvironment(process, uid);
}

std::optional<JobId> Attribution::ByAncestry(const base::ProcessInfo& process) const {
  for (int walk = 0; walk < kWalks; ++walk) {
    auto child = walk == 0 ? std::optional(process) : table_.Find(process.id.pid);
    if (!child || child->id != process.id) return std::nullopt;
    bool broken = false;
    for (int depth = 0; depth < kDeepest && child->parent > 1; ++depth) {
      auto parent = table_.Find(child->parent);
      // Ended meanwhile, or its pid went to somebody younger than its child.
      if (!parent || parent->id.start_time > child->id.start_time) {
        broken = true;
        break;
      }
      for (const auto& [id, root] : jobs_)
        if (root.keeper == parent->id) return id;
      child = std::move(parent);
    }
    if (!broken) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<JobId> Attribution::ByContainer(const std::string& container) const {
  for (const auto& [id, root] : jobs_)
    if (root.container == container) return id;
  return std::nullopt;
}

std::optional<JobId> Attribution::ByCgroup(pid_t pid) const {
  if (std::none_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return !job.second.cgroup.empty(); }))
    return std::nullopt;
  const auto path = table_.Cgroup(pid);
  if (!path) return std::nullopt;
  for (const auto& [id, root] : jobs_)
    if (!root.cgroup.empty() && LiesIn(*path, root.cgroup)) return id;
  return std::nullopt;
}

std::optional<JobId> Attribution::ByEnvironment(const base::ProcessInfo& process,
                                                std::optional<uid_t> uid) const {
  std::optional<std::string> key, id_text;
  for (const auto& [id, root] : jobs_) {
    if (!uid || root.owner != *uid || !root.container.empty()) continue;
    if (!root.key.empty()) {
      if (!key) key = table_.Environment(process.id.pid, "GPUMAN_JOB_KEY").value_or("");
      if (*key == root.key) return id;
    } else if (process.id.start_time >= root.keeper.start_time) {
      if (!id_text) id_text = table_.Environment(process.id.pid, "GPUMAN_JOB_ID").value_or("");
      if (*id_text == std::to_string(id.value)) return id;
    }
  }
  return std::nullopt;
}

}  // namespace gpuman::gpu
