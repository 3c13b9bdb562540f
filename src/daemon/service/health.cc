// What becomes of a fault: it is kept, told, and its GPU gets no new jobs; what runs there is told, moved or
// ended.
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/boot.h"
#include "daemon/health/kernel_log.h"
#include "daemon/service/service.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

const char* KindOf(health::Change change) {
  switch (change) {
    case health::Change::kRaised:
      return "gpu_fault";
    case health::Change::kCleared:
      return "gpu_fault_over";
    case health::Change::kAcknowledged:
      return "gpu_fault_acknowledged";
    case health::Change::kTold:
      return "gpu_xid";
  }
  return "gpu_fault";
}

std::string TextOf(const health::Notice& notice) {
  std::string text = notice.fault.text;
  if (notice.change == health::Change::kCleared) return fmt::format("over: {} ({})", text, notice.why);
  if (notice.change == health::Change::kAcknowledged)
    return fmt::format("acknowledged {}: {}", notice.why, text);
  const auto advice = AdviceOf(notice.fault.action);
  return advice.empty() ? text : fmt::format("{}; {}", text, advice);
}

}  // namespace

void Service::BeginHealth(const jobs::SettingRows& settings) {
  HealthHost& host = *this;
  health_ = std::make_unique<HealthMonitors>(core_.clock(), host, base::BootId());
  health_->SetSettings(core_.config().health.monitor);
  health_->Recall(settings);
}

void Service::ReadKernelLog() {
  if (kernel_log_read_ || core_.whole_gpus().gpus.empty()) return;
  kernel_log_read_ = true;
  if (core_.config().health.kernel_log.empty()) return;
  const auto xids = ReadKernelXids(core_.config().health.kernel_log);
  if (!xids) return spdlog::info("errors of before this start are not known: {}", xids.error().message);
  health_->OnKernelLog(*xids, core_.whole_gpus());
}

void Service::KeepHealth(jobs::SettingRows entries) {
  jobs::Batch batch;
  batch.settings = std::move(entries);
  core_.store().Submit(std::move(batch), [](base::Result<> written) {
    if (!written)
      spdlog::warn("what is known of a GPU's health could not be stored: {}", written.error().message);
  });
}

void Service::OnHealth(const std::string& uuid, const health::Notice& notice) {
  const auto* const status = core_.guard().Find(uuid);
  const auto gpu = status ? fmt::format("GPU {}", status->gpu.index) : "GPU " + uuid;
  const auto text = fmt::format("{}: {}", gpu, TextOf(notice));
  jobs::Event event;
  event.at = core_.clock().Wall();
  event.kind = KindOf(notice.change);
  event.gpu = uuid;
  event.message = text;
  if (notice.pid) event.data["pid"] = *notice.pid;
  event.data["count"] = static_cast<std::int64_t>(notice.fault.count);
  // The guard tells of GPUs that cannot be talked to, and of their return.
  if (notice.fault.code != "lost" && notice.fault.code != "silent") {
    spdlog::warn("{}: {}", event.kind, text);
    core_.events().Add(std::move(event));
  }
  if (dispatcher_) dispatcher_->OnInventory();
  const bool is_news = notice.change == health::Change::kRaised || notice.change == health::Change::kTold;
  if (!is_news || !status) return;
  for (const auto job : JobsOn(*status)) core_.jobs().Note(job, text);
  if (notice.change == health::Change::kRaised && health_->IsUnhealthy(uuid)) LeaveUnhealthy(*status, text);
}

std::vector<base::JobId> Service::JobsOn(const guard::GpuStatus& status) const {
  std::set<base::JobId> jobs;
  for (const auto& [uuid, one] : core_.guard().Statuses()) {
    if (&one != &status && (!one.gpu.mig || one.gpu.mig->parent != status.gpu.uuid)) continue;
    for (const auto& process : one.processes)
      if (process.job) jobs.insert(*process.job);
  }
  return {jobs.begin(), jobs.end()};
}

void Service::LeaveUnhealthy(const guard::GpuStatus& status, const std::string& why) {
  if (core_.config().health.on_unhealthy == OnUnhealthy::kTell) return;
  for (const auto id : JobsOn(status)) {
    const auto* const job = core_.jobs().Find(id);
    if (!job || job->state != jobs::JobState::kRunning) continue;
    if (core_.config().health.on_unhealthy == OnUnhealthy::kEnd) {
      core_.jobs().Announce(id, {"gpu_unhealthy", why});
      (void)core_.jobs().Signal(id, SIGKILL);
      continue;
    }
    if (status.gpu.split) {
      core_.jobs().Note(id,
                        "it stays on the unhealthy GPU: a job in an instance (MIG) cannot be moved, as the "
                        "driver's checkpoint does not know instances");
      continue;
    }
    const auto other = HealthyBeside(status.gpu);
    if (!other) {
      core_.jobs().Note(id, "there is no other healthy GPU of its kind to go to");
      continue;
    }
    suspension_.MoveTo(id, *other, [this, id](base::Result<> moved) {
      if (!moved) core_.jobs().Note(id, "it stays on the unhealthy GPU: " + moved.error().message);
    });
  }
}

// Of the same kind, with no job on it; the one with the most free memory.
std::optional<std::string> Service::HealthyBeside(const gpu::Gpu& gpu) const {
  std::optional<std::string> best;
  base::Bytes most{};
  for (const auto& [uuid, status] : core_.guard().Statuses()) {
    if (uuid == gpu.uuid || status.gpu.name != gpu.name || status.sample.state != gpu::GpuState::kOk ||
        health_->IsUnhealthy(uuid) || status.gpu.split || !JobsOn(status).empty() ||
        books_.state.drained.contains(uuid))
      continue;
    const base::Bytes free = status.sample.memory ? status.sample.memory->free : base::Bytes{};
    if (free <= most) continue;
    most = free;
    best = uuid;
  }
  return best;
}

}  // namespace gpuman::daemon
