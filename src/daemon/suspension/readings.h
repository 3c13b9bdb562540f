// The readings of the suspend controller: a job's processes with their memory on GPUs and in host memory, the
// GPUs' free memory, and the owner of a job.
//
// GPU figures are from the latest samples; ledgers are read at each call. Lives on the event loop; not
// thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "jobs/job.h"
#include "ledger/ledgers.h"
#include "suspend/events.h"
#include "suspend/mover_options.h"
#include "suspend/resume_choice.h"

namespace gpuman::daemon {

class Core;
class ShimsModule;

// Memory of one process of a job, on one GPU, that its shim could evict or has evicted.
struct EvictableMemory {
  base::JobId job;
  suspend::MoverUser user;
  std::string gpu;
  base::Bytes bytes;
};

class SuspensionReadings {
 public:
  // Both must outlive this object.
  SuspensionReadings(Core& core, const ShimsModule& shims) : core_(core), shims_(shims) {}

  // All processes of the job that have to do with a GPU: those on a GPU, those that count in its ledger, and
  // those in `held` of the record that still live.
  std::vector<suspend::ObservedProcess> ProcessesOf(base::JobId job,
                                                    const suspend::SuspensionRecord& record) const;
  // What would stay of the job (suspend/would_stay.h).
  suspend::BytesByGpu WouldStay(base::JobId job, std::optional<bool> checkpoints) const;
  std::vector<suspend::ObservedGpu> Gpus() const;
  // Memory that jobs may take, by UUID: the free memory less the guard's reserve.
  suspend::BytesByGpu FreeMemory() const;
  // The time of the latest sample, by UUID.
  std::map<std::string, base::MonoTime> SampledAt() const;
  // The user whose mover moves the job's memory; nullopt: there is no such job.
  std::optional<suspend::MoverUser> OwnerOf(base::JobId job) const;
  // The memory for which movers prepare host memory.
  std::vector<EvictableMemory> EvictableMemoryOfJobs() const;
  // The memory that a context takes on the GPU; 0: not known.
  base::Bytes ContextCostOf(const std::string& gpu) const;
  int PriorityOf(base::JobId job) const;
  // Host memory that the job's shims hold now.
  base::Bytes HostMemoryOf(base::JobId job) const;

 private:
  std::vector<suspend::ObservedProcess> ViewsOf(const jobs::Job& job, const suspend::SuspensionRecord& record,
                                                const std::vector<ledger::SlotStatus>& slots) const;

  Core& core_;
  const ShimsModule& shims_;
};

}  // namespace gpuman::daemon
