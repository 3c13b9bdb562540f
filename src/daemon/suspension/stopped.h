// Processes that do not run because somebody stopped them.
#pragma once

#include <optional>

#include "base/process.h"

namespace gpuman::daemon {

enum class StoppedBy { kSignal, kDebugger };

// nullopt: it is not stopped, or is no more.
std::optional<StoppedBy> IsStopped(const base::ProcessId& process);

}  // namespace gpuman::daemon
