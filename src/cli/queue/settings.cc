#include "cli/queue/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <utility>

#include "cli/take.h"
#include "cli/values.h"
#include "spec/option_rules.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;
using base::Result;
using take::Duration;
using take::Flag;
using take::Into;
using take::Size;
using take::Text;

// Clears a list at its first option in a source.
template <typename T>
void Begin(SubmitSettings& s, const char* list, std::vector<T>& values) {
  if (s.touched.insert(list).second) values.clear();
}
Take List(SubmitSettings& s, const char* name, std::vector<std::string>& list) {
  return [&s, name, &list](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(auto parts, SplitList(text));
    Begin(s, name, list);
    list.insert(list.end(), parts.begin(), parts.end());
    return {};
  };
}

// Does not split at commas: a URL may contain some.
Take Whole(SubmitSettings& s, const char* name, std::vector<std::string>& list) {
  return [&s, name, &list](const std::string& text) -> Result<> {
    Begin(s, name, list);
    list.push_back(text);
    return {};
  };
}

Take Depends(SubmitSettings& s, std::optional<spec::DependencyMode> mode) {
  return [&s, mode](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(auto more, ParseDependencies(text));
    auto& depends = s.job.depends;
    if (s.touched.insert("depends").second) depends = {};
    if (mode) more.mode = *mode;
    if (!depends.list.empty() && depends.mode != more.mode)
      return base::Fail(ErrorCode::kInvalidArgument,
                        "one job cannot wait for all of some jobs and for any of others",
                        "queue another job that waits for the one part, and let this one wait for it");
    depends.mode = more.mode;
    depends.list.insert(depends.list.end(), more.list.begin(), more.list.end());
    return {};
  };
}

Take Count(SubmitSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(const GpuCount gpus, ParseGpuCount(text));
    s.job.gpus.count = gpus.count;
    if (gpus.model) s.job.gpus.model = gpus.model;
    if (!s.touched.contains("devices")) s.job.gpus.devices.clear();
    s.touched.insert("count");
    return {};
  };
}
Take Devices(SubmitSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(const auto gpus, ParseGpus(text));
    if (s.touched.insert("devices").second) s.job.gpus.devices.clear();
    if (!s.touched.contains("count")) s.job.gpus.count = 0;
    s.job.gpus.devices.insert(s.job.gpus.devices.end(), gpus.begin(), gpus.end());
    return {};
  };
}

Take Warn(SubmitSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(const WarningSignal warning, ParseWarning(text));
    s.job.warn_signal = warning.signal;
    s.job.warn_before = warning.before;
    return {};
  };
}

Take ExitCodes(SubmitSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(const auto more, ParseExitCodes(text));
    auto& codes = s.job.retries.on_exit_codes;
    if (s.touched.insert("retry-on").second) codes.clear();
    codes.insert(codes.end(), more.begin(), more.end());
    return {};
  };
}

Take Parameters(SubmitSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(Parameter parameter, ParseParameter(text));
    if (s.touched.insert("param").second) s.parameters.clear();
    for (const auto& known : s.parameters)
      if (known.name == parameter.name)
        return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is given twice", parameter.name));
    s.parameters.push_back(std::move(parameter));
    return {};
  };
}

Take NotifyOn(SubmitSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(const auto more, ParseNotifyOn(text));
    auto& on = s.job.notify.on;
    Begin(s, "notify-on", on);
    on.insert(on.end(), more.begin(), more.end());
    return {};
  };
}

// "auto": the daemon chooses the size.
Take SizeOrAuto(spec::JobOptions& job) {
  return [&job](const std::string& text) -> Result<> {
    job.memory_auto = text == "auto";
    job.memory.reset();
    return job.memory_auto ? Result<>{} : Size(job.memory)(text);
  };
}

Take MpsThreads(SubmitSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(s.job.mps_threads, ParsePercentage(text));
    s.job.mps = true;
    return {};
  };
}

// Adds options under one heading of the help. `sets`: as in Option; `job update` and `redo` take those
// options too that an update may change, and `update` those that change while the job runs.
auto Under(Options& table, std::string heading) {
  return [&table, heading = std::move(heading)](std::string names, std::string value, std::string help,
                                                Take take, std::string sets = {}) {
    table.push_back(
        {std::move(names), std::move(value), std::move(help), std::move(take), heading, std::move(sets)});
  };
}

