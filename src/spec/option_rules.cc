#include "spec/option_rules.h"

#include <fmt/format.h>

#include <set>

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

void CheckRetries(const Retries& retries, const Report& report) {
  CheckRange("retries.count", retries.count, 0, kMaxRetries, report);
  CheckLongest("retries.delay_s", retries.delay, report);
  for (const int code : retries.on_exit_codes)
    CheckRange("retries.on_exit_codes", code, kLowestExitCode, kHighestExitCode, report);
}

}  // namespace

void CheckRunOptions(const RunOptions& options, const Report& report) {
  CheckRange("priority", options.priority, kLowestPriority, kHighestPriority, report);
  CheckNotEmpty("device_profile", options.device_profile, report);
  CheckRange("weight", options.weight, kLowestWeight, kHighestWeight, report);
}

void CheckJobOptions(const JobOptions& options, const Report& report) {
  if (options.project) CheckProject(*options.project, report);
  CheckNotEmpty("stdin", options.stdin_file, report);
  CheckNotEmpty("stdout", options.stdout_file, report);
  CheckNotEmpty("stderr", options.stderr_file, report);
  if (options.host_memory && options.host_memory->count == 0) report("host_memory", "it is zero");
  if (options.cpus) CheckRange("cpus", *options.cpus, 1, kMaxCpus, report);
  if (options.time_limit && options.time_limit->count() == 0) report("time_limit_s", "it is zero");
  if (options.time_limit) CheckLongest("time_limit_s", *options.time_limit, report);
  CheckRetries(options.retries, report);
  CheckNotEmpty("conda_env", options.conda_env, report);
  CheckRunOptions(options, report);
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

void CheckGroupLimit(int limit, const Report& report) {
  CheckRange("max_concurrent", limit, 1, kMaxConcurrent, report);
}

void CheckEnvironment(const std::map<std::string, std::string>& variables, const Report& report) {
  for (const auto& [name, value] : variables)
    if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos)
      report("environment", fmt::format("'{}' is no name of a variable", name));
}

void CheckDirectory(const std::string& directory, const Report& report) {
  if (!directory.empty() && directory.front() != '/')
    report("directory", fmt::format("'{}' is not absolute", directory));
}

void CheckUmask(std::uint32_t umask, const Report& report) {
  CheckRange<std::uint32_t>("umask", umask, 0, 0777, report);
}

}  // namespace gpuman::spec
