#include "daemon/queue/foreign_use.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuman::daemon {
namespace {

bool IsInNobodysWay(const gpu::AttributedProcess& process, const std::set<std::string>& protected_names) {
  if (process.ours || process.kind == gpu::ProcessKind::kGraphics) return true;
  return protected_names.contains(process.name) &&
         (process.uid == uid_t{0} || process.kind != gpu::ProcessKind::kCompute);
}

}  // namespace

bool Ignores(const std::vector<IgnoreRule>& rules, const gpu::AttributedProcess& process,
             const std::string& gpu, const NameOfUid& name_of) {
  return std::any_of(rules.begin(), rules.end(), [&](const IgnoreRule& rule) {
    if (!rule.process && !rule.user && !rule.name) return false;
    if (rule.gpu && *rule.gpu != gpu) return false;
    if (rule.process && *rule.process != process.id) return false;
    if (rule.name && *rule.name != process.name) return false;
    return !rule.user || (process.uid && name_of(*process.uid) == *rule.user);
  });
}

ForeignUse ForeignOn(const guard::GpuStatus& status, const std::vector<IgnoreRule>& rules,
                     const std::set<std::string>& protected_names, const NameOfUid& name_of,
                     const std::function<bool(const base::ProcessId&)>& lives) {
  ForeignUse use;
  for (const auto& process : status.processes) {
    // The status shows a process that has ended until the next sample.
    if (process.job || !lives(process.id)) continue;
    if (process.memory) use.memory += *process.memory;
    if (use.unmanaged || IsInNobodysWay(process, protected_names) ||
        Ignores(rules, process, status.gpu.uuid, name_of))
      continue;
    use.unmanaged = true;
    use.holder = fmt::format("pid {} ({}{})", process.id.pid, process.name,
                             process.uid ? ", user " + name_of(*process.uid) : std::string());
  }
  return use;
}

void ProcessIdleTracker::Observe(const guard::GpuStatus& status) {
  const auto& busy = status.sample.busy;
  if (!busy) return;
  auto& before = worked_[status.gpu.uuid];
  std::map<base::ProcessId, base::MonoTime> now;
  for (const auto& process : status.processes) {
    const bool works = std::find(busy->begin(), busy->end(), process.id.pid) != busy->end();
    const auto known = before.find(process.id);
    now[process.id] = works || known == before.end() ? status.sample.taken_at : known->second;
  }
  before = std::move(now);
}

std::optional<base::Millis> ProcessIdleTracker::IdleOf(const std::string& gpu, const base::ProcessId& process,
                                                       base::MonoTime now) const {
  const auto on = worked_.find(gpu);
  if (on == worked_.end()) return std::nullopt;
  const auto it = on->second.find(process);
  if (it == on->second.end()) return std::nullopt;
  return std::max(std::chrono::duration_cast<base::Millis>(now - it->second), base::Millis{0});
}

bool IsHoarding(const gpu::AttributedProcess& process, std::optional<base::Millis> idle,
                base::Millis patience, const std::set<std::string>& protected_names) {
  return !process.job && !IsInNobodysWay(process, protected_names) && patience.count() > 0 && idle &&
         *idle >= patience;
}

}  // namespace gpuman::daemon
