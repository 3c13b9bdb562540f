#include "api/queue_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "api/queue_json.h"
#include "base/text.h"
#include "spec/option_rules.h"

namespace gpuman::api {
namespace {

constexpr std::size_t kMaxJobs = 100'000;  // in one request
constexpr std::size_t kLargestScript = std::size_t{8} << 20;

// The job, and its place in the request.
class Checker {
 public:
  Checker(base::json::ParseState& state, const std::string& path) : state_(state), path_(path) {}

  void Fail(std::string_view field, std::string_view what) {
    if (!state_.failed()) state_.Fail(path_ + std::string(field), what);
  }
  spec::Report Report() {
    return [this](std::string_view field, const std::string& problem) { Fail(field, problem); };
  }
  void Require(bool true_for, std::string_view field, std::string_view what) {
    if (!true_for) Fail(field, what);
  }
  template <typename T>
  void Range(std::string_view field, T value, T least, T most) {
    if (value < least || value > most)
      Fail(field, fmt::format("{} lies outside {} to {}", value, least, most));
  }
  template <typename T>
  void Range(std::string_view field, const std::optional<T>& value, T least, T most) {
    if (value) Range(field, *value, least, most);
  }
  void NotEmpty(std::string_view field, const std::optional<std::string>& text) {
    if (text) Require(!text->empty(), field, "it is empty");
  }

 private:
  base::json::ParseState& state_;
  const std::string& path_;
};

bool IsOfId(char c) { return base::IsDigit(c) || c == '_'; }

// Commands take "7" and "7_3" as ids, "5-9" as a range of ids, "slurm-7" and "slurm-7_3" as jobs of Slurm,
// "@" and "@~1" as jobs submitted before.
bool LooksLikeId(std::string_view name) {
  constexpr std::string_view kOfSlurm = "slurm-";
  const bool of_slurm = name.starts_with(kOfSlurm) && name.size() > kOfSlurm.size();
  const auto id = of_slurm ? name.substr(kOfSlurm.size()) : name;
  if (name.starts_with('@') || std::all_of(id.begin(), id.end(), IsOfId)) return true;
  const auto dash = name.find('-');
  return dash != std::string_view::npos && base::AreDigits(name.substr(0, dash)) &&
         base::AreDigits(name.substr(dash + 1));
}

bool IsOfTag(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("._-+:@").find(c) != std::string_view::npos;
}

void CheckName(Checker& c, const std::optional<std::string>& name) {
  if (!name) return;
  if (const auto wrong = WrongWithName(*name)) c.Fail("name", *wrong);
}

void CheckCommand(Checker& c, const Submission& job) {
  const bool command = !job.command.empty();
  c.Require(command || job.script, "command", "there is no command and no script to run");
  c.Require(!command || !job.script, "script", "there is a command as well; give one of them");
  if (command) c.Require(!job.command.front().empty(), "command", "the program's name is empty");
  if (job.script) {
    c.Require(job.script->find_first_not_of(" \t\r\n") != std::string::npos, "script", "it is empty");
    c.Require(job.script->size() <= kLargestScript, "script", "it is larger than 8MiB; put it into a file");
  }
  c.Require(job.arguments.empty() || job.script, "arguments",
            "only a script takes them; a command has its arguments in itself");
}

void CheckGpus(Checker& c, const spec::GpuRequest& gpus) {
  spec::CheckGpuRequest(gpus, c.Report());
  const bool none = gpus.count == 0 && gpus.devices.empty();
  constexpr const char* kHowMany = "it says which GPUs, and nothing says how many; give gpus.count";
  if (gpus.model) c.Require(!none, "gpus.model", kHowMany);
  if (gpus.free_memory) c.Require(!none, "gpus.free_memory", kHowMany);
}

void CheckMemory(Checker& c, const Submission& job) {
  const bool none = job.gpus.count == 0 && job.gpus.devices.empty();
  if (job.memory)
    c.Require(!none, "memory", "it limits the memory of GPUs, and the job asks for none; give gpus.count");
  if (job.memory_auto) {
    c.Require(!none, "memory_auto",
              "it chooses the memory of GPUs, and the job asks for none; give gpus.count");
    c.Require(!job.memory, "memory_auto", "there is a size as well; give one of them");
  }
  if (job.share) {
    c.Require(!none, "share", "there are no GPUs to share; ask for some with gpus.count");
    c.Require(job.memory || job.memory_auto, "memory",
              "a job that shares its GPUs has to say how much of each it needs at most");
  }
  if (job.soft) {
    c.Require(!none, "soft", "it is about the memory of GPUs, and the job asks for none; give gpus.count");
    if (job.memory && job.memory->IsRelative() == job.soft->IsRelative())
      c.Require(job.soft->bytes <= job.memory->bytes && job.soft->percent <= job.memory->percent, "soft",
                "it lies above memory");
  }
}

void CheckArray(Checker& c, const ArrayRequest& array) {
  c.Require(!array.indices.empty(), "array.indices", "there are none");
  std::int64_t before = -1;
  for (const auto& range : array.indices) {
    c.Require(range.first >= 0, "array.indices", fmt::format("{} is negative", range.first));
    c.Require(range.step >= 1, "array.indices", fmt::format("a step of {} leads nowhere", range.step));
    c.Require(range.last >= range.first, "array.indices",
              fmt::format("{} to {} runs backwards", range.first, range.last));
    c.Require(range.first > before, "array.indices",
              fmt::format("{} comes after {}; write them in order, each once", range.first, before));
    before = range.last;
  }
  const std::int64_t tasks = CountTasks(array);
  c.Require(tasks <= kMaxArrayTasks, "array.indices",
            fmt::format("{} tasks are more than {}", tasks, kMaxArrayTasks));
  if (array.limit)
    c.Require(*array.limit >= 1, "array.limit", fmt::format("{} is less than 1", *array.limit));
}

// Holds for a new job. An update may set the codes first and the count later.
void CheckCodesHaveRetries(Checker& c, const spec::Retries& retries) {
  c.Require(retries.on_exit_codes.empty() || retries.count > 0, "retries.on_exit_codes",
            "they are for retries, and there are none; give retries.count");
}

void CheckDepends(Checker& c, const spec::NamedDependencies& depends) {
  for (const auto& dependency : depends.list)
    c.Require(!dependency.job.empty(), "depends", "a dependency names no job");
}

}  // namespace

std::optional<std::string> WrongWithName(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.size() > spec::kLongestName)
    return fmt::format("'{}…' has more than {} bytes", name.substr(0, 20), spec::kLongestName);
  if (name.front() == '-') return fmt::format("'{}' begins with '-', as options do", name);
  if (LooksLikeId(name)) return fmt::format("'{}' could be the number of a job; add a letter", name);
  if (std::all_of(name.begin(), name.end(), IsOfTag)) return std::nullopt;
  return fmt::format("'{}' has other characters than letters, digits and . _ - + : @", name);
}

