#include "daemon/health/views.h"

#include <algorithm>

namespace gpuman::daemon {
namespace {

api::FaultView FaultViewOf(const health::HealthFault& fault) {
  return {fault.code,
          std::string(ToString(fault.state)),
          std::string(ToString(fault.action)),
          fault.text,
          fault.since,
          fault.last,
          fault.count,
          fault.acknowledged};
}

void Fill(api::GpuHealth& view, const health::Monitor* monitor, const gpu::GpuSample& sample) {
  view.health = HealthViewOf(monitor, sample);
  if (!monitor) return;
  const auto verdict = monitor->verdict();
  view.action = ToString(verdict.action);
  view.advice = AdviceOf(verdict.action);
  for (const auto& fault : monitor->faults()) view.faults.push_back(FaultViewOf(fault));
}

}  // namespace

api::HealthView HealthViewOf(const health::Monitor* monitor, const gpu::GpuSample& sample) {
  if (!monitor || sample.taken_at == base::MonoTime{}) return {"unknown", {}};
  api::HealthView view{std::string(ToString(monitor->verdict().state)), {}};
  for (const auto& fault : monitor->faults())
    if (!fault.acknowledged) view.reasons.push_back(fault.text);
  return view;
}

api::HealthReport HealthReportOf(const HealthMonitors& monitors,
                                 const std::map<std::string, guard::GpuStatus>& gpus) {
  api::HealthReport report;
  for (const auto& [uuid, status] : gpus) {
    if (status.gpu.mig) continue;
    api::GpuHealth view{static_cast<int>(status.gpu.index), uuid, status.gpu.name, {}, "none", "", {}};
    Fill(view, monitors.Find(uuid), status.sample);
    report.gpus.push_back(std::move(view));
  }
  std::sort(report.gpus.begin(), report.gpus.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  gpu::GpuSample looked_at;
  looked_at.taken_at = base::MonoTime::max();
  for (const auto& uuid : monitors.Missing()) {
    if (gpus.contains(uuid)) continue;
    api::GpuHealth view{std::nullopt, uuid, "", {}, "none", "", {}};
    const auto* const monitor = monitors.Find(uuid);
    const auto faults = monitor->faults();
    const bool is_gone =
        std::any_of(faults.begin(), faults.end(), [](const auto& fault) { return fault.code == "missing"; });
    Fill(view, monitor, is_gone ? looked_at : gpu::GpuSample{});
    report.gpus.push_back(std::move(view));
  }
  return report;
}

}  // namespace gpuman::daemon
