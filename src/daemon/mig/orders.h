// What is asked of the driver about splitting GPUs, for several of them at a time. Runs on a thread of its
// own: loads NVML, looks, plans, changes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/nvml_executor.h"
#include "gpu/inventory.h"
#include "mig/applier.h"

namespace gpuman::daemon {

struct MigReading {
  gpu::Gpu gpu;
  base::Result<mig::Device> device;
};

struct MigOrder {
  gpu::Gpu gpu;
  std::vector<std::string>
      filters;  // PCI device ids; not of them: the order is not for this GPU. Empty: it is
  mig::Wanted wanted;
};

struct MigOutcome {
  gpu::Gpu gpu;
  mig::Wanted wanted;
  mig::Device before;
  mig::Plan plan;
  bool done = false;
  std::string needs_reset;
  std::optional<base::Error> error;
};

// Who has which device, by UUID: "job 3 'train' has GPU 0:1". A job has its device from before its first CUDA
// call until after its last.
using MigHolders = std::map<std::string, std::string>;

std::vector<MigReading> ReadAll(const driver::LoadedNvml& nvml, const std::vector<gpu::Gpu>& gpus);

// For the orders that are for their GPUs. An error where the orders contradict each other or nothing can be
// asked.
base::Result<std::vector<MigOutcome>> PlanOrders(const driver::LoadedNvml& nvml,
                                                 const std::vector<MigOrder>& orders);

// The same, and does it: nothing where one of them cannot be done; else one after the other, up to the first
// that fails.
base::Result<std::vector<MigOutcome>> ApplyOrders(const driver::LoadedNvml& nvml,
                                                  const std::vector<MigOrder>& orders,
                                                  const MigHolders& holders);

// Those who have what goes with the plan; pure.
std::vector<std::string> HeldBy(const MigOutcome& outcome, const MigHolders& holders);

struct MigCheck {
  std::map<std::string, bool> split;  // by UUID: in MIG mode; those of which the driver tells
  std::vector<MigOutcome> lost;       // of the orders that a reset, a reboot or a reload of the driver took
};
// Looks at the modes, and makes again what was lost.
MigCheck CheckGpus(const driver::LoadedNvml& nvml, const std::vector<gpu::Gpu>& gpus,
                   const std::vector<MigOrder>& orders);

}  // namespace gpuman::daemon