void AddMain(Options& table, SubmitSettings& s) {
  auto& job = s.job;
  const auto add = Under(table, "Options");
  add("-g,--gpus,--gres", "N", "Number of GPUs (default: 0)", Count(s), "gpus.count");
  add("-m,--memory,--gpu-memory", "SIZE",
      "Memory limit on each of its GPUs: 512MiB, 8G, 50%, or auto: what past runs of its name used",
      SizeOrAuto(job), "memory");
  add("--time,--time-limit,--timelimit", "TIME", "Time limit: 90s, 30m, 2h, 1d, H:M:S",
      Duration(job.time_limit), "time_limit_s");
  add("-n,--name,--tag,--job-name", "NAME", "Name of the job (default: job-ID)", Into(job.name, ParseName),
      "name");
  add("-w,--wait", "", "Show its output and exit with its exit status", Flag(s.wait));
  add("-d,--depends,--depends-on,--dependency", "JOBS",
      "Start after these jobs: 7,train,@ or afterok:7,afterany:8,afternotok:lr-*,after:10", Depends(s, {}),
      "depends");
  add("--depends-on-all", "JOBS", "", Depends(s, spec::DependencyMode::kAll));
  add("-a,--array", "INDICES",
      "One task for each index: 0-99, 0-99:2 or 1,3,5; 0-99%4 runs at most four at once",
      Into(job.array, ParseArray), "array");
  add("-o,--output", "FILE", "File for its output instead of its log; %j id, %A array, %a task, %x name",
      Text(job.stdout_file), "stdout");
  add("-c,--command", "STRING", "The command as one string, which /bin/sh would understand", Text(s.command),
      "command");
  add("--dry-run", "", "Show what would happen, and when; queue nothing", Flag(s.dry_run));
}

void AddGpus(Options& table, SubmitSettings& s) {
  auto& job = s.job;
  const auto add = Under(table, "GPUs");
  add("--gpu", "GPU", "Exactly this GPU, by index or UUID, or a MIG instance (0:1); repeat for more",
      Devices(s), "gpus.devices");
  add("--gpu-model", "TEXT", "Only GPUs whose name contains this text: h200", Text(job.gpus.model),
      "gpus.model");
  add("--gpu-free", "SIZE", "Only GPUs with at least this much free memory", Size(job.gpus.free_memory),
      "gpus.free_memory");
  add("--soft", "SIZE", "Soft memory limit: above it gpuman warns", Size(job.soft), "soft");
  add("--share", "", "Share its GPUs with other jobs that use --share; needs --memory", Flag(job.share),
      "share");
  add("--weight", "N", "Its part of the turns on a shared GPU; 2 gets twice as much as 1",
      Into(job.weight, ParseWeight), "weight");
  add("--interactive", "",
      "It works in short bursts, for each of which somebody waits: it gets a shared GPU soon",
      Flag(job.interactive), "interactive");
  add("--compute", "PERCENT",
      "Its share of the time of a shared GPU: 30% at most, or 30%+ to use what others leave",
      Into(job.compute, spec::ParseComputeShare), "compute");
  add("--latency", "", "Its work goes first on a shared GPU: while it has work, other jobs are held back",
      Flag(job.latency), "latency");
  add("--idle-suspend", "TIME",
      "Without a GPU call for so long it leaves its GPU; its next call brings it back",
      Duration(job.idle_suspend), "idle_suspend_s");
  add("--oversubscribe", "", "Let a process allocate more memory than its GPU has, which is slow",
      Flag(job.oversubscribe), "oversubscribe");
  add("--mps", "", "Run its processes as clients of the GPU's MPS server", Flag(job.mps), "mps");
  add("--mps-threads", "PERCENT", "As --mps, and limit each process to this part of the GPU's threads: 25%",
      MpsThreads(s), "mps_threads");
  add("--device-profile", "NAME", "Clocks and power limit while no other job uses its GPUs",
      Text(job.device_profile), "device_profile");
  add("--visible-devices", "index|uuid", "How CUDA_VISIBLE_DEVICES names its GPUs", Text(s.visible_devices));
  add("--trace-allocations", "", "Write down who allocates GPU memory, for gpuman why --allocations",
      Flag(job.trace_allocations), "trace_allocations");
  add("--no-preload", "", "Do not load libgpuman.so into it; the daemon alone enforces its limit",
      Flag(job.preload, false), "preload");
}

void AddWhen(Options& table, SubmitSettings& s, base::WallTime now) {
  auto& job = s.job;
  const auto add = Under(table, "When it starts");
  add("-p,--priority,--nice", "N", "0 to 255 (default: 128); a higher one starts sooner",
      take::Integer(job.priority, spec::kLowestPriority, spec::kHighestPriority), "priority");
  add("-b,--begin", "TIME", "Start no earlier than this: 22:00, 2026-02-01T08:00, now+2h, tomorrow",
      Into(job.begin, [now](const std::string& text) { return ParseTime(text, now); }), "begin");
  add("--depends-any,--depends-on-any", "JOBS", "As --depends, but one of these jobs is enough",
      Depends(s, spec::DependencyMode::kAny));
  add("--no-auto-cancel", "", "Stay in the queue when a dependency can no longer be met",
      Flag(job.auto_cancel, false), "auto_cancel");
  add("-H,--hold", "", "Do not start it before gpuman job release", Flag(job.hold));
  add("--preemptible", "", "Jobs with a higher priority may take its GPUs; it continues later",
      Flag(job.preemptible), "preemptible");
}

