// Calls of the driver to split GPUs, for several GPUs at a time. They run on a separate thread, which loads
// NVML, reads, plans and changes.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/nvml_executor.h"
#include "gpu/inventory.h"
#include "mig/applier.h"

namespace gpuman::daemon {

struct MigReading {
  gpu::Gpu gpu;
  base::Result<mig::GpuMigState> device;
};

struct MigOrder {
  gpu::Gpu gpu;
  std::vector<std::string> filters;  // PCI device ids that the order is for; empty: all
  mig::WantedLayout wanted;
};

struct MigOutcome {
  gpu::Gpu gpu;
  mig::WantedLayout wanted;
  mig::GpuMigState before;
  mig::Plan plan;
  bool done = false;
  std::string needs_reset;
  std::optional<base::Error> error;
};

// The holder of each device, by UUID: "job 3 'train' has GPU 0:1". A job holds its device from before its
// first CUDA call until after its last.
using MigHolders = std::map<std::string, std::string>;

// One look at the GPUs for all that want to know something: each GPU is read once, when the first asks for
// it.
class MigLook {
 public:
  using State = base::Result<mig::GpuMigState>;

  // `nvml` must outlive this object.
  explicit MigLook(const driver::LoadedNvml& nvml) : nvml_(nvml) {}
  const driver::LoadedNvml& nvml() const { return nvml_; }
  const State& StateOf(const std::string& uuid);
  // The PCI device id.
  const base::Result<unsigned>& PciIdOf(const std::string& uuid);

 private:
  base::Result<unsigned> ReadPciId(const std::string& uuid) const;

  const driver::LoadedNvml& nvml_;
  std::map<std::string, State> states_;                    // by UUID
  std::map<std::string, base::Result<unsigned>> pci_ids_;  // by UUID
};

std::vector<MigReading> ReadAll(MigLook& look, const std::vector<gpu::Gpu>& gpus);

// Plans the orders whose filters match their GPUs. Fails where the orders contradict each other or the driver
// cannot be asked.
base::Result<std::vector<MigOutcome>> PlanOrders(MigLook& look, const std::vector<MigOrder>& orders);

// What is in the way of orders. The devices of `holders` are not touched. `own`: the pids of gpuman's own
// processes.
struct MigObstacles {
  MigHolders holders;
  std::set<pid_t> own;
};

// Plans as PlanOrders, then carries the plans out one after the other, up to the first that fails. If one of
// the plans cannot be carried out, none is begun.
base::Result<std::vector<MigOutcome>> ApplyOrders(const driver::LoadedNvml& nvml,
                                                  const std::vector<MigOrder>& orders,
                                                  const MigObstacles& obstacles);

// The holders of the devices that the plan takes away from them; pure.
std::vector<std::string> HeldBy(const MigOutcome& outcome, const MigHolders& holders);

struct MigRestoreResult {
  std::map<std::string, bool> split;  // by UUID: in MIG mode; only GPUs that the driver answers for
  std::vector<MigOutcome> lost;       // of orders whose instances a reset, a reboot or a reload removed
};
// Reads the modes, and makes lost instances again.
MigRestoreResult CheckGpus(const driver::LoadedNvml& nvml, const std::vector<gpu::Gpu>& gpus,
                           const std::vector<MigOrder>& orders, const std::set<pid_t>& own);

}  // namespace gpuman::daemon
