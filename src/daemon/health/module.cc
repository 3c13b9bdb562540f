#include "daemon/health/module.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <set>
#include <utility>

#include "base/boot.h"
#include "daemon/health/kernel_log.h"
#include "daemon/health/views.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

const char* KindOf(health::FaultChange change) {
  switch (change) {
    case health::FaultChange::kRaised:
      return "gpu_fault";
    case health::FaultChange::kCleared:
      return "gpu_fault_over";
    case health::FaultChange::kAcknowledged:
      return "gpu_fault_acknowledged";
    case health::FaultChange::kReported:
      return "gpu_xid";
  }
  return "gpu_fault";
}

std::string MessageOf(const health::HealthNotice& notice) {
  std::string text = notice.fault.text;
  if (notice.change == health::FaultChange::kCleared) return fmt::format("over: {} ({})", text, notice.why);
  if (notice.change == health::FaultChange::kAcknowledged)
    return fmt::format("acknowledged {}: {}", notice.why, text);
  const auto advice = AdviceOf(notice.fault.action);
  return advice.empty() ? text : fmt::format("{}; {}", text, advice);
}

}  // namespace

HealthModule::HealthModule(Core& core, SuspensionModule& suspension)
    : core_(core),
      suspension_(suspension),
      monitors_(
          core.clock(),
          {[this](jobs::SettingRows entries) { Keep(std::move(entries)); },
           [this](const std::string& gpu, const health::HealthNotice& notice) { OnNotice(gpu, notice); }},
          base::BootId()) {
  core_.sampling().on_xid.Connect(
      [this](const gpu::XidEvent& seen) { monitors_.OnXid(seen.uuid, seen.xid); });
}

// A reboot ends faults, and the module tells that.
void HealthModule::Restore(jobs::StoreContents& contents) {
  Reconfigure();
  monitors_.Recall(contents.settings);
}

void HealthModule::Reconfigure() { monitors_.SetSettings(core_.config().health.monitor); }

bool HealthModule::IsUnhealthy(const gpu::Gpu& gpu) const {
  return monitors_.IsUnhealthy(gpu::WholeGpuOf(gpu));
}

std::optional<std::string> HealthModule::WhyUnhealthy(const gpu::Gpu& gpu) const {
  const auto* const monitor = IsUnhealthy(gpu) ? monitors_.Find(gpu::WholeGpuOf(gpu)) : nullptr;
  if (!monitor) return std::nullopt;
  for (const auto& fault : monitor->faults())
    if (!fault.acknowledged && fault.state == health::HealthState::kUnhealthy) return fault.text;
  return std::string();
}

void HealthModule::OnInventory() {
  monitors_.OnInventory(core_.whole_gpus());
  ReadKernelLog();
}

void HealthModule::OnSample(const gpu::GpuSample& sample) {
  if (!gpu::IsInstance(sample.uuid)) monitors_.OnSample(sample);
}

void HealthModule::ReadKernelLog() {
  if (kernel_log_read_ || core_.whole_gpus().gpus.empty()) return;
  kernel_log_read_ = true;
  if (core_.config().health.kernel_log.empty()) return;
  const auto xids = ReadKernelXids(core_.config().health.kernel_log);
  if (!xids) return spdlog::info("errors of before this start are not known: {}", xids.error().message);
  monitors_.OnKernelLog(*xids, core_.whole_gpus());
}

void HealthModule::Keep(jobs::SettingRows entries) {
  core_.Keep(std::move(entries), [](base::Result<> written) {
    if (!written)
      spdlog::warn("what is known of a GPU's health could not be stored: {}", written.error().message);
  });
}

void HealthModule::OnNotice(const std::string& uuid, const health::HealthNotice& notice) {
  const auto* const status = core_.guard().Find(uuid);
  const auto gpu = status ? fmt::format("GPU {}", status->gpu.index) : "GPU " + uuid;
  const auto text = fmt::format("{}: {}", gpu, MessageOf(notice));
  Tell(uuid, notice, text);
  on_change();
  const bool is_news =
      notice.change == health::FaultChange::kRaised || notice.change == health::FaultChange::kReported;
  if (!is_news || !status) return;
  for (const auto job : JobsOn(*status)) core_.jobs().Note(job, text);
  if (notice.change == health::FaultChange::kRaised && monitors_.IsUnhealthy(uuid))
    LeaveUnhealthy(*status, text);
}

