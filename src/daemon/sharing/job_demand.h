// What a shared job has and wants on its GPUs, and what its programs do, by the slots of its processes. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/units.h"
#include "daemon/sharing/process_gpu.h"
#include "ledger/ledgers.h"
#include "share/events.h"

namespace gpuman::daemon {

// Memory that the slots do not report, and processes whose memory stays.
struct UnreportedMemory {
  std::set<base::ProcessId> at_work;  // behind a closed gate: their memory stays
  // Memory of the process that the mover has loaded, and that the process still counts as evicted.
  std::function<base::Bytes(const ProcessGpu&)> loaded;
  // Memory of the job on the GPU that no process counts.
  std::function<base::Bytes(const std::string& gpu)> uncounted;
  // What a context costs on the GPU; 0: not known.
  std::function<base::Bytes(const std::string& gpu)> context;
};

// `gpus`: those that the job may use. A job with one GPU that has nothing yet has an empty demand there.
share::MemoryDemands DemandOf(const std::vector<ledger::SlotStatus>& slots,
                              const std::vector<std::string>& gpus, const UnreportedMemory& unreported);

// Memory that a process is just allocating already counts, but its shim does not yet list it as evictable. It
// is taken for evictable meanwhile; otherwise other jobs would be denied room.
class PinnedMemoryFilter {
 public:
  // Corrects the pinned and the resident memory in `demand`. `open`: the job's gate is; behind a closed gate
  // no process allocates.
  void Apply(share::MemoryDemands& demand, bool open, base::MonoTime now);

 private:
  struct Pinned {
    base::Bytes bytes;                    // as believed now
    std::optional<base::MonoTime> since;  // when the figures began to show more
    base::Bytes least;                    // that they have shown since then
  };
  std::map<std::string, Pinned> pinned_;  // by GPU
};

struct JobActivity {
  share::TenantActivity activity = share::TenantActivity::kIdle;
  std::uint64_t since = 0;  // CLOCK_MONOTONIC, ns: the last change in any process; 0: not known
};

// A job waits if one of its processes does, and else works if one does. A job without processes is idle.
JobActivity ActivityOf(const std::vector<ledger::SlotStatus>& slots);

// The calls that the job's processes have completed.
class CompletedCallCounter {
 public:
  // Returns how many there are since the last time. The first figure of a process only sets where it begins.
  std::uint64_t Count(const std::vector<ledger::SlotStatus>& slots);

 private:
  std::map<base::ProcessId, std::uint64_t> completed_;
};

}  // namespace gpuman::daemon