std::int64_t CountTasks(const ArrayRequest& array) {
  std::int64_t tasks = 0;
  for (const auto& range : array.indices)
    if (range.step >= 1 && range.last >= range.first)
      tasks += (std::int64_t{range.last} - range.first) / range.step + 1;
  return tasks;
}

void CheckSubmission(base::json::ParseState& r, const std::string& path, const Submission& job) {
  Checker c(r, path);
  CheckName(c, job.name);
  CheckCommand(c, job);
  spec::CheckDirectory(job.directory, c.Report());
  if (job.environment) spec::CheckEnvironment(*job.environment, c.Report());
  if (job.umask) spec::CheckUmask(*job.umask, c.Report());
  CheckGpus(c, job.gpus);
  CheckMemory(c, job);
  spec::CheckJobOptions(job, c.Report());
  CheckCodesHaveRetries(c, job.retries);
  spec::CheckWarning(job, c.Report());
  CheckDepends(c, job.depends);
  if (job.array) CheckArray(c, *job.array);
  spec::CheckGroup(job, c.Report());
  spec::CheckReceivers(job, c.Report());
}

void Check(base::json::ParseState& r, const SubmitRequest& request) {
  const std::string none;
  Checker c(r, none);
  c.Require(!request.jobs.empty(), "jobs", "there are none");
  c.Require(request.jobs.size() <= kMaxJobs, "jobs",
            fmt::format("{} are more than {}; an array is one", request.jobs.size(), kMaxJobs));
  spec::CheckDirectory(request.directory, c.Report());
  spec::CheckEnvironment(request.environment, c.Report());
  spec::CheckUmask(request.umask, c.Report());
  for (std::size_t i = 0; i < request.jobs.size() && !r.failed(); ++i)
    CheckSubmission(r, fmt::format("jobs[{}].", i), request.jobs[i]);
}

