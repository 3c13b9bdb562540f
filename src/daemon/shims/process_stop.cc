#include "daemon/shims/process_stop.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/parse_number.h"

namespace gpuman::daemon {
namespace {

// The kernel takes SIGSTOP off the pending signals and stops the thread that took it in one step, and SIGCONT
// does away with a pending SIGSTOP. So a process in which neither is seen, in this order, goes on.
bool HasPendingStop(const std::filesystem::path& directory) {
  constexpr std::string_view kField = "\nShdPnd:\t";
  const auto text = base::ReadFile(directory / "status");
  const auto at = text ? text->find(kField) : std::string::npos;
  if (at == std::string::npos) return false;
  std::string_view mask = std::string_view(*text).substr(at + kField.size());
  const auto pending = base::TakeNumber<std::uint64_t>(mask, 16).value_or(0);
  return (pending >> (SIGSTOP - 1) & 1) != 0;
}

}  // namespace

std::optional<ProcessStopCause> IsStopped(const base::ProcessId& process) {
  const auto info = base::ProcFs().Find(process.pid);
  if (!info || info->id != process) return std::nullopt;
  if (info->state == 'T') return ProcessStopCause::kSignal;
  if (info->state == 't') return ProcessStopCause::kDebugger;
  return std::nullopt;
}

bool IsOrWillBeStopped(const base::ProcessId& process) {
  const auto directory = std::filesystem::path("/proc") / std::to_string(process.pid);
  const bool pending = HasPendingStop(directory);
  const auto info = base::ProcFs().Find(process.pid);
  if (!info || info->id != process) return false;
  const auto threads = base::ProcFs(directory / "task").List();
  return pending || std::any_of(threads.begin(), threads.end(), [](const base::ProcessInfo& thread) {
           return thread.state == 'T' || thread.state == 't';
         });
}

}  // namespace gpuman::daemon
