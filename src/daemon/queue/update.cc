#include "daemon/queue/update.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/queue_json.h"
#include "daemon/job_requests/job_request.h"
#include "jobs/bounds.h"
#include "spec/option_rules.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

bool OnlyForRunning(const api::JobQueueUpdate& update) {
  api::JobQueueUpdate rest = update;
  rest.options.fields.erase("time_limit_s");
  rest.options.fields.erase("retries");
  rest.options.fields.erase("max_concurrent");
  rest.array_limit.reset();
  rest.clear_array_limit = false;
  return rest == api::JobQueueUpdate{};
}

void ApplyCommand(const api::JobQueueUpdate& update, jobs::Job& job, spec::JobSpec& spec) {
  auto command = jobs::CommandOfUser(job);
  if (update.command) {
    command = *update.command;
    spec.script.clear();
  }
  if (update.script) {
    command = CommandOfScript(*update.script, {});
    spec.script = *update.script;
  }
  if (spec.conda_env) command = jobs::InConda(*spec.conda_env, command);
  job.command = std::move(command);
}

// A limit without a group makes the job a group of its own; without the limit, or without the group, there is
// neither.
void ApplyGroup(const api::OptionsPatch& patch, const std::string& tag, spec::JobOptions& options) {
  const bool sets_limit = patch.Find("max_concurrent") != nullptr;
  if (sets_limit && options.max_concurrent && !options.group) options.group = tag;
  if (sets_limit && !options.max_concurrent) options.group.reset();
}

Result<> ApplyOptions(const api::OptionsPatch& patch, const queue::ReferenceLookup& lookup,
                      const std::string& tag, spec::JobSpec& spec) {
  spec::JobRequest changed{spec};
  GPUMAN_TRY(api::SetOptions(patch, changed));
  ApplyGroup(patch, tag, changed);
  // Only what the patch sets has to agree with the others: a time limit that it sets may come before the time
  // of the warning, which then comes at once.
  GPUMAN_TRY(spec::FirstProblemOf([&](const spec::Report& report) {
    if (patch.Find("warn_signal") || patch.Find("warn_before_s")) spec::CheckWarning(changed, report);
    if (patch.Find("notify")) spec::CheckReceivers(changed, report);
  }));
  CompleteOptions(changed);
  static_cast<spec::JobOptions&>(spec) = changed;
  if (patch.Find("depends")) {
    GPUMAN_ASSIGN(spec.depends, queue::Resolve(changed.depends, lookup));
  }
  return {};
}

Result<> ApplyQueue(const api::JobQueueUpdate& update, const gpu::Inventory& inventory,
                    const queue::ReferenceLookup& lookup, jobs::Job& job, spec::JobSpec& spec) {
  if (update.name) job.tag = *update.name;
  GPUMAN_TRY(ApplyOptions(update.options, lookup, job.tag, spec));
  ApplyCommand(update, job, spec);
  if (update.gpus) {
    GPUMAN_ASSIGN(spec.gpus, GpusOf(*update.gpus, inventory));
  }
  if (job.array.array.value != 0 && (update.array_limit || update.clear_array_limit))
    job.array.limit = update.array_limit.value_or(0);
  return {};
}

// The size of `--memory auto` is chosen anew if the update asks for that, or changes what the size depends
// on. A size in the update takes its place. The answer is the note for the caller.
Result<std::string> ApplyMemory(const api::JobUpdate& update, const jobs::Job& before,
                                const MemoryChoiceContext& memory, const jobs::Job& job,
                                spec::JobSpec& spec) {
  const auto* const size = update.job.Find("memory");
  const bool asks = update.queue && update.queue->options.Find("memory_auto") != nullptr && spec.memory_auto;
  if (asks && size != nullptr && !size->is_null())
    return Fail(ErrorCode::kInvalidArgument, "memory_auto: there is a size as well; give one of them");
  if (asks && spec.gpus.count == 0)
    return Fail(ErrorCode::kInvalidArgument,
                "memory_auto: it chooses the memory of GPUs, and the job asks for none; give gpus.count");
  if (size != nullptr && !asks) spec.memory_auto = false;
  const bool depends =
      spec.gpus != before.spec->gpus || spec.soft != before.spec->soft || spec.share != before.spec->share;
  if (!spec.memory_auto || !(asks || (depends && jobs::IsWaiting(before)))) return std::string();
  return ChooseMemory(job, memory, spec);
}

}  // namespace

Result<> MayRewrite(const api::JobUpdate& update, uid_t caller, const jobs::Job& job) {
  const auto& queue = update.queue;
  const auto sets = [&](const char* option) { return queue->options.Find(option) != nullptr; };
  const bool rewrites = queue && (queue->command || queue->script || sets("conda_env") || sets("stdin") ||
                                  sets("stdout") || sets("stderr"));
  if (!rewrites || caller == 0 || caller == job.owner->uid) return {};
  return Fail(ErrorCode::kPermissionDenied,
              fmt::format("what job {} runs may only be changed by its owner and root", job.id.value),
              "it runs as its owner; an administrator can cancel it");
}

Result<std::string> ApplyQueueUpdate(const api::JobUpdate& update, const gpu::Inventory& inventory,
                                     const queue::ReferenceLookup& lookup, const MemoryChoiceContext& memory,
                                     jobs::Job& job) {
  if (!jobs::IsWaiting(job) && update.queue && !OnlyForRunning(*update.queue))
    return Fail(
        ErrorCode::kConflict,
        fmt::format("job {} does not wait any more: it is {}", job.id.value, spec::ToString(job.state)),
        "time_limit_s, max_concurrent, array_limit and retries.count can still be changed; `gpuman job redo` "
        "queues it again");
  if (update.job.Find("restart") != nullptr)
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("restart: job {} is of the queue, which repeats failed jobs by itself", job.id.value),
        "give --retries");
  GPUMAN_TRY(MayChangeCompute(update.job, job));
  jobs::Job changed = job;
  // A job that waits has no GPUs yet, so its limit may be more than the smallest GPU has; the queue checks
  // whether it could ever start.
  if (!jobs::IsWaiting(job)) GPUMAN_TRY(ApplyUpdate(update.job, inventory, changed));
  spec::JobSpec spec = *changed.spec;
  GPUMAN_TRY(api::SetOptions(update.job, spec));
  if (update.queue) {
    GPUMAN_TRY(ApplyQueue(*update.queue, inventory, lookup, changed, spec));
    GPUMAN_TRY(jobs::CheckExecutable(changed.command, *changed.environment));
  }
  GPUMAN_ASSIGN(auto note, ApplyMemory(update, job, memory, changed, spec));
  if (spec.memory != job.spec->memory || spec.soft != job.spec->soft || spec.gpus != job.spec->gpus) {
    GPUMAN_TRY(CountMemory(spec, inventory));
  }
  GPUMAN_TRY(CheckQueuedSharing(spec, inventory));
  GPUMAN_TRY(CheckLibrary(spec));
  GPUMAN_TRY(CheckMps(spec));
  GPUMAN_TRY(CheckTurnOptions(spec));
  GPUMAN_TRY(spec::ValidateForQueue(spec));
  changed.spec = std::move(spec);
  job = std::move(changed);
  return note;
}

}  // namespace gpuman::daemon
