// Writes GPUs under the names, labels and units of dcgm-exporter, for the dashboards that use them.
#include <algorithm>
#include <set>

#include "metrics/parts.h"

namespace gpuman::metrics {
namespace {

std::uint64_t Mebibytes(base::Bytes bytes) { return bytes.count >> 20; }

Labels DcgmLabels(const Snapshot& snapshot, const gpu::Gpu& gpu) {
  const auto index = std::to_string(gpu.index);
  return Labels("gpu", index)
      .Add("UUID", gpu.uuid)
      .Add("pci_bus_id", gpu.pci_bus_id)
      .Add("device", "nvidia" + index)
      .Add("modelName", gpu.name)
      .Add("Hostname", snapshot.host)
      .Add("DCGM_FI_DRIVER_VERSION", snapshot.driver_version);
}

void AddErrors(const gpu::Sample& sample, const Labels& labels, Exposition& out) {
  out.Add(Metric::kDcgmPcieReplay, labels, sample.health.pcie_replays);
  out.Add(Metric::kDcgmDbeVolatile, labels, sample.health.double_bit_errors);
  out.Add(Metric::kDcgmSbeVolatile, labels, sample.details.corrected_volatile);
  out.Add(Metric::kDcgmSbeAggregate, labels, sample.details.corrected_aggregate);
  out.Add(Metric::kDcgmDbeAggregate, labels, sample.details.uncorrected_aggregate);
  out.Add(Metric::kDcgmRetiredPending, labels, sample.health.retirement_pending);
  out.Add(Metric::kDcgmUncorrectableRows, labels, sample.health.uncorrectable_remaps);
  out.Add(Metric::kDcgmCorrectableRows, labels, sample.details.correctable_remaps);
  out.Add(Metric::kDcgmRowRemapFailure, labels, sample.health.remap_failed);
}

void AddFramebuffer(const gpu::Sample& sample, const Labels& labels, Exposition& out) {
  const auto& memory = sample.memory;
  if (!memory || sample.taken_at == base::MonoTime{} || sample.state != gpu::GpuState::kOk) return;
  out.Add(Metric::kDcgmFbUsed, labels, Mebibytes(memory->used));
  out.Add(Metric::kDcgmFbFree, labels, Mebibytes(memory->free));
  out.Add(Metric::kDcgmFbReserved, labels, Mebibytes(memory->reserved));
}

// Writes a GPU instance, with the labels of its GPU and two of its own. Compute instances that share a GPU
// instance are written once: `told` has the instances that were written.
void AddInstance(const Snapshot& snapshot, const Device& device, std::set<std::string>& told,
                 Exposition& out) {
  const gpu::Instance& part = *device.gpu.mig;
  const auto parent = std::find_if(snapshot.devices.begin(), snapshot.devices.end(),
                                   [&](const Device& each) { return each.gpu.uuid == part.parent; });
  if (parent == snapshot.devices.end()) return;
  const auto id = std::to_string(part.gpu_instance);
  if (!told.insert(part.parent + "/" + id).second) return;
  // Takes "3g.71gb" from "1c.3g.71gb".
  const auto share = part.profile.find("c.");
  const auto profile = share == std::string::npos ? part.profile : part.profile.substr(share + 2);
  const auto labels = DcgmLabels(snapshot, parent->gpu).Add("GPU_I_PROFILE", profile).Add("GPU_I_ID", id);
  AddFramebuffer(*device.sample, labels, out);
}

}  // namespace

void AddDcgm(const Snapshot& snapshot, Exposition& out) {
  std::set<std::string> told;
  for (const auto& device : snapshot.devices) {
    if (device.gpu.mig) {
      AddInstance(snapshot, device, told, out);
      continue;
    }
    const auto& sample = *device.sample;
    const auto labels = DcgmLabels(snapshot, device.gpu);
    const auto* const xids = snapshot.counters.XidsOf(device.gpu.uuid);
    out.Add(Metric::kDcgmXidErrors, labels, xids ? xids->last : 0);
    if (sample.taken_at == base::MonoTime{} || sample.state != gpu::GpuState::kOk) continue;
    out.Add(Metric::kDcgmGpuUtil, labels, sample.slow.utilization_gpu);
    out.Add(Metric::kDcgmMemCopyUtil, labels, sample.slow.utilization_memory);
    out.Add(Metric::kDcgmGpuTemp, labels, sample.slow.temperature_c);
    out.Add(Metric::kDcgmPowerUsage, labels, sample.slow.power_w);
    if (sample.slow.energy) out.Add(Metric::kDcgmEnergy, labels, sample.slow.energy->millijoules);
    if (!device.gpu.split) AddFramebuffer(sample, labels, out);
    out.Add(Metric::kDcgmSmClock, labels, sample.details.sm_clock_mhz);
    out.Add(Metric::kDcgmMemClock, labels, sample.details.memory_clock_mhz);
    out.Add(Metric::kDcgmMemoryTemp, labels, sample.details.memory_temperature_c);
    out.Add(Metric::kDcgmEncUtil, labels, sample.details.encoder_percent);
    out.Add(Metric::kDcgmDecUtil, labels, sample.details.decoder_percent);
    AddErrors(sample, labels, out);
  }
}

}  // namespace gpuman::metrics
