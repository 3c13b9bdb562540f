#include "guard/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "guard/decision_context.h"

namespace gpuman::guard {
namespace {

std::optional<base::Bytes> Resolve(const std::optional<base::SizeSpec>& size, base::Bytes whole) {
  if (!size) return std::nullopt;
  return size->Of(whole);
}

bool HasFigures(const gpu::GpuSample& sample) {
  return sample.state == gpu::GpuReachability::kOk && sample.memory && sample.processes;
}

}  // namespace

Guard::Guard(GuardSettings settings, const base::ProcessTable& table, Actuator& actuator,
             const base::Clock& clock, SetPeriod set_period)
    : settings_(std::move(settings)),
      clock_(clock),
      actuator_(actuator),
      set_period_(std::move(set_period)),
      attribution_(table),
      enforcer_(actuator, clock) {}

void Guard::SetSettings(GuardSettings settings) {
  settings_ = std::move(settings);
  for (const auto& [uuid, status] : gpus_) Refresh(status);
}

void Guard::SetInventory(const gpu::Inventory& inventory) {
  inventory_ = inventory;
  std::map<std::string, GpuStatus> gpus;
  for (const auto& gpu : inventory.gpus) {
    auto& status = gpus[gpu.uuid];
    if (const auto known = gpus_.find(gpu.uuid); known != gpus_.end()) status = std::move(known->second);
    status.gpu = gpu;
    status.sample.uuid = gpu.uuid;
    if (!gpu.split) continue;
    status.processes.clear();
    attribution_.Forget(gpu.uuid);
  }
  for (const auto& [uuid, status] : gpus_) {
    if (gpus.contains(uuid)) continue;
    attribution_.Forget(uuid);
    periods_.erase(uuid);
    cadence_.gpus.erase(uuid);
    state_.pressure.erase(uuid);
  }
  gpus_ = std::move(gpus);
  snapshot_.gpus.clear();
  for (const auto& gpu : inventory_.gpus) snapshot_.gpus.push_back(SnapshotOf(gpus_[gpu.uuid]));
  RefreshJobs();
}

void Guard::SetJob(const GuardedJob& job) {
  const auto known = jobs_.find(job.id);
  const bool same_root = known != jobs_.end() && known->second.root == job.root;
  if (known == jobs_.end() || known->second.run != job.run) peaks_.erase(job.id);
  jobs_[job.id] = job;
  RefreshJobs();
  if (same_root) return;
  attribution_.SetJob(job.root);
  for (auto& [uuid, status] : gpus_) {
    Attribute(status);
    Refresh(status);
  }
}

void Guard::RemoveJob(JobId job) {
  jobs_.erase(job);
  peaks_.erase(job);
  counted_.erase(job);
  suspensions_.erase(job);
  RefreshJobs();
  attribution_.RemoveJob(job);
  for (auto& [uuid, status] : gpus_) {
    for (auto& process : status.processes)
      if (process.job == job) process.job.reset();
    Refresh(status);
  }
}

void Guard::SetCounted(JobId job, const std::string& uuid, std::optional<base::Bytes> counted) {
  if (!jobs_.contains(job)) return;
  auto& by_gpu = counted_[job];
  const auto known = by_gpu.find(uuid);
  if ((known == by_gpu.end() ? std::nullopt : std::optional(known->second)) == counted) return;
  if (counted)
    by_gpu[uuid] = *counted;
  else
    by_gpu.erase(known);
  for (auto& snapshot : snapshot_.jobs)
    if (snapshot.id == job) snapshot = SnapshotOf(jobs_.at(job));
}

void Guard::SetResidency(JobId job, JobResidency residency) {
  if (!jobs_.contains(job) || suspensions_[job].residency == residency) return;
  suspensions_[job].residency = residency;
  suspensions_[job].since = clock_.Mono();
  RefreshJobs();
}

void Guard::SetIdle(JobId job, bool idle) {
  if (!jobs_.contains(job)) return;
  suspensions_[job].idle = idle;
  for (auto& snapshot : snapshot_.jobs)
    if (snapshot.id == job) snapshot = SnapshotOf(jobs_.at(job));
}

void Guard::SetLeft(JobId job, std::map<std::string, base::Bytes> left) {
  if (!jobs_.contains(job)) return;
  const auto known = suspensions_.find(job);
  if (known == suspensions_.end() ? left.empty() : known->second.left == left) return;
  suspensions_[job].left = std::move(left);
  for (auto& snapshot : snapshot_.jobs)
    if (snapshot.id == job) snapshot = SnapshotOf(jobs_.at(job));
}

void Guard::SetRefusal(JobId job, std::string why) {
  if (!jobs_.contains(job)) return;
  suspensions_[job].refusal = {clock_.Mono(), std::move(why)};
  RefreshJobs();
}

void Guard::OnSample(const gpu::GpuSample& sample) {
  const auto it = gpus_.find(sample.uuid);
  if (it == gpus_.end()) return;
  auto& status = it->second;
  TellStateChange(status.gpu, status.sample, sample);
  status.sample = sample;
  Attribute(status);
  Refresh(status);
  if (!HasFigures(sample)) return;
  NotePeaks(status);
  unjudged_.insert(sample.uuid);
}

// A process on a split GPU runs in one of its instances and is attributed there.
void Guard::Attribute(GpuStatus& status) {
  if (!status.gpu.split && HasFigures(status.sample))
    status.processes = attribution_.Attribute(status.gpu.uuid, *status.sample.processes);
}

void Guard::Judge() {
  if (unjudged_.empty()) return;
  Act();
  for (const auto& uuid : std::exchange(unjudged_, {})) UpdatePeriod(uuid);
}

void Guard::OnTime() { Act(); }

std::optional<base::MonoTime> Guard::NextDeadline() const { return guard::NextDeadline(state_); }

const GpuStatus* Guard::Find(const std::string& uuid) const {
  const auto it = gpus_.find(uuid);
  return it == gpus_.end() ? nullptr : &it->second;
}

JobUsage Guard::UsageOf(JobId job) const {
  JobUsage result;
  for (const auto& [uuid, status] : gpus_) {
    if (status.gpu.split || !HasFigures(status.sample)) continue;
    const GuardUsage usage = guard::UsageOf(job, status.processes);
    if (usage.processes > 0) result.by_gpu[uuid] = usage.known;
    if (usage.processes > 0 && usage.unknown == usage.processes) continue;
    result.used = std::max(result.used.value_or(base::Bytes{}), usage.known);
  }
  if (const auto peak = peaks_.find(job); peak != peaks_.end()) result.peak = peak->second;
  return result;
}

// Actions may change jobs, and with them the snapshot; by then the decision is made.
void Guard::Act() { enforcer_.Perform(Decide(snapshot_, settings_.policy, clock_.Mono(), state_)); }

GpuSnapshot* Guard::SnapshotFor(const std::string& uuid) {
  const auto it = std::find_if(snapshot_.gpus.begin(), snapshot_.gpus.end(),
                               [&](const GpuSnapshot& gpu) { return gpu.uuid == uuid; });
  return it == snapshot_.gpus.end() ? nullptr : &*it;
}

void Guard::Refresh(const GpuStatus& status) {
  if (auto* gpu = SnapshotFor(status.gpu.uuid)) *gpu = SnapshotOf(status);
}

void Guard::RefreshJobs() {
  snapshot_.jobs.clear();
  for (const auto& [id, job] : jobs_) snapshot_.jobs.push_back(SnapshotOf(job));
}

// The driver counts managed memory for the GPU, but for no process.
base::Bytes Guard::ManagedOn(const GpuStatus& status) const {
  const auto known = managed_.find(status.gpu.uuid);
  if (known == managed_.end() || known->second.count == 0) return {};
  base::Bytes shown;
  for (const auto& process : status.processes) shown += process.memory.value_or(base::Bytes{});
  return std::min(known->second, status.sample.memory->used - shown);
}

GpuSnapshot Guard::SnapshotOf(const GpuStatus& status) const {
  GpuSnapshot snapshot;
  snapshot.uuid = status.gpu.uuid;
  snapshot.number = gpu::NumberOf(status.gpu);
  snapshot.ok = !status.gpu.split && HasFigures(status.sample);
  snapshot.taken_at = status.sample.taken_at;
  if (status.sample.memory) {
    snapshot.total = status.sample.memory->total;
    snapshot.used = status.sample.memory->used;
    snapshot.free = status.sample.memory->free;
    const base::Bytes managed = ManagedOn(status);
    snapshot.used = snapshot.used - managed;
    snapshot.free += managed;
  }
  const auto own = settings_.gpu_reserve.find(status.gpu.uuid);
  const auto& reserve = own == settings_.gpu_reserve.end() ? settings_.reserve : own->second;
  snapshot.reserve = Resolve(reserve, status.gpu.memory).value_or(base::Bytes{});
  snapshot.processes = status.processes;
  return snapshot;
}

JobSnapshot Guard::SnapshotOf(const GuardedJob& job) const {
  JobSnapshot snapshot;
  snapshot.id = job.id;
  snapshot.tag = job.tag;
  snapshot.run = job.run;
  snapshot.started_at = job.started_at;
  snapshot.priority = job.priority;
  snapshot.grace = job.grace;
  snapshot.ending_since = job.ending_since;
  snapshot.shares = job.shares;
  if (const auto it = suspensions_.find(job.id); it != suspensions_.end()) {
    snapshot.residency = it->second.residency;
    snapshot.residency_since = it->second.since;
    snapshot.refusal = it->second.refusal;
    snapshot.left = it->second.left;
    snapshot.idle = it->second.idle;
  }
  if (!job.hard && !job.soft) return snapshot;
  for (const auto& [uuid, status] : gpus_) {
    if (status.gpu.split) continue;
    if (!job.gpus.empty() && std::find(job.gpus.begin(), job.gpus.end(), uuid) == job.gpus.end()) continue;
    snapshot.limits[uuid] = {Resolve(job.soft, status.gpu.memory), Resolve(job.hard, status.gpu.memory), {}};
  }
  if (const auto counted = counted_.find(job.id); counted != counted_.end()) {
    for (const auto& [uuid, bytes] : counted->second)
      if (const auto limit = snapshot.limits.find(uuid); limit != snapshot.limits.end())
        limit->second.counted = bytes;
  }
  return snapshot;
}

void Guard::TellStateChange(const gpu::Gpu& gpu, const gpu::GpuSample& before, const gpu::GpuSample& now) {
  if (before.state == now.state) return;
  // If a GPU is away, so are its instances: only the GPU is reported.
  const auto* const parent = gpu.mig ? Find(gpu.mig->parent) : nullptr;
  if (parent && parent->sample.state != gpu::GpuReachability::kOk) return;
  Event event;
  event.at = clock_.Mono();
  event.gpu = gpu.uuid;
  const std::string name = fmt::format("GPU {} ({})", gpu::NumberOf(gpu), gpu.name);
  switch (now.state) {
    case gpu::GpuReachability::kOk:
      event.kind = kGpuBack;
      event.message = fmt::format("{} answers again", name);
      break;
    case gpu::GpuReachability::kLost:
      event.kind = kGpuLost;
      event.message = fmt::format("{} is lost: {}", name, now.error);
      break;
    case gpu::GpuReachability::kUnresponsive:
      event.kind = kGpuUnresponsive;
      event.message = fmt::format("{} does not answer: {}", name, now.error);
      break;
  }
  actuator_.Emit(std::move(event));
}

void Guard::NotePeaks(const GpuStatus& status) {
  for (const auto& [id, usage] : guard::UsageByJob(status.processes))
    if (usage.unknown < usage.processes && jobs_.contains(id)) peaks_[id] = std::max(peaks_[id], usage.known);
}

void Guard::UpdatePeriod(const std::string& uuid) {
  const GpuSnapshot* found = SnapshotFor(uuid);
  if (!found) return;
  const GpuSnapshot& gpu = *found;
  const base::MonoTime now = clock_.Mono();
  std::vector<Action> none;
  const DecisionContext round{snapshot_, settings_.policy, now, state_, none};
  const bool ending = std::any_of(gpu.processes.begin(), gpu.processes.end(),
                                  [&](const auto& process) { return IsLeaving(round, TargetOf(process)); });
  const auto watched = WatchedOn(gpu, snapshot_.jobs, settings_.policy);
  const auto period = NextPeriod(gpu.uuid, watched, ending, now, settings_.cadence, cadence_);
  auto& in_force = periods_[gpu.uuid];
  if (in_force == period) return;
  in_force = period;
  set_period_(gpu.uuid, period);
}

}  // namespace gpuman::guard
