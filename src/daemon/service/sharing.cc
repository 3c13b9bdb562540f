// What the share controller needs of the daemon.
#include <algorithm>
#include <boost/asio/post.hpp>

#include "daemon/service/service.h"
#include "daemon/sharing/share_controller.h"
#include "suspend/host_room.h"

namespace gpuman::daemon {

void Service::BeginSharing() {
  if (!shims_) return;
  ShareControllerHost& host = *this;
  share_controller_ = std::make_unique<ShareController>(core_.loop(), core_.clock(), host, *shims_,
                                                        suspend_controller_->movers(), core_.config().share);
  shims_->SetTransfer(
      [this](base::JobId job, base::ProcessId process, bool out, base::UntrustedSocket connection) {
        if (!share_controller_->PassOn(job, process, out, connection))
          suspend_controller_->PassOn(job, process, out, std::move(connection));
      });
  // Its slot is read in a round of its own: many may notify at once.
  shims_->SetNotify([this](base::JobId job, base::ProcessId) {
    boost::asio::post(core_.loop(), [this, job] {
      if (share_controller_) share_controller_->OnNotify(job);
    });
  });
}

void Service::SetShare(share::SchedulerSettings settings) {
  share_controller_->SetSettings(std::move(settings));
  core_.SetUpLaunch();
}

std::vector<SharedJob> Service::SharedJobs() {
  std::vector<SharedJob> shared;
  for (const auto* const job : core_.jobs().Active()) {
    // One that is being stopped needs its turn to come to its end.
    const bool stops = job->state == jobs::JobState::kStopping;
    if (!job->share || job->mps || !job->preload || (job->state != jobs::JobState::kRunning && !stops) ||
        !shims_->Has(job->id))
      continue;
    const auto owner = OwnerOf(job->id);
    if (!owner) continue;
    const auto* const record = suspend_controller_->RecordOf(job->id);
    const bool lent = stops ? share_controller_->IsLent(job->id)
                            : record && record->phase != suspend::SuspensionPhase::kRunning;
    shared.push_back({job->id, *owner, job->weight, job->priority,
                      job->gpus.empty() ? core_.AllGpus() : job->gpus, lent, job->oversubscribe});
  }
  return shared;
}

base::Bytes Service::HostMemoryLeft() {
  const auto memory = suspend::ReadHostMemory();
  if (!memory) return base::Bytes{UINT64_MAX};
  base::Bytes used;
  for (const auto* const job : core_.jobs().Active()) {
    base::Bytes held;  // of one that is suspended, by its checkpoint as well
    const auto* const record = suspend_controller_->RecordOf(job->id);
    if (record && record->phase != suspend::SuspensionPhase::kRunning)
      for (const auto& [process, gpus] : record->held)
        for (const auto& [gpu, bytes] : gpus) held += bytes;
    used += std::max(held, HostMemoryOf(job->id));
  }
  return core_.config().suspend.host_memory.Of(memory->total) - suspend::Believed(*memory, used);
}

void Service::TellSharing(const share::action::Report& report) {
  if (const auto* const job = core_.jobs().Find(report.tenant))
    core_.Tell(*job, {report.kind, report.message, report.data});
}

}  // namespace gpuman::daemon
