// What the suspend controller reads of the machine: the processes of a job and what they have on GPUs and in
// host memory, what the GPUs have free, and whose a job is.
//
// As of the latest samples and the ledgers as they are. Lives on the event loop; not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "suspend/mover_options.h"
#include "suspend/returning.h"
#include "suspend/state_machine.h"

namespace gpuman::daemon {

class Core;
class ShimsModule;

// What of a job could leave its GPU by the shims, and what has.
struct Movable {
  base::JobId job;
  suspend::MoverUser user;
  std::string gpu;
  base::Bytes bytes;
};

class SuspensionReadings {
 public:
  // Both must outlive this object.
  SuspensionReadings(Core& core, const ShimsModule& shims) : core_(core), shims_(shims) {}

  // Everything of the job that has to do with a GPU: processes that are on one, that count in its ledger, or
  // that are named in `held` and live.
  std::vector<suspend::ProcessView> ProcessesOf(base::JobId job,
                                                const suspend::SuspensionRecord& record) const;
  std::vector<suspend::GpuView> Gpus() const;
  // What jobs may take, by UUID: free memory without the guard's reserve.
  suspend::BytesByGpu FreeMemory() const;
  // When that was looked at, by UUID.
  std::map<std::string, base::MonoTime> SampledAt() const;
  // Whose mover moves the job's memory; nullopt: there is no such job.
  std::optional<suspend::MoverUser> OwnerOf(base::JobId job) const;
  // Host memory is made ready for it.
  std::vector<Movable> MovableMemory() const;
  // What a context takes of the GPU; 0: not known.
  base::Bytes ContextCostOf(const std::string& gpu) const;
  int PriorityOf(base::JobId job) const;
  // Host memory that the job's shims have already.
  base::Bytes HostMemoryOf(base::JobId job) const;

 private:
  Core& core_;
  const ShimsModule& shims_;
};

}  // namespace gpuman::daemon
