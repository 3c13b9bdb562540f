#include "daemon/queue/foreign.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuman::daemon {
namespace {

// Ours: it holds a context for jobs that are on their way.
constexpr const char* kMover = "gpuman-mover";

bool IsInNobodysWay(const gpu::OwnedProcess& process, const std::set<std::string>& protected_names) {
  if (process.kind == gpu::ProcessKind::kGraphics || process.name == kMover) return true;
  return protected_names.contains(process.name) &&
         (process.uid == uid_t{0} || process.kind != gpu::ProcessKind::kCompute);
}

}  // namespace

bool Ignores(const std::vector<IgnoreRule>& rules, const gpu::OwnedProcess& process, const std::string& gpu,
             const NameOfUid& name_of) {
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
    // One that has ended is shown until the next sample.
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

}  // namespace gpuman::daemon
