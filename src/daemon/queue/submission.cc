#include "daemon/queue/submission.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <sstream>

#include "api/queue_json.h"
#include "daemon/job_requests/job_request.h"
#include "jobs/bounds.h"
#include "jobs/text_account.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

constexpr spec::Signal kUsualWarning{SIGUSR1};
constexpr base::Millis kUsualWarningTime{60'000};
constexpr std::size_t kMaxDependencies = 1'000'000;
constexpr std::size_t kMaxNotes = 5;

std::map<std::string, std::string> EnvironmentOf(const std::map<std::string, std::string>& asked,
                                                 const SubmissionContext& context) {
  auto environment = asked;
  AddDriverEnvironment(context.driver_environment, environment);
  return environment;
}

// The bytes of a size on each GPU. A percentage is of the smallest GPU that fits the request.
Result<std::optional<base::Bytes>> OnEachGpu(std::string_view field,
                                             const std::optional<base::SizeSpec>& size,
                                             const spec::GpuRequest& gpus, const gpu::Inventory& inventory) {
  if (!size) return std::optional<base::Bytes>{};
  if (!size->IsRelative()) return std::optional(size->bytes);
  std::optional<base::Bytes> least;
  for (const auto& gpu : inventory.gpus) {
    if (gpu.split) continue;
    const bool named = std::find(gpus.devices.begin(), gpus.devices.end(), gpu.uuid) != gpus.devices.end();
    if (gpus.devices.empty() || named) least = least ? std::min(*least, gpu.memory) : gpu.memory;
  }
  if (!least)
    return Fail(ErrorCode::kUnsatisfiable,
                fmt::format("{}: a percentage of a GPU, and there is no GPU here", field));
  return std::optional(size->Of(*least));
}

// `job`: the rest of the job, with its name. `note`: is set if the memory was chosen.
Result<spec::JobSpec> SpecFrom(const api::Submission& asked, const SubmissionContext& context,
                               const queue::ReferenceLookup& lookup, const jobs::Job& job,
                               std::string& note) {
  spec::JobSpec spec;
  static_cast<spec::JobOptions&>(spec) = asked;
  spec.script = asked.script.value_or("");
  GPUMAN_ASSIGN(spec.gpus, GpusOf(asked.gpus, context.inventory));
  if (spec.memory_auto) note = ChooseMemory(job, context.memory, spec);
  GPUMAN_TRY(CountMemory(spec, context.inventory));
  GPUMAN_TRY(CheckQueuedSharing(spec, context.inventory));
  GPUMAN_TRY(CheckLibrary(spec));
  GPUMAN_TRY(CheckMps(spec));
  GPUMAN_TRY(CheckTurnOptions(spec));
  CompleteOptions(spec);
  GPUMAN_ASSIGN(spec.depends, queue::Resolve(asked.depends, lookup));
  GPUMAN_TRY(spec::ValidateForQueue(spec));
  return spec;
}

Result<jobs::Job> JobFrom(const api::Submission& asked, const api::SubmitRequest& all,
                          const jobs::Environment& common, const SubmissionContext& context) {
  jobs::Job job;
  job.queued = true;
  job.state = asked.hold ? spec::JobState::kHeld : spec::JobState::kQueued;
  if (asked.hold) {
    job.reason = "held_by_user";
    job.reason_detail = "submitted on hold by " + context.caller.user;
  }
  job.owner =
      jobs::JobOwner{context.caller.uid, context.caller.gid, context.caller.groups, context.caller.user};
  job.command = asked.script ? CommandOfScript(*asked.script, asked.arguments) : asked.command;
  if (asked.conda_env) job.command = jobs::InConda(*asked.conda_env, job.command);
  job.directory = asked.directory.empty() ? all.directory : asked.directory;
  if (job.directory->empty() || job.directory->front() != '/')
    return Fail(ErrorCode::kInvalidArgument, fmt::format("directory: '{}' is not absolute", *job.directory));
  job.environment =
      asked.environment ? jobs::Environment(EnvironmentOf(*asked.environment, context)) : common;
  job.umask = asked.umask.value_or(all.umask);
  job.resource_limits = context.resource_limits;
  GPUMAN_TRY(jobs::CheckExecutable(job.command, *job.environment));
  return job;
}

}  // namespace

Result<> CountMemory(spec::JobSpec& spec, const gpu::Inventory& inventory) {
  GPUMAN_ASSIGN(spec.memory_on_each, OnEachGpu("memory", spec.memory, spec.gpus, inventory));
  GPUMAN_ASSIGN(const auto soft, OnEachGpu("soft", spec.soft, spec.gpus, inventory));
  if (soft && spec.memory_on_each && *soft > *spec.memory_on_each)
    return Fail(ErrorCode::kInvalidArgument, "soft: the soft limit is above the hard one",
                "the soft limit warns before the hard one ends the job");
  return {};
}