namespace {

// Checks what a patch sets, by itself.
template <typename Options, typename Patch, typename Check>
void CheckChange(Checker& c, const Patch& patch, Check check) {
  Options options;
  if (const auto set = SetOptions(patch, options); !set)
    c.Fail("", set.error().message);
  else
    check(options);
}

void CheckUpdate(base::json::ParseState& r, const std::string& path, const JobUpdate& update) {
  Checker job(r, path);
  CheckChange<spec::RunOptions>(job, update.job, [&](const spec::RunOptions& options) {
    spec::CheckRunOptions(options, job.Report());
  });
  if (!update.queue) return;
  const JobQueueUpdate& queue = *update.queue;
  const std::string inner = path + "queue.";
  Checker c(r, inner);
  CheckName(c, queue.name);
  if (queue.command)
    c.Require(!queue.command->empty() && !queue.command->front().empty(), "command", "it is empty");
  c.NotEmpty("script", queue.script);
  c.Require(!queue.command || !queue.script, "script", "there is a command as well; give one of them");
  if (queue.gpus) CheckGpus(c, *queue.gpus);
  c.Range("array_limit", queue.array_limit, 1, kMaxArrayTasks);
  CheckChange<spec::JobRequest>(c, queue.options, [&](const spec::JobRequest& options) {
    CheckDepends(c, options.depends);
    spec::CheckJobOptions(options, c.Report());
  });
}

}  // namespace

void Check(base::json::ParseState& r, const RunOptionsPatch& update) { CheckUpdate(r, "", {update, {}}); }
void Check(base::json::ParseState& r, const JobUpdate& update) { CheckUpdate(r, "", update); }
void Check(base::json::ParseState& r, const RedoRequest& request) {
  CheckUpdate(r, "changes.", request.changes);
}

void Check(base::json::ParseState& r, const CancelRequest& request) {
  if (request.jobs.empty()) r.Fail("jobs", "there are none");
  for (const auto& job : request.jobs)
    if (job.empty()) r.Fail("jobs", "the name of a job is empty");
}

void Check(base::json::ParseState& r, const QueueSettingsUpdate& update) {
  if (update.allowed)
    for (const auto& gpu : *update.allowed)
      if (gpu.empty()) r.Fail("allowed", "the name of a GPU is empty");
}

void Check(base::json::ParseState& r, const ReservationRequest& request) {
  const std::string none;
  Checker c(r, none);
  c.Require(!request.user.empty(), "user", "it is empty");
  c.Range("count", request.count, 0, spec::kMaxGpusOfJob);
  c.Require(request.count > 0 || !request.devices.empty(), "count",
            "no GPU is reserved; give their number, or name them");
  c.Require(request.count == 0 || request.devices.empty() ||
                request.count == static_cast<int>(request.devices.size()),
            "count",
            fmt::format("{} GPUs are asked for and {} are named; leave the number out", request.count,
                        request.devices.size()));
  c.Require(request.duration.count() > 0, "duration_s", "it is zero");
}

void Check(base::json::ParseState& r, const QuotaUpdate& update) {
  const std::string none;
  Checker c(r, none);
  constexpr int kMax = 1'000'000'000;
  QuotaLimits limits;
  if (const auto set = SetLimits(update, limits); !set) return c.Fail("", set.error().message);
  c.Range("running_jobs", limits.running_jobs, 0, kMax);
  c.Range("gpus", limits.gpus, 0, kMax);
  c.Range("queued_jobs", limits.queued_jobs, 0, kMax);
  c.Range("gpu_hours", limits.gpu_hours, 0.0, 1e12);
  c.Range("shares", limits.shares, 0.001, 1e9);
}

void Check(base::json::ParseState& r, const IgnoreRuleView& rule) {
  if (!rule.pid && !rule.user && !rule.name)
    r.Fail("", "a rule says which process is ignored: by pid, user or name");
  if (rule.pid && *rule.pid < 1) r.Fail("pid", fmt::format("{} is no process", *rule.pid));
}

}  // namespace gpuman::api
