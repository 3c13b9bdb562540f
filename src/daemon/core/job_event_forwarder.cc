#include "daemon/core/job_event_forwarder.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/core.h"
#include "daemon/core/module.h"

namespace gpuman::daemon {
namespace {

// A job without a limit, or alone on its GPUs, had all of their memory. nullopt: the job had no known GPU.
std::optional<base::Bytes> MemoryOf(const jobs::Job& job, const std::vector<std::string>& uuids,
                                    const gpu::Inventory& inventory) {
  std::optional<base::Bytes> least;
  for (const auto& gpu : inventory.gpus) {
    if (std::find(uuids.begin(), uuids.end(), gpu.uuid) == uuids.end()) continue;
    const auto memory = job.spec->memory && job.spec->share ? job.spec->memory->Of(gpu.memory) : gpu.memory;
    least = std::min(least.value_or(memory), memory);
  }
  return least;
}

}  // namespace

void JobEventForwarder::Register(jobs::JobManagerCallbacks& callbacks) {
  callbacks.on_job_changed = [this](const jobs::Job& job, const jobs::VolatileState& runtime) {
    OnJobChanged(job, runtime);
  };
  callbacks.on_job_forgotten = [this](base::JobId job) { OnJobForgotten(job); };
  callbacks.on_notice = [this](const jobs::Job& job, const jobs::JobNotice& notice) {
    core_.AddJobEvent(job, notice);
  };
  callbacks.on_recorded = [this](jobs::Job& job, const keeper::JournalRecord& record) {
    OnRecorded(job, record);
  };
  callbacks.on_run_ended = [this](const jobs::Job& job, jobs::RunAccount& run) { OnRunEnded(job, run); };
  callbacks.on_error = [](const jobs::Job& job, const std::string& what) {
    spdlog::warn("job {} ({}): {}", job.id.value, job.tag, what);
  };
  callbacks.kernel_kill = [this](const jobs::Job& job, const keeper::JournalRecord& record) {
    return kernel_kills_.Find(job, record);
  };
  callbacks.peak = [this](base::JobId job) { return core_.UsageOf(job).peak; };
  callbacks.all_gpus = [this] { return core_.AllGpus(); };
  callbacks.gpu_indices = [this] { return GpuIndices(); };
}

void JobEventForwarder::OnJobChanged(const jobs::Job& job, const jobs::VolatileState& runtime) {
  for (auto* const module : core_.modules()) module->OnJobChanged(job);
  if (jobs::IsEnded(job) || jobs::IsWaiting(job) || !job.keeper) return Leave(job.id, UnwatchReason::kEnded);
  SetGuarded(job, runtime);
  watched_.insert(job.id);
  for (auto* const module : core_.modules()) module->OnJobRuns(job);
  core_.guard_loop().Rearm();
}

void JobEventForwarder::OnJobForgotten(base::JobId job) {
  for (auto* const module : core_.modules()) module->OnJobForgotten(job);
  Leave(job, UnwatchReason::kLetGo);
}

// Most of 100,000 jobs may never have run: for such a job there is nothing to do.
void JobEventForwarder::Leave(base::JobId job, UnwatchReason why) {
  if (watched_.erase(job) == 0) return;
  stopping_since_.erase(job);
  const auto& modules = core_.modules();
  for (auto module = modules.rbegin(); module != modules.rend(); ++module) (*module)->OnJobLeft(job, why);
  core_.guard().RemoveJob(job);
  core_.guard_loop().Rearm();
}

void JobEventForwarder::SetGuarded(const jobs::Job& job, const jobs::VolatileState& runtime) {
  guard::GuardedJob guarded;
  guarded.id = job.id;
  guarded.tag = job.tag;
  guarded.run = static_cast<std::uint64_t>(job.runs) + (static_cast<std::uint64_t>(job.incarnation) << 32);
  guarded.started_at = runtime.run_started;
  guarded.priority = job.spec->priority;
  guarded.shares = core_.callbacks().may_share(job);
  guarded.hard = job.spec->memory;
  guarded.soft = job.spec->soft;
  guarded.gpus = job.gpus;
  guarded.grace = job.spec->grace;
  if (job.state == spec::JobState::kStopping)
    guarded.ending_since = stopping_since_.try_emplace(job.id, core_.clock().Mono()).first->second;
  else
    stopping_since_.erase(job.id);
  guarded.root = {job.id, *job.keeper, job.cgroup, job.owner->uid, runtime.key, {}};
  if (job.container) guarded.root = {job.id, {}, {}, job.owner->uid, {}, job.container->id};
  core_.guard().SetJob(guarded);
}

void JobEventForwarder::OnRecorded(jobs::Job& job, const keeper::JournalRecord& record) {
  for (auto* const module : core_.modules()) module->OnRecorded(job, record);
}

void JobEventForwarder::OnRunEnded(const jobs::Job& job, jobs::RunAccount& run) {
  run.peak = std::max(run.peak, core_.UsageOf(job.id).peak);
  run.needed = jobs::NeededMemory(job, run.ended);
  // A job of `gpuman run` that names no GPU is on whichever it likes: those are not known here.
  if (!run.gpus.empty() || job.queued) {
    if (job.energy_used) run.energy = static_cast<double>(*job.energy_used) / 1000;
    if (const auto memory = MemoryOf(job, run.gpus, core_.inventory())) run.memory = *memory;
  }
  for (auto* const module : core_.modules()) module->OnRunEnded(job, run);
}

std::map<std::string, unsigned> JobEventForwarder::GpuIndices() const {
  std::map<std::string, unsigned> indices;
  for (const auto& gpu : core_.inventory().gpus) {
    if (gpu.mig || gpu.split) return {};  // which instances CUDA counts depends on the program
    indices.emplace(gpu.uuid, gpu.index);
  }
  return indices;
}

}  // namespace gpuman::daemon
