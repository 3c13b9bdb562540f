// Processes that do not run because somebody stopped them.
#pragma once

#include <optional>

#include "base/process.h"

namespace gpuman::daemon {

enum class StoppedBy { kSignal, kDebugger };

// nullopt: the process is not stopped, or has ended.
std::optional<StoppedBy> IsStopped(const base::ProcessId& process);

}  // namespace gpuman::daemon
