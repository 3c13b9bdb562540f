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
std::vector<std::string> Bare(const PreparedJob& job) {
  auto command = job.job.command;
  if (!job.request.conda_env.empty() && command.size() > static_cast<std::size_t>(kCondaWords))
    command.erase(command.begin(), command.begin() + kCondaWords);
  return command;
}

void ApplyCommand(const api::QueueUpdate& update, PreparedJob& job, jobs::QueueSpec& spec) {
  auto command = Bare(job);
  if (update.command) {
    command = *update.command;
    spec.script.clear();
  }
  if (update.script) {
    command = CommandOfScript(*update.script, {});
    spec.script = *update.script;
  }
  if (update.conda_env || update.clear_conda_env) job.request.conda_env = update.conda_env.value_or("");
  if (!job.request.conda_env.empty()) command = InConda(job.request.conda_env, std::move(command));
  job.job.command = std::move(command);
}

Result<> ApplyDependencies(const api::QueueUpdate& update, const queue::ReferenceLookup& lookup,
                           queue::Request& request) {
  if (update.depends) {
    const bool auto_cancel = request.depends.auto_cancel;
    GPUMAN_ASSIGN(request.depends, DependenciesOf(*update.depends, auto_cancel, lookup));
  }
  if (update.auto_cancel) request.depends.auto_cancel = *update.auto_cancel;
  return {};
}

Result<> ApplyQueue(const api::QueueUpdate& update, const gpu::Inventory& inventory,
                    const queue::ReferenceLookup& lookup, PreparedJob& job, jobs::QueueSpec& spec) {
  queue::Request& request = job.request;
  if (update.name) job.job.tag = *update.name;
  ApplyCommand(update, job, spec);
  if (update.gpus) {
    GPUMAN_ASSIGN(request.gpus, GpusOf(*update.gpus, inventory));
  }
  if (update.share) request.share = job.job.share = *update.share;
  Set(request.host_memory, update.host_memory, update.clear_host_memory);
  if (update.cpus) request.cpus = *update.cpus;
  Set(request.time_limit, update.time_limit, update.clear_time_limit);
  if (!request.time_limit) request.warn_signal = 0;
  Set(request.begin, update.begin, update.clear_begin);
  GPUMAN_TRY(ApplyDependencies(update, lookup, request));
  if (update.clear_max_concurrent) request.group = {};
  if (update.max_concurrent) {
    request.group.limit = *update.max_concurrent;
    if (request.group.name.empty()) request.group.name = job.job.tag;
  }
  if (job.job.array.array.value != 0 && (update.array_limit || update.clear_array_limit)) {
    job.job.array.limit = update.array_limit.value_or(0);
    request.array = queue::ArrayTask{job.job.array.array, job.job.array.task, job.job.array.limit};
  }
  if (update.retries)
    request.retries = {update.retries->count, update.retries->delay, update.retries->on_exit_codes};
  if (update.preemptible) request.preemptible = *update.preemptible;
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
                          const queue::ReferenceLookup& lookup, PreparedJob& job) {
  if (!jobs::IsWaiting(job.job) && update.queue && !OnlyForRunning(*update.queue))
    return Fail(
        ErrorCode::kConflict,
        fmt::format("job {} does not wait any more: it is {}", job.job.id.value,
                    jobs::ToString(job.job.state)),
        "time limit, max_concurrent and retries can still be changed; `gpuman job redo` queues it again");
  jobs::QueueSpec before = *job.job.queue_spec;
  PreparedJob changed = job;
  GPUMAN_TRY(ApplyUpdate(update.job, inventory, changed.job));
  changed.request.priority = changed.job.priority;
  if (update.job.memory || update.job.clear_memory) {
    GPUMAN_ASSIGN(changed.request.memory, OnEachGpu(changed.job.memory, changed.request.gpus, inventory));
  }
  if (update.queue) {
    GPUMAN_TRY(ApplyQueue(*update.queue, inventory, lookup, changed, before));
    GPUMAN_TRY(jobs::CheckExecutable(changed.job.command, *changed.job.environment));
  }
  GPUMAN_TRY(CheckQueuedSharing(changed.request, inventory));
  GPUMAN_TRY(queue::Validate(changed.request));
  changed.job.queue_spec = QueueSpecOf(changed.request, before);
  job = std::move(changed);
  return {};
}

}  // namespace gpuman::daemon