void HealthModule::Tell(const std::string& uuid, const health::HealthNotice& notice,
                        const std::string& text) {
  // The guard tells of GPUs that the driver does not reach, and of their return.
  if (notice.fault.code == "lost" || notice.fault.code == "silent") return;
  jobs::Event event;
  event.at = core_.clock().Wall();
  event.kind = KindOf(notice.change);
  event.gpu = uuid;
  event.message = text;
  if (notice.pid) event.data["pid"] = *notice.pid;
  event.data["count"] = static_cast<std::int64_t>(notice.fault.count);
  if (notice.fault.state == health::HealthState::kUnhealthy) event.data["unhealthy"] = 1;
  spdlog::warn("{}: {}", event.kind, text);
  core_.events().Add(std::move(event));
}

std::vector<base::JobId> HealthModule::JobsOn(const guard::GpuStatus& status) const {
  std::set<base::JobId> jobs;
  for (const auto& [uuid, one] : core_.guard().Statuses()) {
    if (&one != &status && (!one.gpu.mig || one.gpu.mig->parent != status.gpu.uuid)) continue;
    for (const auto& process : one.processes)
      if (process.job) jobs.insert(*process.job);
  }
  return {jobs.begin(), jobs.end()};
}

void HealthModule::LeaveUnhealthy(const guard::GpuStatus& status, const std::string& why) {
  if (core_.config().health.on_unhealthy == OnUnhealthy::kTell) return;
  for (const auto id : JobsOn(status)) {
    const auto* const job = core_.jobs().Find(id);
    if (job && job->state == spec::JobState::kRunning) Leave(id, status, why);
  }
}

void HealthModule::Leave(base::JobId id, const guard::GpuStatus& status, const std::string& why) {
  auto& jobs = core_.jobs();
  if (core_.config().health.on_unhealthy == OnUnhealthy::kEnd) {
    jobs.Announce(id, {"gpu_unhealthy", why});
    (void)jobs.Signal(id, SIGKILL);
    return;
  }
  if (status.gpu.split)
    return jobs.Note(id,
                     "it stays on the unhealthy GPU: a job in an instance (MIG) cannot be moved, as the "
                     "driver's checkpoint does not know instances");
  const auto other = HealthyBeside(status.gpu);
  if (!other) return jobs.Note(id, "there is no other healthy GPU of its kind to go to");
  suspension_.MoveTo(id, *other, [&jobs, id](const base::Result<>& moved) {
    if (!moved) jobs.Note(id, "it stays on the unhealthy GPU: " + moved.error().message);
  });
}

// Finds another GPU of the same kind with no job on it: the one with the most free memory.
std::optional<std::string> HealthModule::HealthyBeside(const gpu::Gpu& gpu) const {
  std::optional<std::string> best;
  base::Bytes most{};
  for (const auto& [uuid, status] : core_.guard().Statuses()) {
    if (uuid == gpu.uuid || status.gpu.name != gpu.name || status.sample.state != gpu::GpuReachability::kOk ||
        monitors_.IsUnhealthy(uuid) || status.gpu.split || !JobsOn(status).empty() || is_drained_(uuid))
      continue;
    const base::Bytes free = status.sample.memory ? status.sample.memory->free : base::Bytes{};
    if (free <= most) continue;
    most = free;
    best = uuid;
  }
  return best;
}

// --- What is shown ---

void HealthModule::Show(const guard::GpuStatus& status, api::GpuView& view) const {
  view.health = HealthViewOf(monitors_.Find(gpu::WholeGpuOf(status.gpu)), status.sample);
}

void HealthModule::AddMetrics(metrics::Snapshot& snapshot) {
  for (auto& device : snapshot.devices) {
    const auto* const monitor = monitors_.Find(device.gpu.uuid);
    device.health = HealthViewOf(monitor, *device.sample).state;
    if (!monitor) continue;
    for (const auto& fault : monitor->faults())
      if (!fault.acknowledged) device.faults.push_back(fault.code);
  }
}

}  // namespace gpuman::daemon
