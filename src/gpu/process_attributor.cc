#include "gpu/process_attributor.h"

#include <algorithm>
#include <utility>

namespace gpuman::gpu {
namespace {

bool LiesIn(const std::filesystem::path& path, const std::filesystem::path& directory) {
  const auto [end, rest] = std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return end == directory.end();
}

}  // namespace

void ProcessAttributor::SetJob(const JobRoot& root) {
  auto& known = jobs_[root.job];
  if (known == root) return;
  ancestry_.Remove(root.job, known.keeper);
  ancestry_.Add(root.job, root.keeper);
  known = root;
  // Looks again at processes without a job; a process of a job stays with it.
  for (auto& [pid, process] : known_)
    if (!process.job) process = Resolve(pid);
}

void ProcessAttributor::RemoveJob(JobId job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  ancestry_.Remove(job, found->second.keeper);
  jobs_.erase(found);
  for (auto& [pid, process] : known_)
    if (process.job == job) process = Resolve(pid);
}

std::vector<AttributedProcess> ProcessAttributor::Attribute(const std::string& uuid,
                                                            std::span<const GpuProcess> processes) {
  auto& listed = listed_[uuid];
  std::vector<AttributedProcess> owned;
  owned.reserve(processes.size());
  for (const auto& process : processes) {
    auto it = known_.find(process.pid);
    const bool here_before = std::binary_search(listed.begin(), listed.end(), process.pid);
    if (it == known_.end()) {
      it = known_.emplace(process.pid, Resolve(process.pid)).first;
    } else if (!it->second.complete) {
      it->second = Resolve(process.pid);
    } else if (!here_before) {
      const auto now = table_.Find(process.pid);
      if (!now || now->id != it->second.id) it->second = Resolve(process.pid);
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

void ProcessAttributor::Forget(const std::string& uuid) {
  const auto it = listed_.find(uuid);
  if (it == listed_.end()) return;
  const std::vector<pid_t> before = std::move(it->second);
  listed_.erase(it);
  DropUnlisted(before);
}

void ProcessAttributor::DropUnlisted(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    const bool listed = std::any_of(listed_.begin(), listed_.end(), [pid](const auto& gpu) {
      return std::binary_search(gpu.second.begin(), gpu.second.end(), pid);
    });
    if (!listed) known_.erase(pid);
  }
}

ProcessAttributor::KnownProcess ProcessAttributor::Resolve(pid_t pid, std::size_t most_reads) const {
  const auto info = table_.Find(pid);
  if (!info) return {{pid, 0}, std::nullopt, std::nullopt, {}};
  const auto uid = table_.Owner(pid);
  const auto found = FindJob(*info, uid, most_reads);
  return {info->id, found.job, uid, info->name, found.complete};
}

JobLookupResult ProcessAttributor::FindJob(const base::ProcessInfo& process, std::optional<uid_t> uid,
                                           std::size_t most_reads) const {
  if (jobs_.empty()) return {};
  const auto above = ancestry_.JobAbove(process, most_reads);
  if (above.job || !above.complete) return {above.job, above.complete};
  const auto container = container_of_(process.id.pid);
  if (container && !(own_container_ && own_container_->group.id == container->group.id)) {
    const auto job = ByContainer(container->group.id);
    if (job || !container->group.pod_uid.empty()) return {job};
  }
  if (const auto job = ByCgroup(process.id.pid)) return {job};
  return ByEnvironment(process, uid);
}

std::optional<JobId> ProcessAttributor::ByContainer(const std::string& container) const {
  for (const auto& [id, root] : jobs_)
    if (root.container == container) return id;
  return std::nullopt;
}

std::optional<JobId> ProcessAttributor::ByCgroup(pid_t pid) const {
  if (std::none_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return !job.second.cgroup.empty(); }))
    return std::nullopt;
  const auto path = table_.Cgroup(pid);
  if (!path) return std::nullopt;
  for (const auto& [id, root] : jobs_)
    if (!root.cgroup.empty() && LiesIn(*path, root.cgroup)) return id;
  return std::nullopt;
}

JobLookupResult ProcessAttributor::ByEnvironment(const base::ProcessInfo& process,
                                                 std::optional<uid_t> uid) const {
  bool complete = true;
  const auto read = [&](std::optional<std::string>& value, const char* name) -> const std::string& {
    if (value) return *value;
    const auto found = table_.ReadEnvironment(process.id.pid, name);
    complete = complete && found;
    return value.emplace(found && *found ? **found : "");
  };
  std::optional<std::string> key, id_text;
  for (const auto& [id, root] : jobs_) {
    if (!uid || root.owner != *uid || !root.container.empty()) continue;
    if (!root.key.empty()) {
      if (read(key, "GPUMAN_JOB_KEY") == root.key) return {id};
    } else if (process.id.start_time >= root.keeper.start_time) {
      if (read(id_text, "GPUMAN_JOB_ID") == std::to_string(id.value)) return {id};
    }
  }
  return {std::nullopt, complete};
}

}  // namespace gpuman::gpu
