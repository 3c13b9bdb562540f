#include "cli/compat/gflow/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "cli/queue/update_takes.h"
#include "cli/take.h"
#include "cli/values.h"
#include "spec/option_rules.h"

namespace gpuman::cli::gflow {
namespace {

using base::Result;
using queue::JobUpdateSettings;
using queue::SubmitSettings;
using J = spec::JobOptions;

// Options of `gpuman submit` that gbatch has too, by gpuman's name.
constexpr std::string_view kOfGbatch =
    " --gpus --memory --time --name --depends --depends-on-all --array --dry-run --share --visible-devices "
    "--priority --begin --depends-any --no-auto-cancel --param --param-file --name-template --max-concurrent "
    "--group --host-memory --conda-env --retries --retry-delay --retry-on --notify-mail --notify-url "
    "--notify-on --project --to --slurm-option ";

std::size_t PlaceOf(const Options& table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Option& option) { return NameOf(option) == name; });
  if (found == table.end()) throw std::logic_error(fmt::format("there is no option {}", name));
  return static_cast<std::size_t>(found - table.begin());
}

Result<base::SizeSpec> MebibytesOnGpu(const std::string& text) {
  GPUMAN_ASSIGN(const base::Bytes bytes, ParseMebibytes(text));
  return base::SizeSpec{bytes, 0};
}

// gflow accepts any name; a name that is not a valid tag becomes one.
Result<std::string> TagOf(const std::string& text) { return queue::TagFrom(text); }

// Puts an option of gbatch in the place of gpuman's option `name`, under the same heading.
class Replacing {
 public:
  Replacing(Options& table, SubmitSettings& settings) : table_(table), settings_(settings) {}

  void operator()(std::string_view name, std::string names, std::string value, std::string help, Take take) {
    Option& place = table_[PlaceOf(table_, name)];
    place =
        queue::WithLine({std::move(names), std::move(value), std::move(help), std::move(take), place.heading},
                        std::string(name), settings_);
  }

 private:
  Options& table_;
  SubmitSettings& settings_;
};

}  // namespace

Options GbatchOptions(SubmitSettings& settings, base::WallTime now) {
  const Options all = queue::SubmitOptions(settings, now);
  Options table;
  for (const Option& option : all)
    if (kOfGbatch.find(" " + NameOf(option) + " ") != kOfGbatch.npos) table.push_back(option);
  auto& job = settings.job;
  Replacing replace(table, settings);
  replace("--memory", "--gpu-memory,--max-gpu-mem,--max-gpu-memory", "MEMORY",
          "Memory limit on each of its GPUs: 24G, 8192 (MiB)", take::Into(job.memory, MebibytesOnGpu));
  replace("--time", "-t,--time,--time-limit,--timelimit", "TIME", "Time limit: 30 (minutes), 5:30, 2:00:00",
          take::Into(job.time_limit, ParseMinutes));
  replace("--name", "-n,--name,--job-name,-J", "NAME", "Its name", take::Into(job.name, TagOf));
  replace("--share", "--shared", "", "Share its GPUs with other shared jobs; needs --gpu-memory",
          take::Flag(job.share));
  replace("--host-memory", "-m,--memory,--max-mem,--max-memory", "MEMORY",
          "Limit on the machine's memory: 8G, 512 (MiB)", take::Into(job.host_memory, ParseMebibytes));
  table.push_back(queue::WithLine({"-c", "NAME", "", take::Text(job.conda_env)}, "--conda-env", settings));
  table.push_back({"--auto-close", "", "", take::Nothing()});
  table.push_back({"--config", "FILE", "", take::Nothing()});
  return table;
}

Options GjobOptions(JobUpdateSettings& s, base::WallTime now) {
  using queue::AsText, queue::ClearOption, queue::SetOption, queue::SetOrClearOption;
  const auto priority = [](const std::string& text) {
    return ParseInteger(text, spec::kLowestPriority, spec::kHighestPriority);
  };
  const auto begin = [now](const std::string& text) { return ParseTime(text, now); };
  return {
      {"-e,--conda-env", "NAME", "Conda environment", SetOption(s, "conda_env", &J::conda_env, AsText)},
      {"--clear-conda-env", "", "None", ClearOption(s, "conda_env")},
      {"-t,--time-limit,--time", "TIME", "Time limit",
       SetOption(s, "time_limit_s", &J::time_limit, ParseMinutes)},
      {"--clear-time-limit", "", "None", ClearOption(s, "time_limit_s")},
      {"-m,--memory-limit,--memory,--max-mem", "MEMORY", "Limit on the machine's memory",
       SetOption(s, "host_memory", &J::host_memory, ParseMebibytes)},
      {"--clear-memory-limit", "", "None", ClearOption(s, "host_memory")},
      {"--gpu-memory,--max-gpu-mem", "MEMORY", "Memory limit on each of its GPUs",
       SetOrClearOption(s, "memory", &J::memory, MebibytesOnGpu)},
      {"--clear-gpu-memory-limit", "", "None", ClearOption(s, "memory")},
      {"-p,--priority", "N", "0 to 255", SetOption(s, "priority", &J::priority, priority)},
      {"--begin", "TIME", "Start no earlier than this, or none",
       SetOrClearOption(s, "begin", &J::begin, begin)},
      {"--auto-cancel-on-dep-failure", "", "Cancel it when a dependency fails", queue::AutoCancel(s, true)},
      {"--no-auto-cancel-on-dep-failure", "", "Keep it waiting when a dependency fails",
       queue::AutoCancel(s, false)},
      {"--clear-max-concurrent", "", "No limit on how many of its group run at once",
       queue::ClearOption(s, "max_concurrent")},
      {"--clear-max-retries", "", "No retries", queue::NoRetries(s)},
      {"--param", "NAME=VALUE", "", [](const std::string& text) -> Result<> {
         return base::Fail(base::ErrorCode::kNotSupported,
                           fmt::format("'{}': the parameters of a job cannot be changed, since its "
                                       "command has their values already",
                                       text),
                           "change the command with -c");
       }}};
}

}  // namespace gpuman::cli::gflow
