#include "daemon/shims/stopped.h"

namespace gpuman::daemon {

std::optional<StoppedBy> IsStopped(const base::ProcessId& process) {
  const auto info = base::ProcFs().Find(process.pid);
  if (!info || info->id != process) return std::nullopt;
  if (info->state == 'T') return StoppedBy::kSignal;
  if (info->state == 't') return StoppedBy::kDebugger;
  return std::nullopt;
}

}  // namespace gpuman::daemon
