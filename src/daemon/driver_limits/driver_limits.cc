#include "daemon/driver_limits/driver_limits.h"

#include <algorithm>

namespace gpuman::daemon {
namespace {

bool IsIn(std::string_view directory, std::string_view tree) {
  return !tree.empty() && directory.size() > tree.size() && directory.starts_with(tree) &&
         (tree.ends_with('/') || directory[tree.size()] == '/');
}

}  // namespace

std::map<std::string, base::Bytes> DriverLimitsOf(const jobs::Job& job, const gpu::Inventory& inventory,
                                                  std::string_view tree) {
  std::map<std::string, base::Bytes> limits;
  if (!job.spec->memory || !IsIn(job.cgroup, tree)) return limits;
  if (job.spec->share || job.spec->mps || jobs::HasGate(job)) return limits;
  const bool has_all = job.gpus.empty() && !job.queued;
  for (const auto& gpu : inventory.gpus) {
    const bool has = has_all || std::find(job.gpus.begin(), job.gpus.end(), gpu.uuid) != job.gpus.end();
    if (!has || gpu.mig || gpu.split) continue;
    const auto limit = job.spec->memory->Of(gpu.memory);
    if (limit < gpu.memory) limits.emplace(gpu.uuid, limit);
  }
  return limits;
}

DriverLimits::Orders DriverLimits::Want(base::JobId job, const std::string& cgroup,
                                        const std::map<std::string, base::Bytes>& limits) {
  std::vector<Key> changed;
  for (auto& [key, entry] : entries_) {
    if (entry.job != job || (key.cgroup == cgroup && limits.contains(key.gpu))) continue;
    entry.wanted.reset();
    changed.push_back(key);
  }
  for (const auto& [gpu, limit] : limits) {
    const Key key{cgroup, gpu};
    auto& entry = entries_[key];
    entry.job = job;
    entry.wanted = limit;
    changed.push_back(key);
  }
  Orders orders;
  for (const auto& key : changed)
    if (auto next = Next(key)) orders.push_back(std::move(*next));
  return orders;
}

std::optional<DriverLimitOrder> DriverLimits::Finish(const DriverLimitOrder& order,
                                                     DriverLimitOutcome outcome) {
  const Key key{order.cgroup, order.gpu};
  const auto found = entries_.find(key);
  if (found == entries_.end() || !found->second.busy) return std::nullopt;
  found->second.busy = false;
  found->second.refused = outcome == DriverLimitOutcome::kRefused;
  return Next(key);
}

std::optional<DriverLimitOrder> DriverLimits::Next(const Key& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.busy) return std::nullopt;
  auto& entry = found->second;
  const bool is_gone = !entry.told || (!*entry.told);  // nothing was set, or it was taken away
  if (!entry.wanted && is_gone) {
    entries_.erase(found);
    return std::nullopt;
  }
  if (entry.told && *entry.told == entry.wanted) return std::nullopt;
  entry.told = entry.wanted;
  entry.busy = true;
  entry.refused = false;
  return DriverLimitOrder{entry.job, key.cgroup, key.gpu, entry.wanted};
}

std::optional<bool> DriverLimits::Holds(base::JobId job) const {
  std::optional<bool> holds;
  for (const auto& [key, entry] : entries_) {
    if (entry.job != job || !entry.wanted) continue;
    holds = holds.value_or(true) && !entry.busy && !entry.refused && entry.told == entry.wanted;
  }
  return holds;
}

}  // namespace gpuman::daemon
