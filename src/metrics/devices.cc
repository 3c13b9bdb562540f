// Writes GPUs under gpuman's own names.
#include <array>

#include "metrics/parts.h"

namespace gpuman::metrics {
namespace {

constexpr double kHertz = 1e6;  // a MHz

template <typename T>
std::optional<double> Times(const std::optional<T>& value, double factor) {
  return value ? std::optional(static_cast<double>(*value) * factor) : std::nullopt;
}

void AddHealth(const Device& device, const Labels& labels, Exposition& out) {
  for (const char* const state : {"healthy", "degraded", "unhealthy", "unknown"})
    out.Add(MetricId::kGpuHealthState, labels.With("state", state), device.health == state);
  for (const auto& code : device.faults) out.Add(MetricId::kGpuFault, labels.With("fault", code), 1);
}

void AddInfo(const gpu::Gpu& gpu, const Labels& labels, const std::string& driver_version, Exposition& out) {
  auto info = Labels(labels)
                  .Add("name", gpu.name)
                  .Add("pci_bus_id", gpu.pci_bus_id)
                  .Add("driver_version", driver_version);
  if (gpu.mig) info.Add("profile", gpu.mig->profile).Add("parent", gpu.mig->parent);
  out.Add(MetricId::kGpuInfo, info, 1);
}

void AddMemory(const gpu::GpuSample& sample, const Labels& labels, Exposition& out) {
  if (const auto& memory = sample.memory) {
    out.Add(MetricId::kGpuMemoryUsed, labels, memory->used.count);
    out.Add(MetricId::kGpuMemoryFree, labels, memory->free.count);
    out.Add(MetricId::kGpuMemoryReserved, labels, memory->reserved.count);
  }
  if (sample.processes) out.Add(MetricId::kGpuProcesses, labels, sample.processes->size());
}

void AddReadings(const gpu::GpuSample& sample, const Labels& labels, Exposition& out) {
  const auto& slow = sample.slow;
  out.Add(MetricId::kGpuUtilization, labels, Times(slow.utilization_gpu, 0.01));
  out.Add(MetricId::kGpuTemperature, labels, slow.temperature_c);
  out.Add(MetricId::kGpuPower, labels, slow.power_w);
  if (slow.energy)
    out.Add(MetricId::kGpuEnergy, labels, static_cast<double>(slow.energy->millijoules) / 1000);
  out.Add(MetricId::kGpuSlowed, labels, sample.health.hardware_slowdown);
  out.Add(MetricId::kGpuSmClock, labels, Times(sample.details.sm_clock_mhz, kHertz));
  out.Add(MetricId::kGpuMemoryClock, labels, Times(sample.details.memory_clock_mhz, kHertz));
  out.Add(MetricId::kGpuPcieTransmit, labels, sample.details.pcie_sent);
  out.Add(MetricId::kGpuPcieReceive, labels, sample.details.pcie_received);
}

}  // namespace

void AddDevices(const Snapshot& snapshot, Exposition& out) {
  for (const auto& device : snapshot.devices) {
    const auto labels = LabelsOf(gpu::NumberOf(device.gpu), device.gpu.uuid);
    AddInfo(device.gpu, labels, snapshot.driver_version, out);
    // The memory of a split GPU is written for its instances only, so that sums over all rows count it once.
    if (!device.gpu.split) {
      out.Add(MetricId::kGpuMemoryTotal, labels, device.gpu.memory.count);
      out.Add(MetricId::kGpuReserve, labels, device.reserve.count);
    }
    if (!device.gpu.mig) AddHealth(device, labels, out);
    out.Add(MetricId::kGpuDrained, labels, device.drained);
    if (const auto* const xids = snapshot.counters.XidsOf(device.gpu.uuid))
      for (const auto& [number, count] : xids->by_number)
        out.Add(MetricId::kGpuXids, labels.With("xid", std::to_string(number)), count);
    // Before the first sample there are no values.
    if (device.sample->taken_at == base::MonoTime{}) continue;
    const bool up = device.sample->state == gpu::GpuReachability::kOk;
    out.Add(MetricId::kGpuUp, labels, up);
    if (!up) continue;
    AddReadings(*device.sample, labels, out);
    for (const auto& [part, joules] : device.energy_parts)
      out.Add(MetricId::kGpuEnergyPart, labels.With("part", part), joules);
    if (!device.gpu.split) AddMemory(*device.sample, labels, out);
    if (!device.gpu.split) out.Add(MetricId::kMoversUsed, labels, device.movers.count);
    for (const auto& [user, use] : device.unmanaged) {
      out.Add(MetricId::kUnmanagedUsed, labels.With("user", user), use.memory.count);
      out.Add(MetricId::kIdleUsed, labels.With("user", user), use.idle.count);
    }
  }
}

}  // namespace gpuman::metrics