void AddMany(Options& table, SubmitSettings& s) {
  auto& job = s.job;
  const auto add = Under(table, "Many jobs");
  add("--param", "NAME=VALUES",
      "One job for each value, which replaces {NAME} in the command: lr=0.1,0.01 or seed=1:10",
      Parameters(s));
  add("--param-file", "FILE", "One job for each line of a CSV file; its first line has the names",
      Text(s.parameter_file));
  add("--name-template", "TEXT", "Name of each job of --param: run-{lr}-{seed}", Text(s.name_template));
  add("--max-concurrent", "N", "Run at most N of these jobs, or of the jobs of --group, at once",
      take::Integer(job.max_concurrent, 1, spec::kMaxConcurrent), "max_concurrent");
  add("--group", "NAME", "Group of jobs that --max-concurrent counts", Text(job.group), "group");
  add("--jobs", "FILE", "Queue many jobs, all or none: a file with OPTIONS -- COMMAND or JSON on each line",
      Text(s.jobs_file));
}

void AddHost(Options& table, SubmitSettings& s) {
  auto& job = s.job;
  const auto add = Under(table, "Machine, files and environment");
  add("--cpus", "N", "Number of CPUs", take::Integer(job.cpus, 1, spec::kMaxCpus), "cpus");
  add("--host-memory", "SIZE", "Limit on the machine's memory, enforced where cgroups allow it",
      Into(job.host_memory, base::ParseBytes), "host_memory");
  add("-D,--directory", "DIR", "Working directory (default: the current one)", Text(job.directory),
      "directory");
  add("--export", "LIST", "Environment variables: all (default), none, NAMES, NAME=VALUE",
      List(s, "export", s.export_parts));
  add("--conda-env", "NAME", "Run it in this conda environment", Text(job.conda_env), "conda_env");
  add("-i,--input", "FILE", "File for its standard input (default: none)", Text(job.stdin_file), "stdin");
  add("-e,--error", "FILE", "File for its error output (default: as --output)", Text(job.stderr_file),
      "stderr");
}

void AddEnd(Options& table, SubmitSettings& s) {
  auto& job = s.job;
  const auto add = Under(table, "When it ends");
  add("--retries,--max-retries", "N", "Run it again up to N times when it fails",
      take::Integer(job.retries.count, 0, spec::kMaxRetries), "retries.count");
  add("--retry-delay", "TIME", "Time between a failure and the next run",
      Into(job.retries.delay, base::ParseDuration), "retries.delay_s");
  add("--retry-on", "CODES", "Run it again only after these exit codes: 1,75", ExitCodes(s),
      "retries.on_exit_codes");
  add("--warn", "[SIGNAL@]TIME", "Send a signal this long before the time limit: USR1@60s", Warn(s),
      "warn_before_s");
  add("--grace", "TIME", "Time between SIGTERM and SIGKILL when it is stopped", Duration(job.grace), "grace");
  add("--notify-mail,--notify-email", "ADDRESS", "Send a mail to this address; repeat for more",
      List(s, "notify-mail", job.notify.mails), "notify.mails");
  add("--notify-url", "URL", "Send a POST request to this URL; repeat for more",
      Whole(s, "notify-url", job.notify.webhooks), "notify.webhooks");
  add("--notify-on", "WORDS",
      "When to send it: started,finished,failed,timeout,cancelled,killed,suspended,requeued or all",
      NotifyOn(s), "notify.on");
}

void AddOther(Options& table, SubmitSettings& s) {
  const auto add = Under(table, "Slurm and accounting");
  add("-P,--project", "NAME", "Project that its GPU time is counted for", Text(s.job.project), "project");
  add("--to", "here|slurm", "Queue it on this machine (default) or hand it to Slurm", Text(s.to));
  add("--slurm-option", "OPTION",
      "With --to slurm: an option of sbatch, such as partition=gpu; repeat for more",
      Whole(s, "slurm-option", s.slurm_options));
}

}  // namespace

std::string TagFrom(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  std::string tag;
  for (const char c : name.substr(0, kLongest)) {
    const bool fine = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' ||
                      c == '+' || c == ':';
    tag += fine ? c : '-';
  }
  const bool is_number = tag.find_first_not_of("0123456789_") == std::string::npos;
  if (is_number) tag.insert(0, "job-");
  if (tag.starts_with('-')) tag.insert(0, "job");
  return tag.substr(0, kLongest);
}

Option WithLine(Option option, std::string name, SubmitSettings& settings) {
  option.take = [take = std::move(option.take), name = std::move(name),
                 &settings](const std::string& value) -> Result<> {
    GPUMAN_TRY(take(value));
    settings.lines[name] = settings.line;
    return {};
  };
  return option;
}

Options SubmitOptions(SubmitSettings& settings, base::WallTime now) {
  Options table;
  AddMain(table, settings);
  AddGpus(table, settings);
  AddWhen(table, settings, now);
  AddMany(table, settings);
  AddHost(table, settings);
  AddEnd(table, settings);
  AddOther(table, settings);
  for (auto& option : table) {
    std::string name = NameOf(option);
    option = WithLine(std::move(option), std::move(name), settings);
  }
  return table;
}

const Option& OptionNamed(const Options& table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Option& option) { return NameOf(option) == name; });
  if (found == table.end()) throw std::logic_error(fmt::format("there is no option {}", name));
  return *found;
}

}  // namespace gpuman::cli::queue
