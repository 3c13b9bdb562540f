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

void AddErrors(const gpu::GpuSample& sample, const Labels& labels, Exposition& out) {
  out.Add(MetricId::kDcgmPcieReplay, labels, sample.health.pcie_replays);
  out.Add(MetricId::kDcgmDbeVolatile, labels, sample.health.double_bit_errors);
  out.Add(MetricId::kDcgmSbeVolatile, labels, sample.details.corrected_volatile);
  out.Add(MetricId::kDcgmSbeAggregate, labels, sample.details.corrected_aggregate);
  out.Add(MetricId::kDcgmDbeAggregate, labels, sample.details.uncorrected_aggregate);
  out.Add(MetricId::kDcgmRetiredPending, labels, sample.health.retirement_pending);
  out.Add(MetricId::kDcgmUncorrectableRows, labels, sample.health.uncorrectable_remaps);
  out.Add(MetricId::kDcgmCorrectableRows, labels, sample.details.correctable_remaps);
  out.Add(MetricId::kDcgmRowRemapFailure, labels, sample.health.remap_failed);
}

void AddFramebuffer(const gpu::GpuSample& sample, const Labels& labels, Exposition& out) {
  const auto& memory = sample.memory;
  if (!memory || sample.taken_at == base::MonoTime{} || sample.state != gpu::GpuReachability::kOk) return;
  out.Add(MetricId::kDcgmFbUsed, labels, Mebibytes(memory->used));
  out.Add(MetricId::kDcgmFbFree, labels, Mebibytes(memory->free));
  out.Add(MetricId::kDcgmFbReserved, labels, Mebibytes(memory->reserved));
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
    out.Add(MetricId::kDcgmXidErrors, labels, xids ? xids->last : 0);
    if (sample.taken_at == base::MonoTime{} || sample.state != gpu::GpuReachability::kOk) continue;
    out.Add(MetricId::kDcgmGpuUtil, labels, sample.slow.utilization_gpu);
    out.Add(MetricId::kDcgmMemCopyUtil, labels, sample.slow.utilization_memory);
    out.Add(MetricId::kDcgmGpuTemp, labels, sample.slow.temperature_c);
    out.Add(MetricId::kDcgmPowerUsage, labels, sample.slow.power_w);
    if (sample.slow.energy) out.Add(MetricId::kDcgmEnergy, labels, sample.slow.energy->millijoules);
    if (!device.gpu.split) AddFramebuffer(sample, labels, out);
    out.Add(MetricId::kDcgmSmClock, labels, sample.details.sm_clock_mhz);
    out.Add(MetricId::kDcgmMemClock, labels, sample.details.memory_clock_mhz);
    out.Add(MetricId::kDcgmMemoryTemp, labels, sample.details.memory_temperature_c);
    out.Add(MetricId::kDcgmEncUtil, labels, sample.details.encoder_percent);
    out.Add(MetricId::kDcgmDecUtil, labels, sample.details.decoder_percent);
    AddErrors(sample, labels, out);
  }
}

}  // namespace gpuman::metrics
