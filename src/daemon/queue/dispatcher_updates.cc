// Puts changes of jobs and GPUs into the queue's snapshot.
#include <algorithm>
#include <utility>

#include "daemon/queue/dispatcher.h"
#include "spec/json.h"

namespace gpuman::daemon {

using base::JobId;
using queue::WallTime;

namespace {
constexpr base::Millis kUnnoticed{1'000};  // by a user who waits for a retry
// What would stay of a job changes with each of its allocations for a moment. The updater is told only of
// changes of at least this size.
constexpr base::Bytes kMinSnapshotChange = base::MiB(16);

base::Bytes Difference(base::Bytes a, base::Bytes b) { return a > b ? a - b : b - a; }

base::Bytes BytesOn(const suspend::BytesByGpu& gpus, const std::string& gpu) {
  const auto at = gpus.find(gpu);
  return at == gpus.end() ? base::Bytes{} : at->second;
}

// Whether `now` differs from `known` so much on a GPU that a decision may be another.
bool Differs(const suspend::BytesByGpu& now, const suspend::BytesByGpu& known) {
  if (now.empty() != known.empty()) return true;
  const auto differs = [](const suspend::BytesByGpu& one, const suspend::BytesByGpu& other) {
    return std::any_of(one.begin(), one.end(), [&](const auto& part) {
      return Difference(part.second, BytesOn(other, part.first)) >= kMinSnapshotChange;
    });
  };
  return differs(now, known) || differs(known, now);
}
}  // namespace

void Dispatcher::OnJobChanged(const jobs::Job& job) {
  if (!jobs::IsWaiting(job)) delayed_.erase(job.id);
  if (jobs::IsWaiting(job)) {
    active_.erase(job.id);
    PutWaiting(job);
    references_.Remember(job);
  } else if (jobs::IsEnded(job)) {
    active_.erase(job.id);
    dependents_.Erase(job.id);
    updater_.Erase(job.id);
    references_.Remember(job);
  } else {
    const bool known = active_.contains(job.id);
    PutActive(job);
    if (known) return;
    dependents_.Erase(job.id);
    references_.Remember(job);
  }
  TellDependents(job.id);
  Wake();
}

void Dispatcher::OnJobForgotten(JobId job) {
  active_.erase(job);
  delayed_.erase(job);
  dependents_.Erase(job);
  updater_.Erase(job);
  TellDependents(job);
  Wake();
}

std::shared_ptr<const spec::JobSpec> Dispatcher::SpecFor(const jobs::Job& job) const {
  return job.queued ? job.spec.pointer() : std::make_shared<const spec::JobSpec>(SpecOfRun(job));
}

void Dispatcher::PutWaiting(const jobs::Job& job) {
  queue::WaitingJob row{job.id, job.owner->user, job.waiting_since};
  if (job.not_before) row.not_before = EndOfDelay(job);
  row.held = job.state == spec::JobState::kHeld;
  row.dependency =
      dependents_.Set(job.id, job.owner->uid, job.spec->depends, [this](JobId id) { return ProgressOf(id); });
  row.array = ArrayOf(job);
  updater_.PutWaiting(row, *job.spec);
}

WallTime Dispatcher::EndOfDelay(const jobs::Job& job) {
  const auto now = clock_.Wall();
  const auto mono = clock_.Mono();
  auto it = delayed_.find(job.id);
  if (it == delayed_.end() || it->second.delay.until() != *job.not_before) {
    const queue::RetryDelay delay(*job.not_before, job.spec->retries.delay, now, mono);
    it = delayed_.insert_or_assign(job.id, Delayed{delay, {}}).first;
  }
  return it->second.in_snapshot = it->second.delay.EndsAt(now, mono);
}

void Dispatcher::FollowClock(WallTime now) {
  const auto mono = clock_.Mono();
  for (const auto& [id, delayed] : delayed_) {
    if (std::chrono::abs(delayed.delay.EndsAt(now, mono) - delayed.in_snapshot) < kUnnoticed) continue;
    if (const auto* const job = jobs_.Find(id)) PutWaiting(*job);
    MarkChanged();
  }
}

// `gpuman run` takes GPUs without asking the queue. Jobs that share may join a job that has a limit.
spec::JobSpec Dispatcher::SpecOfRun(const jobs::Job& job) const {
  spec::JobSpec spec;
  spec.priority = job.spec->priority;
  spec.gpus.devices = GpusOfRun(job);
  spec.gpus.count = static_cast<int>(spec.gpus.devices.size());
  if (!job.spec->memory || spec.gpus.devices.empty()) return spec;
  base::Bytes least{UINT64_MAX};
  for (const auto& gpu : guard_.inventory().gpus)
    if (std::count(spec.gpus.devices.begin(), spec.gpus.devices.end(), gpu.uuid) > 0)
      least = std::min(least, job.spec->memory->Of(gpu.memory));
  spec.share = true;
  spec.memory_on_each = least;
  return spec;
}

// The GPUs that the job was given; for a job that may use all GPUs, those that it uses.
std::vector<std::string> Dispatcher::GpusOfRun(const jobs::Job& job) const {
  if (!job.gpus.empty()) return job.gpus;
  std::vector<std::string> used;
  for (const auto& [uuid, status] : guard_.Statuses())
    if (std::any_of(status.processes.begin(), status.processes.end(),
                    [&](const gpu::AttributedProcess& process) { return process.job == job.id; }))
      used.push_back(uuid);
  return used;
}

void Dispatcher::PutActive(const jobs::Job& job) {
  const auto [it, fresh] = active_.try_emplace(job.id);
  Active& active = it->second;
  active.spec = SpecFor(job);
  active.row.array = ArrayOf(job);
  active.row.id = job.id;
  active.row.user = job.owner->user;
  if (fresh) {
    active.row.gpus = job.queued ? job.gpus : active.spec->gpus.devices;
    active.row.on_since = clock_.Mono();
    if (job.started_at) {
      const auto ran = clock_.Wall() - *job.started_at - job.suspended;
      active.row.ran_before = std::max(ran, base::Millis{0});
    }
  } else if (!job.queued) {
    active.row.gpus = active.spec->gpus.devices;
  }
  const bool stops = job.state == spec::JobState::kStopping;
  if (stops && active.row.phase == queue::RunningPhase::kRunning)
    active.row.phase = queue::RunningPhase::kLeaving;
  const bool in_instance = std::any_of(active.row.gpus.begin(), active.row.gpus.end(), gpu::IsInstance);
  active.row.suspendable =
      job.queued && job.state == spec::JobState::kRunning && !active.unsuspendable && !in_instance;
  SetMovable(active);
  Refresh(active);
}

// A job of which something stays on its GPU cannot be brought back on another.
void Dispatcher::SetMovable(Active& active) {
  active.row.movable = active.row.suspendable && active.row.gpus.size() == 1 && active.left.empty();
}

// Takes over what stays of the job, or would stay. Returns whether the row has changed. What once stayed may
// stay again, though the figures of the running job do not show it.
bool Dispatcher::ReadLeft(Active& active) {
  const bool suspended = active.row.phase == queue::RunningPhase::kSuspended;
  active.left = callbacks_.left_of(active.row.id);
  if (suspended) active.stayed = active.left;
  auto left = active.left;
  for (const auto& [gpu, bytes] : active.stayed) left[gpu] = std::max(left[gpu], bytes);
  const bool was_movable = active.row.movable;
  SetMovable(active);
  const bool differs = suspended ? left != active.row.left : Differs(left, active.row.left);
  if (differs) active.row.left = std::move(left);
  return differs || was_movable != active.row.movable;
}

void Dispatcher::Refresh(Active& active) {
  const auto* const job = jobs_.Find(active.row.id);
  if (!job) return;
  active.row.user = job->owner->user;
  updater_.PutRunning(active.row, *active.spec);
  MarkChanged();
}

void Dispatcher::OnPhase(JobId id, suspend::SuspensionPhase phase) {
  const auto it = active_.find(id);
  if (it == active_.end()) return;
  queue::RunningJob& row = it->second.row;
  switch (phase) {
    case suspend::SuspensionPhase::kSuspending:
    case suspend::SuspensionPhase::kRetreating:
      if (row.phase == queue::RunningPhase::kRunning) row.phase = queue::RunningPhase::kLeaving;
      break;
    case suspend::SuspensionPhase::kSuspended:
      if (row.phase == queue::RunningPhase::kMoving) break;
      row.phase = queue::RunningPhase::kSuspended;
      if (row.on_since)
        row.ran_before += std::chrono::duration_cast<base::Millis>(clock_.Mono() - *row.on_since);
      row.on_since.reset();
      row.since = clock_.Wall();
      row.wants_back = row.wants_back || callbacks_.is_preempted(id);
      ReadLeft(it->second);
      break;
    case suspend::SuspensionPhase::kResuming:
    case suspend::SuspensionPhase::kUndoing:
      break;
    default:
      if (row.phase == queue::RunningPhase::kMoving || row.phase == queue::RunningPhase::kRunning) break;
      // It could not leave. The answer comes when that is on the disk: a pass before it would only ask again.
      if (row.phase == queue::RunningPhase::kLeaving && it->second.preempting) break;
      if (const auto* const job = jobs_.Find(id); !job || job->state != spec::JobState::kRunning) break;
      row.phase = queue::RunningPhase::kRunning;
      row.wants_back = false;
      if (!row.on_since) row.on_since = clock_.Mono();
  }
  jobs_.SetOffGpu(id, phase == suspend::SuspensionPhase::kSuspended);
  Refresh(it->second);
  Wake();
}

void Dispatcher::OnIdle(JobId id) {
  const auto it = active_.find(id);
  if (it == active_.end() || !it->second.spec->preemptible) return;
  it->second.row.idle = callbacks_.is_idle(id);
  Refresh(it->second);
}

void Dispatcher::StayAway(JobId id) {
  const auto it = active_.find(id);
  if (it == active_.end() || it->second.row.phase != queue::RunningPhase::kSuspended) return;
  it->second.row.wants_back = false;
  Refresh(it->second);
}

bool Dispatcher::RequestResume(JobId id) {
  const auto it = active_.find(id);
  if (it == active_.end() || it->second.row.phase != queue::RunningPhase::kSuspended) return false;
  it->second.row.wants_back = true;
  Refresh(it->second);
  Wake();
  return true;
}

// --- GPUs ---

void Dispatcher::OnInventory() {
  std::vector<queue::Gpu> gpus;
  for (const auto& known : guard_.inventory().gpus) {
    queue::Gpu gpu;
    gpu.index = known.index;
    gpu.uuid = known.uuid;
    gpu.model = known.name;
    gpu.memory = known.memory - guard_.ReserveOf(known.uuid);
    if (known.mig) {
      gpu.instance = known.mig->number;
      gpu.profile = known.mig->profile;
      gpu.shares_memory = gpu::IsPartOfInstance(known.mig->profile);
    }
    // A setting of a GPU holds for its instances as well.
    const auto names = [&](const std::set<std::string>& uuids) {
      return uuids.contains(known.uuid) || (known.mig && uuids.contains(known.mig->parent));
    };
    gpu.restricted = state_.allowed && !names(*state_.allowed);
    const bool out_of_use = callbacks_.is_out_of_use(known);
    gpu.drained = names(state_.drained) || out_of_use;
    gpu.unhealthy = out_of_use && !known.split;
    gpu.split = known.split;
    const auto use = foreign_.find(known.uuid);
    if (use != foreign_.end()) {
      gpu.foreign = use->second.memory;
      gpu.unmanaged = use->second.unmanaged;
      gpu.holder = use->second.holder;
    }
    const auto status = guard_.Statuses().find(known.uuid);
    gpu.lost = status != guard_.Statuses().end() && status->second.sample.state != gpu::GpuReachability::kOk;
    gpus.push_back(std::move(gpu));
  }
  updater_.SetGpus(std::move(gpus), guard_.inventory().links);
  // Rows name GPUs by their place.
  for (auto& [id, active] : active_) Refresh(active);
  Wake();
}

void Dispatcher::OnSample(const std::string& uuid) {
  const auto status = guard_.Statuses().find(uuid);
  if (status == guard_.Statuses().end()) return;
  idle_.Observe(status->second);
  const bool lost = status->second.sample.state != gpu::GpuReachability::kOk;
  const auto& gpus = updater_.snapshot().gpus;
  const auto row = std::find_if(gpus.begin(), gpus.end(), [&](const auto& gpu) { return gpu.uuid == uuid; });
  if (row != gpus.end() && row->lost != lost) OnInventory();
  for (auto& [id, active] : active_) {
    const auto* const job = jobs_.Find(id);
    if (!job || job->queued || !job->gpus.empty()) continue;
    const auto used = GpusOfRun(*job);
    if (used == active.row.gpus) continue;
    PutActive(*job);
    Wake();
  }
  auto use = ForeignOn(status->second, state_.ignored, protected_names_, callbacks_.name_of_user,
                       [](const base::ProcessId& process) { return base::IsAlive(process); });
  auto& known = foreign_[uuid];
  if (use == known) return;
  // A new pass is needed where memory became free, not at every change of memory.
  const bool matters = use.unmanaged != known.unmanaged || use.memory < known.memory;
  known = std::move(use);
  updater_.SetForeign(uuid, known.memory, known.unmanaged, known.holder);
  MarkChanged();
  if (matters) Wake();
}

void Dispatcher::AfterSamples() {
  for (auto& [id, active] : active_) {
    const auto before = active.row.left;
    if (!ReadLeft(active)) continue;
    Refresh(active);
    // A new pass is needed where less stays, or the job can be moved now, not at every change of memory.
    const bool less = std::any_of(before.begin(), before.end(), [&left = active.row.left](const auto& part) {
      return BytesOn(left, part.first) < part.second;
    });
    if (less) Wake();
  }
}

void Dispatcher::SetState(const QueueControlState& state) {
  state_ = state;
  updater_.SetPaused(state.paused);
  auto settings = updater_.snapshot().settings;
  settings.choice = state.choice;
  updater_.SetSettings(settings);
  OnInventory();
  for (const auto& gpu : guard_.inventory().gpus) OnSample(gpu.uuid);
}

void Dispatcher::SetSettings(const queue::SchedulingSettings& settings, base::Millis window) {
  auto pass = settings;
  pass.choice = state_.choice;
  updater_.SetSettings(pass);
  window_ = window;
}

// --- Dependencies ---

queue::AwaitedJobState Dispatcher::ProgressOf(JobId id) const {
  const auto* const job = jobs_.Find(id);
  if (!job) return queue::AwaitedJobState::kUnknown;
  if (jobs::IsWaiting(*job))
    return job->runs > 0 ? queue::AwaitedJobState::kBegan : queue::AwaitedJobState::kWaits;
  if (!jobs::IsEnded(*job)) return queue::AwaitedJobState::kBegan;
  if (job->state == spec::JobState::kFinished) return queue::AwaitedJobState::kOk;
  return job->runs > 0                              ? queue::AwaitedJobState::kNotOk
         : job->state == spec::JobState::kCancelled ? queue::AwaitedJobState::kCancelled
                                                    : queue::AwaitedJobState::kNotOk;
}

void Dispatcher::TellDependents(JobId id) {
  if (!dependents_.Any(id)) return;
  dependents_.Tell(id, ProgressOf(id), [this](JobId dependent, queue::DependencyState state) {
    updater_.SetDependency(dependent, state);
  });
}

}  // namespace gpuman::daemon
