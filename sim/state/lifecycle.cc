#include "sim/state/lifecycle.h"

#include <unistd.h>

#include <cstring>

#include "sim/state/limits.h"
#include "sim/state/mig.h"
#include "sim/state/state.h"

namespace gpuman::sim {
namespace {

constexpr std::uint32_t kHopper = 9;  // NVML_DEVICE_ARCH_HOPPER

void LoseSettings(Shared& shared, unsigned gpu) {
  const GpuStatic& fixed = shared.gpu_static[gpu];
  GpuDynamic& now = shared.gpu[gpu];
  now.compute_mode.store(0);
  now.power_limit_mw.store(fixed.power_default_mw);
  now.locked_graphics_min_mhz.store(0);
  now.locked_graphics_max_mhz.store(0);
  now.locked_memory_min_mhz.store(0);
  now.locked_memory_max_mhz.store(0);
  now.application_graphics_mhz.store(fixed.clock_max_mhz[0]);
  now.application_memory_mhz.store(fixed.clock_max_mhz[static_cast<unsigned>(ClockKind::kMemory)]);
  now.accounting.store(0);
  ForgetGroupLimits(shared, gpu);
  now.energy_since_ns.store(MonotonicNs());
  now.worked_ns.store(0);
  now.awake_ns.store(0);
  now.energy_shown_mj.store(0);
}

void ClearVolatile(GpuDynamic& now) {
  for (auto& kind : now.ecc[0]) {
    for (Word64& counter : kind) counter.store(0);
  }
  now.pcie_replays.store(0);
  now.nvlink_crc_errors.store(0);
  for (Word64& counter : now.violation_ns) counter.store(0);
}

void ClearReadings(GpuDynamic& now) {
  for (Signed64* reading :
       {&now.temperature_c, &now.memory_temperature_c, &now.power_mw, &now.throttle_reasons,
        &now.utilization_gpu, &now.utilization_memory, &now.pcie_gen, &now.pcie_width, &now.fan_percent}) {
    reading->store(kNotInjected);
  }
  now.lost.store(0);
}

}  // namespace

void PowerOn(Shared& shared, unsigned gpu) {
  const GpuStatic& fixed = shared.gpu_static[gpu];
  GpuDynamic& now = shared.gpu[gpu];
  LoseSettings(shared, gpu);
  ClearReadings(now);
  ClearCounters(shared, gpu);
  now.energy_since_ns.store(0);
  now.worked_ns.store(0);
  now.awake_ns.store(0);
  now.awake_until_ns.store(0);
  now.energy_shown_mj.store(0);
  now.persistence.store(fixed.persistence_at_boot);
  const std::uint32_t ecc = (fixed.features & kFeatureEcc) != 0 ? 1 : 0;
  now.ecc_current.store(ecc);
  now.ecc_pending.store(ecc);
  now.mig_current.store(0);
  now.mig_pending.store(0);
  now.recovery_action.store(0);
  now.last_xid.store(0);
}

void LoadDriverIfUnused(Shared& shared, std::uint32_t loads) {
  const std::uint32_t limit = shared.slot_limit.load();
  for (unsigned i = 0; i < limit; ++i) {
    if (shared.processes[i].owner.load() != 0) return;
  }
  if (!shared.driver_loads.compare_exchange_strong(loads, loads + 1)) return;
  for (unsigned gpu = 0; gpu < shared.gpus; ++gpu) {
    GpuDynamic& now = shared.gpu[gpu];
    if (now.persistence.load() != 0) continue;
    LoseSettings(shared, gpu);
    RemoveMigInstances(shared, gpu);
    // On Ampere the device's InfoROM keeps the MIG mode; on Hopper it ends with the driver.
    if (shared.gpu_static[gpu].architecture >= kHopper) {
      now.mig_current.store(0);
      now.mig_pending.store(0);
    }
  }
}

void ResetGpu(Shared& shared, unsigned gpu) {
  GpuDynamic& now = shared.gpu[gpu];
  LoseSettings(shared, gpu);
  RemoveMigInstances(shared, gpu);
  ClearVolatile(now);
  now.ecc_current.store(now.ecc_pending.load());
  now.mig_current.store(now.mig_pending.load());
  now.remap_pending.store(0);
  now.retired_pending.store(0);
  now.recovery_action.store(0);
  now.lost.store(0);
}

void ClearCounters(Shared& shared, unsigned gpu) {
  GpuDynamic& now = shared.gpu[gpu];
  ClearVolatile(now);
  for (auto& kind : now.ecc[1]) {
    for (Word64& counter : kind) counter.store(0);
  }
  for (Word32* counter :
       {&now.remapped_correctable, &now.remapped_uncorrectable, &now.remap_pending, &now.remap_failed,
        &now.retired_single_bit, &now.retired_double_bit, &now.retired_pending}) {
    counter->store(0);
  }
  now.sram_threshold.store(0);
}

void ClearFaults(Shared& shared, unsigned gpu) {
  for (unsigned i = 0; i < shared.gpus; ++i) {
    if (gpu != kAllGpus && gpu != i) continue;
    ClearReadings(shared.gpu[i]);
    shared.gpu[i].recovery_action.store(0);
    shared.gpu[i].nvlinks_down.store(0);
    shared.gpu[i].mig_needs_reset.store(0);
    shared.gpu[i].mig_create_fails_in.store(0);
    shared.gpu[i].mig_create_fails_for_good.store(0);
    shared.faults.allocation_fails_in[i].store(0);
    shared.faults.copy_fails_in[i].store(0);
    shared.faults.modules_fail[i].store(0);
  }
  shared.faults.loses_contexts.store(0);
  std::uint32_t active = 0;
  for (SlowCall& call : shared.faults.slow_calls) {
    if (gpu == kAllGpus || call.gpu.load() == gpu) call.active.store(0);
    if (call.active.load() != 0) ++active;
  }
  shared.faults.slow_calls_active.store(active);
  for (Refusal& refusal : shared.faults.refusals)
    if (gpu == kAllGpus || refusal.gpu.load() == gpu) refusal.active.store(0);
  shared.faults.change.fetch_add(1);
  FutexWakeAll(shared.faults.change);
}

std::optional<std::uint32_t> RefusalOf(Shared& shared, const char* function, unsigned gpu) {
  for (Refusal& refusal : shared.faults.refusals) {
    if (refusal.active.load() == 0) continue;
    if (refusal.gpu.load() != kAllGpus && refusal.gpu.load() != gpu) continue;
    if (refusal.function[0] != '\0' && std::strcmp(refusal.function, function) != 0) continue;
    if (refusal.nth.load() > 0 && !FaultStrikes(refusal.nth)) continue;
    const std::uint32_t status = refusal.status.load();
    if (refusal.for_good.load() == 0) refusal.active.store(0);
    return status;
  }
  return std::nullopt;
}

bool LosesContexts(Faults& faults) {
  std::uint64_t struck = faults.loses_contexts.load(std::memory_order_relaxed);
  return struck != 0 && struck == static_cast<std::uint64_t>(::getpid()) &&
         faults.loses_contexts.compare_exchange_strong(struck, 0);
}

bool FaultStrikes(Word64& countdown) {
  std::uint64_t left = countdown.load(std::memory_order_relaxed);
  while (left != 0) {
    if (countdown.compare_exchange_weak(left, left - 1)) return left == 1;
  }
  return false;
}

}  // namespace gpuman::sim
