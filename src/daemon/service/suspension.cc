// What the suspend controller needs of the daemon.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/service/service.h"
#include "daemon/sharing/share_controller.h"
#include "daemon/stopped.h"
#include "daemon/suspension/suspension_views.h"

namespace gpuman::daemon {

base::Result<SuspendController*> Service::SuspendControllerFor(const jobs::Job& job) {
  if (job.state != jobs::JobState::kRunning)
    return base::Fail(
        base::ErrorCode::kConflict,
        fmt::format("job {} '{}' is not running: it is {}", job.id.value, job.tag, jobs::ToString(job.state)),
        jobs::IsEnded(job) ? fmt::format("gpuman restart {} starts it again", job.tag) : std::string());
  const auto gpus = job.gpus.empty() && !job.queued ? core_.AllGpus() : job.gpus;
  if (std::any_of(gpus.begin(), gpus.end(), gpu::IsInstance))
    return base::Fail(
        base::ErrorCode::kNotSupported,
        fmt::format("job {} '{}' is in an instance of a GPU (MIG): the driver's checkpoint does "
                    "not know those, so it can be neither suspended nor moved",
                    job.id.value, job.tag));
  return suspend_controller_.get();
}

std::vector<suspend::ProcessView> Service::ProcessesOf(base::JobId id,
                                                       const suspend::SuspensionRecord& record) {
  const auto* job = core_.jobs().Find(id);
  if (!job) return {};
  auto slots = shims_ ? shims_->SlotStatusesOf(id) : std::vector<ledger::SlotStatus>{};
  auto held = record.held;
  std::erase_if(held, [](const auto& entry) { return !base::IsAlive(entry.first); });
  auto views = SuspensionView(id, core_.guard().Statuses(), slots, held,
                              job->gpus.empty() ? core_.AllGpus() : job->gpus,
                              [this](const std::string& gpu) { return ContextCostOf(gpu); });
  for (auto& view : views) view.stopped = IsStopped(view.id).has_value();
  return views;
}

std::vector<suspend::GpuView> Service::Gpus() {
  std::vector<suspend::GpuView> gpus;
  for (const auto& gpu : core_.whole_gpus().gpus) gpus.push_back({gpu.uuid, gpu.name});
  return gpus;
}

suspend::BytesByGpu Service::FreeMemory() {
  suspend::BytesByGpu free;
  for (const auto& [uuid, status] : core_.guard().Statuses()) {
    if (!status.sample.memory) continue;
    const base::Bytes reserve = core_.guard().ReserveOf(uuid);
    const base::Bytes there = core_.guard().FreeOf(uuid);
    free[uuid] = there > reserve ? there - reserve : base::Bytes{};
  }
  return free;
}

std::map<std::string, base::MonoTime> Service::SampledAt() {
  std::map<std::string, base::MonoTime> times;
  for (const auto& [uuid, status] : core_.guard().Statuses()) times[uuid] = status.sample.taken_at;
  return times;
}

base::Result<> Service::Order(base::JobId job, base::ProcessId process, const ledger::Command& command) {
  if (!shims_) return base::Fail(base::ErrorCode::kNotSupported, "there is no shim");
  // The ledger says who sits in it; that this is a process of the job is for attribution to say.
  if (core_.guard().JobOf(process.pid).job != job)
    return base::Fail(base::ErrorCode::kNotFound, "the process is not of this job");
  return shims_->Order(job, process, command);
}

std::optional<suspend::MoverUser> Service::OwnerOf(base::JobId id) {
  const auto* job = core_.jobs().Find(id);
  if (!job) return std::nullopt;
  suspend::MoverUser owner{job->owner->uid, job->owner->gid, job->owner->groups};
  // All containers are root's jobs, and only those of one namespace trust each other.
  if (job->container) owner.trust = "kubernetes namespace " + job->container->name_space;
  const auto gpus = job->gpus.empty() && !job->queued ? core_.AllGpus() : job->gpus;
  if (gpus.size() == 1 && gpu::IsInstance(gpus.front())) owner.instance = gpus.front();
  return owner;
}

std::vector<Movable> Service::MovableMemory() {
  std::vector<Movable> movable;
  if (!shims_) return movable;
  // Where jobs share, the mover is there before the first of them has to make room.
  constexpr base::Bytes kFirst = base::MiB(256);
  const auto jobs = core_.jobs().Active();
  const bool shared = std::count_if(jobs.begin(), jobs.end(), [](const jobs::Job* job) {
                        return job->share && job->state == jobs::JobState::kRunning;
                      }) > 1;
  for (const auto* const known : jobs) {
    const auto& job = *known;
    if (job.state != jobs::JobState::kRunning || !shims_->Has(job.id)) continue;
    base::Bytes bytes;
    for (const auto& slot : shims_->SlotStatusesOf(job.id)) bytes += slot.evictable + slot.evicted;
    if (shared && job.share) bytes = std::max(bytes, kFirst);
    const auto owner = OwnerOf(job.id);
    if (!owner || bytes <= suspend::SuspensionSettings{}.worth_evicting) continue;
    movable.push_back({job.id, *owner, job.gpus.empty() ? std::string() : job.gpus.front(), bytes});
  }
  return movable;
}

base::Bytes Service::ContextCostOf(const std::string& uuid) {
  const auto& inventory = core_.inventory();
  for (const auto& gpu : inventory.gpus)
    if (gpu.uuid == uuid)
      return context_costs_.Of(gpu.name, inventory.driver_version).value_or(base::Bytes{});
  return {};
}

int Service::PriorityOf(base::JobId id) {
  const auto* job = core_.jobs().Find(id);
  return job ? job->priority : 0;
}

base::Bytes Service::HostMemoryOf(base::JobId job) {
  return shims_ ? shims_->HostMemoryOf(job) : base::Bytes{};
}

base::Bytes Service::HostMemoryOfTurns(base::JobId but) {
  base::Bytes used;
  for (const auto* const job : core_.jobs().Active()) {
    const auto* const record = suspend_controller_->RecordOf(job->id);
    if (job->id != but && (!record || record->phase == suspend::SuspensionPhase::kRunning))
      used += HostMemoryOf(job->id);
  }
  return used;
}

// What leaves the GPU comes into the memory of the job's own processes, and nobody's limit was meant for it.
void Service::LiftHostLimit(const jobs::Job& job, suspend::SuspensionPhase phase) {
  const auto& limit = job.queue_spec->host_memory;
  if (!job.queued || !limit || job.cgroup.empty() || phase == suspend::SuspensionPhase::kEnded) return;
  const bool on_gpu = phase == suspend::SuspensionPhase::kRunning;
  memory_limits_.Set(job.cgroup, on_gpu ? limit : std::nullopt);
}

void Service::OnMoved(base::JobId job, const std::string& gpu) {
  if (core_.jobs().Find(job)) core_.ChangeGpu(job, gpu, [](const base::Result<>&) {});
}

void Service::OnPhase(base::JobId job, suspend::SuspensionPhase phase) {
  if (const auto* const known = core_.jobs().Find(job)) LiftHostLimit(*known, phase);
  const auto* const record = suspend_controller_->RecordOf(job);
  if (record && phase == suspend::SuspensionPhase::kSuspended && record->reason == kProcessStopped)
    stopped_off_.try_emplace(job);
  else
    stopped_off_.erase(job);
  core_.guard().SetResidency(job, ResidencyOf(phase));
  dispatcher_->OnPhase(job, phase);
  if (share_controller_) share_controller_->Reconcile();
}

bool Service::TakesTurns(base::JobId id) {
  const auto* const job = core_.jobs().Find(id);
  if (!share_controller_ || !job || !job->share || job->mps || !job->preload) return false;
  const auto gpus = job->gpus.empty() ? core_.AllGpus() : job->gpus;
  const auto meets = [&](const SharedJob& other) {
    return other.id != id && std::find_first_of(other.gpus.begin(), other.gpus.end(), gpus.begin(),
                                                gpus.end()) != other.gpus.end();
  };
  const auto all = SharedJobs();
  return std::any_of(all.begin(), all.end(), meets);
}

void Service::SuspendJob(base::JobId id, const std::string& reason, const std::string& detail,
                         base::Millis return_after) {
  const auto refuse = [this, id](std::string why) {
    boost::asio::post(core_.loop(), [this, id, why = std::move(why)] {
      core_.guard().SetRefusal(id, why);
      core_.guard().OnTime();
      core_.guard_loop().Rearm();
    });
  };
  const auto* job = core_.jobs().Find(id);
  if (!job) return refuse("it is gone");
  const auto suspend_controller = SuspendControllerFor(*job);
  if (!suspend_controller) return refuse(suspend_controller.error().message);
  SuspendAlsoStopped(**suspend_controller, id, {reason, detail, return_after},
                     [refuse](base::Result<> there) {
                       if (!there) refuse(there.error().message);
                     });
}

void Service::TellSuspension(base::JobId id, const suspend::action::Emit& event) {
  const auto* job = core_.jobs().Find(id);
  if (!job) return;
  core_.Tell(*job, {event.kind, event.message, event.data});
  core_.LookNow();  // it has left a GPU, or come to one
  core_.jobs().Note(id, event.message);
}

}  // namespace gpuman::daemon
