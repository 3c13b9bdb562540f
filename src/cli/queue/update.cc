#include "cli/queue/update.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/queue_json.h"
#include "base/file.h"
#include "cli/command_line.h"
#include "cli/queue/command_dialect.h"
#include "cli/queue/update_takes.h"
#include "cli/take.h"
#include "spec/option_rules.h"

namespace gpuman::cli::queue {
namespace {

using base::Result;
using J = spec::JobRequest;

// Adds a change of a part that the daemon replaces as a whole: `apply` gets the part and the parsed value.
template <typename Part, typename Parse, typename Apply>
Take Change(std::vector<std::function<void(Part&)>>& changes, Parse parse, Apply apply) {
  return [&changes, parse, apply](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(const auto value, parse(text));
    changes.emplace_back([apply, value](Part& part) { apply(part, value); });
    return {};
  };
}

auto Integer(int least, int most) {
  return [=](const std::string& text) { return ParseInteger(text, least, most); };
}
Result<std::string> AsFile(const std::string& path) {
  constexpr std::size_t kLargest = std::size_t{8} << 20;
  return base::ReadFile(path, kLargest);
}

Take Depends(JobUpdateSettings& s, std::optional<spec::DependencyMode> mode) {
  return [&s, mode](const std::string& text) -> Result<> {
    spec::NamedDependencies depends;
    if (text != "none") {
      GPUMAN_ASSIGN(depends, ParseDependencies(text));
    }
    if (mode) depends.mode = *mode;
    s.depends = std::move(depends);
    return {};
  };
}

Take Count(JobUpdateSettings& s) {
  return Change(s.gpus, Integer(0, spec::kMaxGpusOfJob), [](spec::GpuRequest& gpus, int count) {
    gpus.count = count;
    gpus.devices.clear();
  });
}
Take Devices(JobUpdateSettings& s) {
  return Change(s.gpus, ParseGpus, [](spec::GpuRequest& gpus, const std::vector<std::string>& devices) {
    gpus.count = 0;
    gpus.devices = devices;
  });
}
Take Model(JobUpdateSettings& s) {
  return Change(s.gpus, AsText, [](spec::GpuRequest& gpus, const std::string& text) {
    gpus.model = text == "none" ? std::nullopt : std::optional(text);
  });
}
Take RetryCount(JobUpdateSettings& s) {
  return Change(s.retries, Integer(0, spec::kMaxRetries),
                [](spec::Retries& retries, int count) { retries.count = count; });
}
Take RetryDelay(JobUpdateSettings& s) {
  return Change(s.retries, base::ParseDuration,
                [](spec::Retries& retries, base::Millis delay) { retries.delay = delay; });
}
// The first of these options replaces the codes that the job has.
Take RetryCodes(JobUpdateSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    std::vector<int> codes;
    if (text != "none") {
      GPUMAN_ASSIGN(codes, ParseExitCodes(text));
    }
    const bool anew = s.submission.touched.insert("retry-on").second || codes.empty();
    s.retries.emplace_back([codes, anew](spec::Retries& retries) {
      if (anew) retries.on_exit_codes.clear();
      retries.on_exit_codes.insert(retries.on_exit_codes.end(), codes.begin(), codes.end());
    });
    return {};
  };
}

Options GpumanOptions(JobUpdateSettings& s) {
  return {
      {"-n,--name,--tag", "NAME", "Another name", take::Into(s.queue().name, ParseName)},
      {"--gpu", "GPUS", "Exactly these GPUs: 0,2", Devices(s)},
      {"--gpu-model", "TEXT", "Only GPUs whose name contains this text, or none", Model(s)},
      {"-t,--time,--time-limit", "TIME", "Time limit, or none",
       SetOrClearOption(s, "time_limit_s", &J::time_limit, base::ParseDuration)},
      {"--array-limit", "N", "Run at most N tasks of the array at once, or none",
       take::IntoOrNone(s.queue().array_limit, s.queue().clear_array_limit, Integer(1, api::kMaxArrayTasks))},
      {"--retry-delay", "TIME", "Time between a failure and the next run", RetryDelay(s)},
      {"--retry-on", "CODES", "Run it again only after these exit codes: 1,75, or none for any failure",
       RetryCodes(s)}};
}

// The help of an option of `submit` without " (default: …)": a change that leaves the option out changes
// nothing.
std::string WithoutDefault(std::string help) {
  const auto begin = help.find(" (default: ");
  const auto end = help.find(')', begin);
  return begin == help.npos || end == help.npos ? help : help.erase(begin, end + 1 - begin);
}

// The flag that reverses a flag: --no-preemptible for --preemptible, --preload for --no-preload.
std::string InverseOf(const std::string& flag) {
  constexpr std::string_view kNo = "--no-";
  return flag.starts_with(kNo) ? "--" + flag.substr(kNo.size()) : std::string(kNo) + flag.substr(2);
}

bool HasNameOf(const Options& table, const Option& option) {
  const auto names = NamesOf(option);
  return std::any_of(table.begin(), table.end(), [&](const Option& other) {
    const auto taken = NamesOf(other);
    return std::find_first_of(taken.begin(), taken.end(), names.begin(), names.end()) != taken.end();
  });
}

// The option of `submit` as an option that changes a job; for a flag also the flag that takes it back.
Options ChangesBy(const Option& option, JobUpdateSettings& s) {
  const bool is_flag = option.value.empty();
  const bool has_none = !is_flag && api::MayBeAbsent(option.sets);
  const auto change = [&s, has_none, take = option.take,
                       sets = option.sets](const std::string& text) -> Result<> {
    const bool takes_away = has_none && text == "none";
    if (!takes_away) GPUMAN_TRY(take(text));
    // A size that is to be chosen is an option of its own in the API.
    if (sets == "memory" && s.submission.job.memory_auto && !takes_away) {
      s.update.job.fields.erase(sets);
      api::AddOption(s.submission.job, "memory_auto", s.update);
      return {};
    }
    if (sets == "memory" && s.update.queue) s.update.queue->options.fields.erase("memory_auto");
    const J& options = takes_away ? J{} : s.submission.job;
    api::AddOption(options, sets, s.update);
    // --warn has the signal as well.
    if (sets == "warn_before_s") api::AddOption(options, "warn_signal", s.update);
    return {};
  };
  Options changes{
      {option.names, option.value, WithoutDefault(option.help) + (has_none ? ", or none" : ""), change}};
  if (is_flag)
    changes.push_back(
        {InverseOf(NameOf(option)), "", "Take " + NameOf(option) + " back", ClearOption(s, option.sets)});
  return changes;
}

// Adds the options of `submit` that can also change a job, except an option with a name that the table
// already has.
void AddOptionsOfSubmit(Options& table, JobUpdateSettings& s, base::WallTime now) {
  for (const Option& option : SubmitOptions(s.submission, now)) {
    if (!api::MayChange(option.sets) || HasNameOf(table, option)) continue;
    const auto changes = ChangesBy(option, s);
    table.insert(table.end(), changes.begin(), changes.end());
  }
}

// --memory of a job that runs, or is started at once.
Option WithoutAuto(Option memory) {
  memory.help = "Memory limit on each of its GPUs: 512MiB, 8G, 50%";
  memory.take = [take = std::move(memory.take)](const std::string& text) -> Result<> {
    if (text != "auto") return take(text);
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      "'auto': a size is chosen for jobs that wait in the queue",
                      "`gpuman job update JOB --memory auto` is for one that waits, `gpuman job redo JOB "
                      "--memory auto` queues one again");
  };
  return memory;
}

