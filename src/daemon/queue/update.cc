#include "daemon/queue/update.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/core/job_request.h"
#include "jobs/bounds.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

bool OnlyForRunning(const api::QueueUpdate& update) {
  api::QueueUpdate rest = update;
  rest.time_limit.reset();
  rest.clear_time_limit = false;
  rest.max_concurrent.reset();
  rest.clear_max_concurrent = false;
  rest.retries.reset();
  return rest == api::QueueUpdate{};
}

template <typename T>
void Set(std::optional<T>& field, const std::optional<T>& to, bool clear) {
  if (to || clear) field = to;
}

// What runs, without the environment around it.
std::vector<std::string> Bare(const jobs::Job& job) {
  auto command = job.command;
  if (job.spec->conda_env && command.size() > static_cast<std::size_t>(kCondaWords))
    command.erase(command.begin(), command.begin() + kCondaWords);
  return command;
}

void ApplyCommand(const api::QueueUpdate& update, jobs::Job& job, spec::JobSpec& spec) {
  auto command = Bare(job);
  if (update.command) {
    command = *update.command;
    spec.script.clear();
  }
  if (update.script) {
    command = CommandOfScript(*update.script, {});
    spec.script = *update.script;
  }
  if (update.conda_env || update.clear_conda_env) spec.conda_env = update.conda_env;
  if (spec.conda_env) command = InConda(*spec.conda_env, std::move(command));
  job.command = std::move(command);
}

Result<> ApplyDependencies(const api::QueueUpdate& update, const queue::ReferenceLookup& lookup,
                           spec::JobSpec& spec) {
  if (update.depends) {
    const bool auto_cancel = spec.depends.auto_cancel;
    GPUMAN_ASSIGN(spec.depends, DependenciesOf(*update.depends, auto_cancel, lookup));
  }
  if (update.auto_cancel) spec.depends.auto_cancel = *update.auto_cancel;
  return {};
}

Result<> ApplyQueue(const api::QueueUpdate& update, const gpu::Inventory& inventory,
                    const queue::ReferenceLookup& lookup, jobs::Job& job, spec::JobSpec& spec) {
  if (update.name) job.tag = *update.name;
  ApplyCommand(update, job, spec);
  if (update.gpus) {
    GPUMAN_ASSIGN(spec.gpus, GpusOf(*update.gpus, inventory));
  }
  if (update.share) spec.share = *update.share;
  Set(spec.host_memory, update.host_memory, update.clear_host_memory);
  if (update.cpus) spec.cpus = update.cpus;
  Set(spec.time_limit, update.time_limit, update.clear_time_limit);
  if (!spec.time_limit) spec.warn_signal = 0;
  Set(spec.begin, update.begin, update.clear_begin);
  GPUMAN_TRY(ApplyDependencies(update, lookup, spec));
  if (update.clear_max_concurrent) spec.group = {};
  if (update.max_concurrent) {
    spec.group.limit = *update.max_concurrent;
    if (spec.group.name.empty()) spec.group.name = job.tag;
  }
  if (job.array.array.value != 0 && (update.array_limit || update.clear_array_limit))
    job.array.limit = update.array_limit.value_or(0);
  if (update.retries) spec.retries = *update.retries;
  if (update.preemptible) spec.preemptible = *update.preemptible;
  return {};
}

}  // namespace

Result<> MayRewrite(const api::JobUpdate& update, uid_t caller, const jobs::Job& job) {
  const auto& queue = update.queue;
  const bool rewrites =
      queue && (queue->command || queue->script || queue->conda_env || queue->clear_conda_env);
  if (!rewrites || caller == 0 || caller == job.owner->uid) return {};
  return Fail(ErrorCode::kPermissionDenied,
              fmt::format("what job {} runs may only be changed by its owner and root", job.id.value),
              "it runs as its owner; an administrator can cancel it");
}

Result<> ApplyQueueUpdate(const api::JobUpdate& update, const gpu::Inventory& inventory,
                          const queue::ReferenceLookup& lookup, jobs::Job& job) {
  if (!jobs::IsWaiting(job) && update.queue && !OnlyForRunning(*update.queue))
    return Fail(
        ErrorCode::kConflict,
        fmt::format("job {} does not wait any more: it is {}", job.id.value, jobs::ToString(job.state)),
        "time limit, max_concurrent and retries can still be changed; `gpuman job redo` queues it again");
  if (update.job.restart)
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("restart: job {} is of the queue, which repeats failed jobs by itself", job.id.value),
        "give --retries");
  jobs::Job changed = job;
  GPUMAN_TRY(ApplyUpdate(update.job, inventory, changed));
  spec::JobSpec spec = *changed.spec;
  if (update.job.memory || update.job.clear_memory) {
    GPUMAN_ASSIGN(spec.memory_on_each, OnEachGpu("memory", spec.memory, spec.gpus, inventory));
  }
  if (update.queue) {
    GPUMAN_TRY(ApplyQueue(*update.queue, inventory, lookup, changed, spec));
    GPUMAN_TRY(jobs::CheckExecutable(changed.command, *changed.environment));
  }
  GPUMAN_TRY(CheckQueuedSharing(spec, inventory));
  GPUMAN_TRY(spec::ValidateForQueue(spec));
  changed.spec = std::move(spec);
  job = std::move(changed);
  return {};
}

}  // namespace gpuman::daemon