void CompleteOptions(spec::JobOptions& options) {
  if (!options.time_limit) {
    options.warn_signal.reset();
    options.warn_before.reset();
  } else if (options.warn_signal || options.warn_before) {
    options.warn_signal = options.warn_signal.value_or(kUsualWarning);
    options.warn_before = options.warn_before.value_or(std::min(kUsualWarningTime, *options.time_limit));
  }
  if (options.group)
    options.max_concurrent = options.max_concurrent.value_or(1);
  else
    options.max_concurrent.reset();
}

Result<> CheckQueuedSharing(const spec::JobSpec& spec, const gpu::Inventory& inventory) {
  const auto& named = spec.gpus.devices;
  return named.empty() ? Result<>{} : CheckSharing(spec.share, named, inventory);
}

Result<spec::GpuRequest> GpusOf(const spec::GpuRequest& asked, const gpu::Inventory& inventory) {
  spec::GpuRequest gpus{asked.count, {}, asked.model, {}};
  if (!asked.devices.empty()) {
    auto devices = gpu::SelectAll(inventory.gpus, asked.devices);
    if (!devices) return Fail(std::move(devices.error()).In("gpus.devices"));
    GPUMAN_TRY(gpu::CanBeHad(inventory.gpus, *devices));
    for (const auto& gpu : *devices) gpus.devices.push_back(gpu.uuid);
    gpus.count = static_cast<int>(gpus.devices.size());
  } else if (gpus.count == 0 && (gpus.model || asked.free_memory)) {
    gpus.count = 1;
  }
  GPUMAN_ASSIGN(const auto free, OnEachGpu("gpus.free_memory", asked.free_memory, gpus, inventory));
  if (free) gpus.free_memory = base::SizeSpec{*free, 0};
  return gpus;
}

std::vector<std::string> CommandOfScript(const std::string& script,
                                         const std::vector<std::string>& arguments) {
  std::vector<std::string> command;
  if (script.starts_with("#!")) {
    std::istringstream words(script.substr(2, script.find('\n') - 2));
    for (std::string word; words >> word;) command.push_back(word);
  }
  if (command.empty()) command = {"/bin/sh"};
  command.emplace_back(keeper::kScriptArgument);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::optional<spec::ArrayTask> ArrayOf(const jobs::Job& job) {
  if (job.array.array.value == 0) return std::nullopt;
  return job.array;
}

std::size_t CountJobs(const api::SubmitRequest& submitted) {
  std::size_t count = 0;
  for (const auto& job : submitted.jobs)
    count += job.array ? static_cast<std::size_t>(api::CountTasks(*job.array)) : 1;
  return count;
}

base::Bytes TextOf(const api::SubmitRequest& submitted) {
  base::Bytes text = jobs::SizeOf(submitted.environment);
  for (const auto& job : submitted.jobs) {
    const auto tasks = job.array ? static_cast<std::uint64_t>(api::CountTasks(*job.array)) : 1;
    const auto command = jobs::SizeOf(job.command).count + jobs::SizeOf(job.arguments).count;
    text += {tasks * command};
    if (job.script) text += {job.script->size()};
    if (job.environment) text += jobs::SizeOf(*job.environment);
  }
  return text;
}

SubmissionPreparer::SubmissionPreparer(const api::SubmitRequest& submitted, const SubmissionContext& context)
    : submitted_(submitted),
      context_(context),
      common_(EnvironmentOf(submitted.environment, context)),
      lookup_([this](const queue::Reference& reference) { return Find(reference); }) {
  prepared_.jobs.reserve(CountJobs(submitted));  // growing later would move all jobs at once
  named_.reserve(submitted.jobs.size());
}

std::vector<base::JobId> SubmissionPreparer::Find(const queue::Reference& reference) const {
  using Kind = queue::Reference::Kind;
  const auto tasks_of = [&](base::JobId head) {
    std::vector<base::JobId> ids{head};
    const auto& own = prepared_.jobs;
    for (auto at = static_cast<std::size_t>(head.value - context_.first_id.value) + 1; at < own.size();
         ++at) {
      if (own[at].array.array != head) break;
      ids.push_back({context_.first_id.value + static_cast<std::int64_t>(at)});
    }
    return ids;
  };
  if (reference.kind == Kind::kRecent) {
    const auto back = static_cast<std::size_t>(reference.back);
    if (back < heads_.size()) return tasks_of(heads_[heads_.size() - 1 - back]);
    queue::Reference earlier = reference;
    earlier.back -= static_cast<int>(heads_.size());
    return context_.lookup(earlier);
  }
  if (reference.kind == Kind::kTag)
    if (const auto own = named_.find(reference.tag); own != named_.end()) return tasks_of(own->second);
  return context_.lookup(reference);
}

// Each job's view lists all jobs that it waits for, so their number has a bound.
Result<> SubmissionPreparer::CountDependencies(const api::Submission& asked,
                                               const spec::Dependencies& depends) {
  std::size_t tasks = asked.array ? 0 : 1;
  if (asked.array)
    for (const auto& range : asked.array->indices)
      tasks += static_cast<std::size_t>((range.last - range.first) / range.step) + 1;
  dependencies_ += tasks * depends.list.size();
  if (dependencies_ <= kMaxDependencies) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("depends: {} jobs that wait for {} each are too many: at most {} dependencies can be "
                  "submitted at once",
                  tasks, depends.list.size(), kMaxDependencies),
      "put a job between that waits for all of them, as `-- true` does, and wait for that one");
}