// The options of `submit` whose field `takes` accepts, as a job that runs may have them.
Options OptionsOfSubmit(JobUpdateSettings& s, bool (*takes)(const std::string& field)) {
  Options table;
  for (const Option& option : SubmitOptions(s.submission, {})) {
    if (!takes(option.sets)) continue;
    const auto changes = ChangesBy(option.sets == "memory" ? WithoutAuto(option) : option, s);
    table.insert(table.end(), changes.begin(), changes.end());
  }
  return table;
}

}  // namespace

Take ClearOption(JobUpdateSettings& s, const std::string& option) {
  return [&s, option](const std::string&) -> Result<> {
    api::AddOption({}, option, s.update);
    return {};
  };
}

Take AutoCancel(JobUpdateSettings& s, bool value) {
  return [&s, value](const std::string&) -> Result<> {
    J options;
    options.auto_cancel = value;
    api::AddOption(options, "auto_cancel", s.update);
    return {};
  };
}

Take NoRetries(JobUpdateSettings& s) {
  return [&s](const std::string&) { return RetryCount(s)("0"); };
}

bool JobUpdateSettings::Empty() const {
  return update.job == api::RunOptionsPatch{} && update.queue == api::JobQueueUpdate{} && gpus.empty() &&
         retries.empty() && !depends;
}

