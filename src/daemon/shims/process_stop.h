// Processes that do not run because somebody stopped them.
#pragma once

#include <optional>

#include "base/process.h"

namespace gpuman::daemon {

enum class ProcessStopCause { kSignal, kDebugger };

// nullopt: the process is not stopped, or has ended.
std::optional<ProcessStopCause> IsStopped(const base::ProcessId& process);

// Whether the process is stopped, or has been sent a SIGSTOP that no SIGCONT has taken back: a process takes
// a signal only when it runs next, and a call of the driver may keep it from that for long.
bool IsOrWillBeStopped(const base::ProcessId& process);

}  // namespace gpuman::daemon
