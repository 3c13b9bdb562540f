#include "spec/option_rules.h"

#include <fmt/format.h>

#include <set>

#include "base/url.h"

namespace gpuman::spec {
namespace {

template <typename T>
void CheckRange(std::string_view field, T value, T least, T most, const Report& report) {
  if (!(value >= least && value <= most))
    report(field, fmt::format("{} lies outside {} to {}", value, least, most));
}

void CheckNotEmpty(std::string_view field, const std::optional<std::string>& text, const Report& report) {
  if (text && text->empty()) report(field, "it is empty");
}

void CheckSize(std::string_view field, std::size_t size, std::size_t most, const Report& report) {
  if (size > most) report(field, fmt::format("it has {} bytes; {} are the most", size, most));
}

// Of a file, or of what is named like one.
void CheckPath(std::string_view field, const std::optional<std::string>& path, const Report& report) {
  CheckNotEmpty(field, path, report);
  if (path) CheckSize(field, path->size(), kLongestPath, report);
}

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

void CheckProject(const std::string& project, const Report& report) {
  if (project.empty() || IsBlank(project.front()) || IsBlank(project.back()))
    report("project", "it is empty, or begins or ends with a blank");
  else if (project.size() > kLongestName)
    report("project", fmt::format("'{}…' has more than {} bytes", project.substr(0, 20), kLongestName));
}

void CheckLongest(std::string_view field, Millis value, const Report& report) {
  if (value > kLongestTime)
    report(field, fmt::format("it is longer than {}", base::FormatDuration(kLongestTime)));
  else if (value < Millis(0))
    report(field, "it is negative");
}

void CheckCount(std::string_view field, std::size_t count, std::size_t most, const Report& report) {
  if (count > most) report(field, fmt::format("there are {}; {} are the most", count, most));
}

void CheckRetries(const Retries& retries, const Report& report) {
  CheckRange("retries.count", retries.count, 0, kMaxRetries, report);
  CheckLongest("retries.delay_s", retries.delay, report);
  CheckCount("retries.on_exit_codes", retries.on_exit_codes.size(), kHighestExitCode, report);
  for (const int code : retries.on_exit_codes)
    CheckRange("retries.on_exit_codes", code, kLowestExitCode, kHighestExitCode, report);
}

void CheckNotify(const NotificationOptions& notify, const Report& report) {
  for (const auto& url : notify.webhooks)
    if (const auto parsed = base::ParseHttpUrl(url); !parsed)
      report("notify.webhooks", parsed.error().message);
  for (const auto& mail : notify.mails)
    if (!base::IsMailAddress(mail))
      report("notify.mails", fmt::format("'{}' is not an address such as ada@example.org", mail));
  CheckCount("notify.webhooks", notify.webhooks.size(), kMaxReceivers, report);
  CheckCount("notify.mails", notify.mails.size(), kMaxReceivers, report);
  CheckCount("notify.on", notify.on.size(), kMaxEventsNamed, report);
}

}  // namespace

base::Result<> FirstProblemOf(const std::function<void(const Report&)>& rules) {
  base::Result<> first;
  rules([&](std::string_view field, const std::string& problem) {
    if (first) first = base::Fail(base::ErrorCode::kInvalidArgument, fmt::format("{}: {}", field, problem));
  });
  return first;
}

void CheckRunOptions(const RunOptions& options, const Report& report) {
  CheckRange("priority", options.priority, kLowestPriority, kHighestPriority, report);
  CheckNotEmpty("device_profile", options.device_profile, report);
  CheckRange("weight", options.weight, kLowestWeight, kHighestWeight, report);
  if (options.compute)
    CheckRange("compute.percent", options.compute->percent, kLowestComputeShare, kHighestComputeShare,
               report);
  if (!options.idle_suspend) return;
  if (*options.idle_suspend < kShortestIdle)
    report("idle_suspend_s", fmt::format("{} is shorter than {}", base::FormatDuration(*options.idle_suspend),
                                         base::FormatDuration(kShortestIdle)));
  else
    CheckLongest("idle_suspend_s", *options.idle_suspend, report);
}

void CheckJobOptions(const JobOptions& options, const Report& report) {
  if (options.project) CheckProject(*options.project, report);
  CheckPath("stdin", options.stdin_file, report);
  CheckPath("stdout", options.stdout_file, report);
  CheckPath("stderr", options.stderr_file, report);
  if (options.host_memory && options.host_memory->count == 0) report("host_memory", "it is zero");
  if (options.cpus) CheckRange("cpus", *options.cpus, 1, kMaxCpus, report);
  if (options.time_limit && options.time_limit->count() == 0) report("time_limit_s", "it is zero");
  if (options.time_limit) CheckLongest("time_limit_s", *options.time_limit, report);
  CheckRetries(options.retries, report);
  CheckPath("conda_env", options.conda_env, report);
  CheckNotEmpty("group", options.group, report);
  if (options.max_concurrent)
    CheckRange("max_concurrent", *options.max_concurrent, 1, kMaxConcurrent, report);
  if (options.warn_signal) CheckRange("warn_signal", options.warn_signal->number, 0, kHighestSignal, report);
  if (options.warn_before) CheckLongest("warn_before_s", *options.warn_before, report);
  CheckNotify(options.notify, report);
  CheckRunOptions(options, report);
}

void CheckWarning(const JobOptions& options, const Report& report) {
  const auto& limit = options.time_limit;
  const auto& before = options.warn_before;
  if (!limit && (before || options.warn_signal))
    report(before ? "warn_before_s" : "warn_signal", "there is no time limit to warn of; give time_limit_s");
  if (limit && before && *before >= *limit)
    report("warn_before_s", fmt::format("{} before the end is not after the start: the limit is {}",
                                        base::FormatDuration(*before), base::FormatDuration(*limit)));
}

void CheckGroup(const JobOptions& options, const Report& report) {
  if (options.max_concurrent && !options.group)
    report("max_concurrent", "it is for the jobs of a group; give group a name");
}

void CheckReceivers(const JobOptions& options, const Report& report) {
  const auto& notify = options.notify;
  if (!notify.on.empty() && notify.mails.empty() && notify.webhooks.empty())
    report("notify.on", "there is nobody to tell; give notify.mails or notify.webhooks");
}

void CheckGpuRequest(const GpuRequest& gpus, const Report& report) {
  CheckRange("gpus.count", gpus.count, 0, kMaxGpusOfJob, report);
  std::set<std::string> seen;
  for (const auto& device : gpus.devices) {
    if (device.empty()) report("gpus.devices", "the name of a GPU is empty");
    if (!seen.insert(device).second) report("gpus.devices", fmt::format("'{}' is there twice", device));
  }
  if (!gpus.devices.empty() && gpus.count != 0 && gpus.count != static_cast<int>(gpus.devices.size()))
    report("gpus.count", fmt::format("{} GPUs are asked for and {} are named; leave the number out",
                                     gpus.count, gpus.devices.size()));
  CheckNotEmpty("gpus.model", gpus.model, report);
}

void CheckEnvironment(const std::map<std::string, std::string>& variables, const Report& report) {
  for (const auto& [name, value] : variables)
    if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos)
      report("environment", fmt::format("'{}' is no name of a variable", name));
}

void CheckDirectory(const std::string& directory, const Report& report) {
  if (!directory.empty() && directory.front() != '/')
    report("directory", fmt::format("'{}' is not absolute", directory));
  CheckSize("directory", directory.size(), kLongestPath, report);
}

void CheckUmask(std::uint32_t umask, const Report& report) {
  CheckRange<std::uint32_t>("umask", umask, 0, 0777, report);
}

}  // namespace gpuman::spec