Options LimitOptions(JobUpdateSettings& s) {
  return OptionsOfSubmit(s, [](const std::string& field) { return field == "memory" || field == "soft"; });
}

Options RunningOptions(JobUpdateSettings& s) {
  Options table = OptionsOfSubmit(s, api::MayChangeWhileRunning);
  table.push_back({"--restart", kRestartValue, "Whether to start it again when it ends",
                   SetOption(s, "restart", &J::restart, ParseRestartMode)});
  return table;
}

Options UpdateOptions(JobUpdateSettings& s, const CommandDialect& dialect, UpdatePurpose what,
                      base::WallTime now) {
  const bool own = dialect.update_options == nullptr;
  Options table = own ? GpumanOptions(s) : dialect.update_options(s, now);
  const Options common{
      {"-c,--command", "STRING", "Another command", take::Into(s.queue().command, SplitCommand)},
      {"-s,--script", "FILE", "Run this script in place of the command",
       take::Into(s.queue().script, AsFile)},
      {"-g,--gpus", "N", "Number of GPUs", Count(s)},
      {"-d,--depends,--depends-on", "JOBS", "Start after these jobs, in place of the former ones, or none",
       Depends(s, {})},
      {"--depends-on-all", "JOBS", "", Depends(s, spec::DependencyMode::kAll)},
      {"--depends-any,--depends-on-any", "JOBS", "Start after one of these jobs",
       Depends(s, spec::DependencyMode::kAny)},
      {"--max-concurrent", "N", "Run at most N jobs of its group at once, or none",
       SetOrClearOption(s, "max_concurrent", &J::max_concurrent, Integer(1, spec::kMaxConcurrent))},
      {"--retries,--max-retries", "N", "Run it again up to N times when it fails", RetryCount(s)}};
  table.insert(table.end(), common.begin(), common.end());
  if (own) AddOptionsOfSubmit(table, s, now);
  if (what == UpdatePurpose::kRedo) {
    table.push_back({"--cascade", "",
                     "Also queue the jobs again that were cancelled because it did not finish",
                     take::Flag(s.cascade)});
    table.push_back(
        {"--clear-deps", "", "Queue it without its dependencies", [&s](const std::string&) -> Result<> {
           s.depends.emplace();
           return {};
         }});
  }
  return table;
}

api::JobUpdate UpdateOf(const JobUpdateSettings& s, const api::JobView& job) {
  api::JobUpdate update = s.update;
  if (!s.gpus.empty()) {
    auto& gpus = update.queue->gpus.emplace(job.queue ? job.queue->gpus : spec::GpuRequest{});
    for (const auto& change : s.gpus) change(gpus);
  }
  if (!s.retries.empty()) {
    J options;
    if (job.queue) options.retries = job.queue->asked.retries;
    for (const auto& change : s.retries) change(options.retries);
    api::AddOption(options, "retries", update);
  }
  if (s.depends) {
    J options;
    options.depends = *s.depends;
    api::AddOption(options, "depends", update);
  }
  if (update.queue == api::JobQueueUpdate{}) update.queue.reset();
  return update;
}

}  // namespace gpuman::cli::queue
