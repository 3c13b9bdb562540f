// What the sharer needs of the daemon.
#include <algorithm>
#include <boost/asio/post.hpp>

#include "daemon/service/service.h"
#include "daemon/sharing/sharer.h"
#include "suspend/host_room.h"

namespace gpuman::daemon {

void Service::BeginSharing() {
  if (!shims_) return;
  SharerHost& host = *this;
  sharer_ = std::make_unique<Sharer>(loop_, clock_, host, *shims_, suspender_->movers(), config_.share);
  shims_->SetTransfer(
      [this](base::JobId job, base::ProcessId process, bool out, base::GuestSocket connection) {
        if (!sharer_->PassOn(job, process, out, connection))
          suspender_->PassOn(job, process, out, std::move(connection));
      });
  // Its slot is read in a round of its own: many may ring at once.
  shims_->SetBell([this](base::JobId job, base::ProcessId) {
    boost::asio::post(loop_, [this, job] {
      if (sharer_) sharer_->OnBell(job);
    });
  });
}

void Service::SetShare(share::Settings settings) {
  config_.share = std::move(settings);
  supervisor_->SetOptions(SupervisorOptionsOf(config_));
  sharer_->SetSettings(config_.share);
}

std::vector<SharedJob> Service::SharedJobs() {
  std::vector<SharedJob> shared;
  for (const auto* const job : supervisor_->Active()) {
    // One that is being stopped needs its turn to come to its end.
    const bool stops = job->state == jobs::JobState::kStopping;
    if (!job->share || job->mps || !job->preload || (job->state != jobs::JobState::kRunning && !stops) ||
        !shims_->Has(job->id) || released_.contains(job->id))
      continue;
    const auto owner = OwnerOf(job->id);
    if (!owner) continue;
    const auto* const record = suspender_->RecordOf(job->id);
    const bool lent = stops ? sharer_->IsLent(job->id) : record && record->phase != suspend::Phase::kRunning;
    shared.push_back({job->id, *owner, job->weight, job->priority, job->gpus.empty() ? AllGpus() : job->gpus,
                      lent, job->oversubscribe});
  }
  return shared;
}

base::Bytes Service::HostMemoryLeft() {
  const auto memory = suspend::ReadHostMemory();
  if (!memory) return base::Bytes{UINT64_MAX};
  base::Bytes used;
  for (const auto* const job : supervisor_->Active()) {
    base::Bytes held;  // of one that is suspended, by its checkpoint as well
    const auto* const record = suspender_->RecordOf(job->id);
    if (record && record->phase != suspend::Phase::kRunning)
      for (const auto& [process, gpus] : record->held)
        for (const auto& [gpu, bytes] : gpus) held += bytes;
    used += std::max(held, HostMemoryOf(job->id));
  }
  return config_.suspend.host_memory.Of(memory->total) - suspend::Believed(*memory, used);
}

void Service::TellSharing(const share::action::Report& report) {
  if (const auto* const job = supervisor_->Find(report.tenant))
    OnNotice(*job, {report.kind, report.message, report.data});
}

}  // namespace gpuman::daemon