Result<> SubmissionPreparer::One(const api::Submission& asked) {
  GPUMAN_ASSIGN(auto job, JobFrom(asked, submitted_, common_, context_));
  auto& jobs = prepared_.jobs;
  const base::JobId head{context_.first_id.value + static_cast<std::int64_t>(jobs.size())};
  // The ids of a dry run are not those that the jobs will get.
  job.tag = asked.name.value_or(submitted_.dry_run ? "" : fmt::format("job-{}", head.value));
  std::string note;
  job.id = head;  // until its spec is made, as the job is accounted by its name
  GPUMAN_ASSIGN(auto spec, SpecFrom(asked, context_, lookup_, job, note));
  job.id = {};
  if (!note.empty()) AddNote(std::move(note));
  GPUMAN_TRY(CountDependencies(asked, spec.depends));
  job.spec = std::move(spec);
  named_.insert_or_assign(job.tag, head);
  heads_.push_back(head);
  prepared_.heads.push_back(jobs.size());
  if (!asked.array) {
    jobs.push_back(std::move(job));
    return {};
  }
  const auto& ranges = asked.array->indices;
  tasks_.emplace(Tasks{*asked.array, std::move(job), head, 0, ranges.empty() ? 0 : ranges.front().first});
  return {};
}

void SubmissionPreparer::AddNote(std::string note) {
  auto& notes = prepared_.notes;
  if (std::find(notes.begin(), notes.end(), note) != notes.end()) return;
  if (notes.size() < kMaxNotes)
    notes.push_back(std::move(note));
  else
    ++left_out_;
}

PreparedSubmission SubmissionPreparer::Take() {
  if (left_out_ > 0)
    prepared_.notes.push_back(fmt::format("memory: chosen in the same way for {} more jobs", left_out_));
  return std::move(prepared_);
}

// Makes tasks until there are `end` jobs in all, or no more tasks of the array.
void SubmissionPreparer::SomeTasks(std::size_t end) {
  auto& [array, task, head, range, index] = *tasks_;
  const auto& ranges = array.indices;
  while (range < ranges.size() && prepared_.jobs.size() < end) {
    if (index > ranges[range].last) {
      if (++range < ranges.size()) index = ranges[range].first;
      continue;
    }
    task.array = {head, index, array.limit.value_or(0)};
    prepared_.jobs.push_back(task);
    index += ranges[range].step;
  }
  if (range >= ranges.size()) tasks_.reset();
}

Result<bool> SubmissionPreparer::Continue(std::size_t most) {
  const auto& asked = submitted_.jobs;
  const std::size_t made = prepared_.jobs.size();
  const std::size_t end = most < SIZE_MAX - made ? made + most : SIZE_MAX;
  while (prepared_.jobs.size() < end) {
    if (tasks_) {
      SomeTasks(end);
      continue;
    }
    if (at_ == asked.size()) return false;
    auto one = One(asked[at_]);
    if (!one) {
      if (asked.size() > 1) one.error().message.insert(0, fmt::format("jobs[{}].", at_));
      return Fail(std::move(one.error()));
    }
    ++at_;
  }
  return tasks_ || at_ < asked.size();
}

Result<PreparedSubmission> Prepare(const api::SubmitRequest& submitted, const SubmissionContext& context) {
  SubmissionPreparer preparation(submitted, context);
  GPUMAN_TRY(preparation.Continue(SIZE_MAX));
  return preparation.Take();
}

}  // namespace gpuman::daemon
