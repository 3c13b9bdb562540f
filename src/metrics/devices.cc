// GPUs, under names of our own.
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
    out.Add(Metric::kGpuHealthState, labels.With("state", state), device.health == state);
  for (const auto& code : device.faults) out.Add(Metric::kGpuFault, labels.With("fault", code), 1);
  out.Add(Metric::kGpuDrained, labels, device.drained);
}

void AddReadings(const gpu::Sample& sample, const Labels& labels, Exposition& out) {
  const auto& slow = sample.slow;
  out.Add(Metric::kGpuUtilization, labels, Times(slow.utilization_gpu, 0.01));
  out.Add(Metric::kGpuTemperature, labels, slow.temperature_c);
  out.Add(Metric::kGpuPower, labels, slow.power_w);
  if (slow.energy) out.Add(Metric::kGpuEnergy, labels, static_cast<double>(slow.energy->millijoules) / 1000);
  out.Add(Metric::kGpuSlowed, labels, sample.health.hardware_slowdown);
  out.Add(Metric::kGpuSmClock, labels, Times(sample.details.sm_clock_mhz, kHertz));
  out.Add(Metric::kGpuMemoryClock, labels, Times(sample.details.memory_clock_mhz, kHertz));
  out.Add(Metric::kGpuPcieTransmit, labels, sample.details.pcie_sent);
  out.Add(Metric::kGpuPcieReceive, labels, sample.details.pcie_received);
  if (const auto& memory = sample.memory) {
    out.Add(Metric::kGpuMemoryUsed, labels, memory->used.count);
    out.Add(Metric::kGpuMemoryFree, labels, memory->free.count);
    out.Add(Metric::kGpuMemoryReserved, labels, memory->reserved.count);
  }
  if (sample.processes) out.Add(Metric::kGpuProcesses, labels, sample.processes->size());
}

}  // namespace

void AddDevices(const Snapshot& snapshot, Exposition& out) {
  for (const auto& device : snapshot.devices) {
    const auto labels = LabelsOf(device.gpu.index, device.gpu.uuid);
    out.Add(Metric::kGpuInfo,
            Labels(labels)
                .Add("name", device.gpu.name)
                .Add("pci_bus_id", device.gpu.pci_bus_id)
                .Add("driver_version", snapshot.driver_version),
            1);
    out.Add(Metric::kGpuMemoryTotal, labels, device.gpu.memory.count);
    out.Add(Metric::kGpuReserve, labels, device.reserve.count);
    AddHealth(device, labels, out);
    if (const auto* const xids = snapshot.tally.XidsOf(device.gpu.uuid))
      for (const auto& [number, count] : xids->by_number)
        out.Add(Metric::kGpuXids, labels.With("xid", std::to_string(number)), count);
    // Before the first look nothing is known.
    if (device.sample->taken_at == base::MonoTime{}) continue;
    const bool up = device.sample->state == gpu::GpuState::kOk;
    out.Add(Metric::kGpuUp, labels, up);
    if (!up) continue;
    AddReadings(*device.sample, labels, out);
    out.Add(Metric::kMoversUsed, labels, device.movers.count);
    for (const auto& [user, use] : device.unmanaged) {
      out.Add(Metric::kUnmanagedUsed, labels.With("user", user), use.memory.count);
      out.Add(Metric::kIdleUsed, labels.With("user", user), use.idle.count);
    }
  }
}

}  // namespace gpuman::metrics
