// A process's memory of one GPU. The mover has a transfer of its own for it.
#pragma once

#include <algorithm>
#include <compare>
#include <string>
#include <vector>

#include "base/ids.h"
#include "ledger/ledgers.h"

namespace gpuman::daemon {

struct ProcessGpu {
  base::ProcessId process;
  std::string gpu;
  auto operator<=>(const ProcessGpu&) const = default;
};

// The GPU by which the mover is asked for this memory; empty where the process has memory of no other: a
// process that was moved to another GPU may still tell of the old one.
inline std::string SourceName(const std::vector<ledger::EvictableGpu>& homes,
                              const ledger::EvictableGpu& home) {
  const auto has_memory = [](const ledger::EvictableGpu& one) {
    return (one.evictable + one.evicted).count > 0;
  };
  return std::ranges::count_if(homes, has_memory) > 1 ? home.uuid : std::string();
}

}  // namespace gpuman::daemon
