#include "cli/queue/update.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/queue_json.h"
#include "base/file.h"
#include "cli/command_line.h"
#include "cli/queue/values.h"

namespace gpuman::cli::queue {
namespace {

using base::Result;
using Take = std::function<Result<>(const std::string&)>;

api::QueueUpdate& QueueOf(UpdateSettings& s) {
  if (!s.update.queue) s.update.queue.emplace();
  return *s.update.queue;
}

// Sets a member of the queue's part; "none" clears it where `clear` is given.
template <typename T, typename Parse>
Take Set(UpdateSettings& s, std::optional<T> api::QueueUpdate::*member, Parse parse,
         bool api::QueueUpdate::*clear = nullptr) {
  return [&s, member, parse, clear](const std::string& text) -> Result<> {
    auto& queue = QueueOf(s);
    if (clear != nullptr && text == "none") {
      queue.*clear = true;
      return {};
    }
    GPUMAN_ASSIGN(queue.*member, parse(text));
    return {};
  };
}
Take Clear(UpdateSettings& s, bool api::QueueUpdate::*clear) {
  return [&s, clear](const std::string&) -> Result<> {
    QueueOf(s).*clear = true;
    return {};
  };
}
// Sets an option of the job, which has the name `option` in the API.
template <typename T, typename Parse>
Take SetOption(UpdateSettings& s, const char* option, T spec::JobOptions::*member, Parse parse) {
  return [&s, option, member, parse](const std::string& text) -> Result<> {
    spec::JobOptions options;
    GPUMAN_ASSIGN(options.*member, parse(text));
    QueueOf(s).options.fields[option] = api::OptionOf(options, option);
    return {};
  };
}
Take ClearOption(UpdateSettings& s, const char* option) {
  return [&s, option](const std::string&) -> Result<> {
    QueueOf(s).options.fields[option] = nullptr;
    return {};
  };
}
// Sets it; "none" takes it away.
template <typename T, typename Parse>
Take SetOrClearOption(UpdateSettings& s, const char* option, T spec::JobOptions::*member, Parse parse) {
  return [set = SetOption(s, option, member, parse), clear = ClearOption(s, option)](
             const std::string& text) -> Result<> { return text == "none" ? clear(text) : set(text); };
}
Take SetTo(UpdateSettings& s, std::optional<bool> api::QueueUpdate::*member, bool value) {
  return [&s, member, value](const std::string&) -> Result<> {
    QueueOf(s).*member = value;
    return {};
  };
}

auto Integer(int least, int most) {
  return [=](const std::string& text) { return ParseInteger(text, least, most); };
}
Result<std::string> AsText(const std::string& text) { return text; }
Result<base::Millis> AsDuration(const std::string& text) { return base::ParseDuration(text); }
Result<double> AsWeight(const std::string& text) { return ParseWeight(text); }

Take Memory(UpdateSettings& s, Flavour flavour) {
  return [&s, flavour](const std::string& text) -> Result<> {
    if (text == "none") {
      s.update.job.clear_memory = true;
    } else if (flavour == Flavour::kGflow) {
      GPUMAN_ASSIGN(const auto bytes, ParseMebibytes(text));
      s.update.job.memory = base::SizeSpec{bytes, 0};
    } else {
      GPUMAN_ASSIGN(s.update.job.memory, base::ParseSize(text));
    }
    return {};
  };
}

Take SoftMemory(UpdateSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    if (text == "none") {
      s.update.job.clear_soft = true;
    } else {
      GPUMAN_ASSIGN(s.update.job.soft, base::ParseSize(text));
    }
    return {};
  };
}
// Sets a member of the part that all jobs have.
template <typename T, typename Parse>
Take SetForAny(UpdateSettings& s, std::optional<T> api::UpdateRequest::*member, Parse parse) {
  return [&s, member, parse](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(s.update.job.*member, parse(text));
    return {};
  };
}

Take Depends(UpdateSettings& s, std::optional<spec::DependencyMode> mode) {
  return [&s, mode](const std::string& text) -> Result<> {
    api::Dependencies depends;
    if (text != "none") {
      GPUMAN_ASSIGN(depends, ParseDependencies(text));
    }
    if (mode) depends.mode = *mode;
    QueueOf(s).depends = std::move(depends);
    return {};
  };
}

Take Count(UpdateSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(const int count, ParseInteger(text, 0, 1024));
    s.gpus.emplace_back([count](api::GpuRequest& gpus) {
      gpus.count = count;
      gpus.devices.clear();
    });
    return {};
  };
}
Take Devices(UpdateSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(auto devices, ParseGpus(text));
    s.gpus.emplace_back([devices = std::move(devices)](api::GpuRequest& gpus) {
      gpus.count = 0;
      gpus.devices = devices;
    });
    return {};
  };
}
Take Model(UpdateSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    s.gpus.emplace_back(
        [text](api::GpuRequest& gpus) { gpus.model = text == "none" ? std::nullopt : std::optional(text); });
    return {};
  };
}
Take RetryCount(UpdateSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(const int count, ParseInteger(text, 0, 1000));
    s.retries.emplace_back([count](spec::Retries& retries) { retries.count = count; });
    return {};
  };
}
Take RetryDelay(UpdateSettings& s) {
  return [&s](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(const auto delay, base::ParseDuration(text));
    s.retries.emplace_back([delay](spec::Retries& retries) { retries.delay = delay; });
    return {};
  };
}
// The first one replaces the codes that the job has.
Take RetryCodes(UpdateSettings& s) {
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

Take ScriptFile(UpdateSettings& s) {
  return [&s](const std::string& path) -> Result<> {
    constexpr std::size_t kLargest = std::size_t{8} << 20;
    GPUMAN_ASSIGN(QueueOf(s).script, base::ReadFile(path, kLargest));
    return {};
  };
}

Result<std::vector<std::string>> AsCommand(const std::string& text) { return SplitCommand(text); }

using Q = api::QueueUpdate;
using J = spec::JobOptions;
using U = api::UpdateRequest;

Options GpumanOptions(UpdateSettings& s) {
  return {{"-n,--name,--tag", "NAME", "Another name", Set(s, &Q::name, AsText)},
          {"--gpu", "GPUS", "Exactly these GPUs: 0,2", Devices(s)},
          {"--gpu-model", "TEXT", "Only GPUs whose name contains this text, or none", Model(s)},
          {"-m,--memory,--gpu-memory", "SIZE", "Memory limit on each of its GPUs, or none",
           Memory(s, Flavour::kGpuman)},
          {"--soft", "SIZE", "Soft memory limit, or none", SoftMemory(s)},
          {"--weight", "N", "Its part of the turns on a shared GPU; 2 gets twice as much as 1",
           SetForAny(s, &U::weight, AsWeight)},
          {"--grace", "TIME", "Time between SIGTERM and SIGKILL when it is stopped",
           SetForAny(s, &U::grace, AsDuration)},
          {"-t,--time,--time-limit", "TIME", "Time limit, or none",
           SetOrClearOption(s, "time_limit_s", &J::time_limit, AsDuration)},
          {"--auto-cancel", "", "Cancel it when a dependency can no longer be met",
           SetTo(s, &Q::auto_cancel, true)},
          {"--no-auto-cancel", "", "Keep it in the queue then", SetTo(s, &Q::auto_cancel, false)},
          {"--array-limit", "N", "Run at most N tasks of the array at once, or none",
           Set(s, &Q::array_limit, Integer(1, api::kMaxArrayTasks), &Q::clear_array_limit)},
          {"--retry-delay", "TIME", "Time between a failure and the next run", RetryDelay(s)},
          {"--retry-on", "CODES", "Run it again only after these exit codes: 1,75, or none for any failure",
           RetryCodes(s)}};
}

Options GflowOptions(UpdateSettings& s) {
  const auto minutes = [](const std::string& text) { return ParseMinutes(text); };
  const auto mebibytes = [](const std::string& text) { return ParseMebibytes(text); };
  return {
      {"-e,--conda-env", "NAME", "Conda environment", SetOption(s, "conda_env", &J::conda_env, AsText)},
      {"--clear-conda-env", "", "None", ClearOption(s, "conda_env")},
      {"-t,--time-limit,--time", "TIME", "Time limit", SetOption(s, "time_limit_s", &J::time_limit, minutes)},
      {"--clear-time-limit", "", "None", ClearOption(s, "time_limit_s")},
      {"-m,--memory-limit,--memory,--max-mem", "MEMORY", "Limit on the machine's memory",
       SetOption(s, "host_memory", &J::host_memory, mebibytes)},
      {"--clear-memory-limit", "", "None", ClearOption(s, "host_memory")},
      {"--gpu-memory,--max-gpu-mem", "MEMORY", "Memory limit on each of its GPUs",
       Memory(s, Flavour::kGflow)},
      {"--clear-gpu-memory-limit", "", "None",
       [&s](const std::string&) -> Result<> {
         s.update.job.clear_memory = true;
         return {};
       }},
      {"--auto-cancel-on-dep-failure", "", "Cancel it when a dependency fails",
       SetTo(s, &Q::auto_cancel, true)},
      {"--no-auto-cancel-on-dep-failure", "", "Keep it in the queue then", SetTo(s, &Q::auto_cancel, false)},
      {"--clear-max-concurrent", "", "No limit on how many of its group run at once",
       Clear(s, &Q::clear_max_concurrent)},
      {"--clear-max-retries", "", "No retries",
       [&s](const std::string&) -> Result<> {
         s.retries.emplace_back([](spec::Retries& retries) { retries.count = 0; });
         return {};
       }},
      {"--param", "NAME=VALUE", "", [](const std::string& text) -> Result<> {
         return base::Fail(base::ErrorCode::kNotSupported,
                           fmt::format("'{}': the parameters of a job cannot be changed, since its command "
                                       "has their values already",
                                       text),
                           "change the command with -c");
       }}};
}

// How a flag is taken back: --preemptible by --no-preemptible, --no-preload by --preload.
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

// The options of `submit` that a waiting job can be given as well, unless the table has a name of theirs.
void AddOptionsOfSubmit(Options& table, UpdateSettings& s, base::WallTime now) {
  const auto set_from = [&s](const std::vector<std::string>& names, const spec::JobOptions& from) {
    for (const auto& name : names) QueueOf(s).options.fields[name] = api::OptionOf(from, name);
  };
  for (Option& option : SubmitOptions(s.submission, Flavour::kGpuman, now)) {
    const std::string name = NameOf(option);
    if (option.sets.empty() || HasNameOf(table, option)) continue;
    const bool is_flag = option.value.empty();
    const auto take = [&s, set_from, is_flag, names = option.sets,
                       take = option.take](const std::string& text) -> Result<> {
      const bool takes_away = !is_flag && text == "none";
      if (!takes_away) GPUMAN_TRY(take(text));
      set_from(names, takes_away ? spec::JobOptions{} : s.submission.job);
      return {};
    };
    table.push_back({option.names, option.value, option.help + (is_flag ? "" : ", or none"), take});
    if (!is_flag) continue;
    table.push_back({InverseOf(name), "", "Take " + name + " back",
                     [set_from, names = option.sets](const std::string&) -> Result<> {
                       set_from(names, {});
                       return {};
                     }});
  }
}

}  // namespace

bool UpdateSettings::Empty() const {
  return !update.queue && gpus.empty() && retries.empty() && update.job == api::UpdateRequest{};
}

Options UpdateOptions(UpdateSettings& s, Flavour flavour, ForWhat what, base::WallTime now) {
  Options table = flavour == Flavour::kGflow ? GflowOptions(s) : GpumanOptions(s);
  const auto time = [now](const std::string& text) { return ParseTime(text, now); };
  const Options common{
      {"-c,--command", "STRING", "Another command", Set(s, &Q::command, AsCommand)},
      {"-s,--script", "FILE", "Run this script in place of the command", ScriptFile(s)},
      {"-g,--gpus", "N", "Number of GPUs", Count(s)},
      {"-p,--priority", "N", "0 to 255", SetForAny(s, &U::priority, Integer(0, 255))},
      {"-d,--depends,--depends-on", "JOBS", "Start after these jobs, in place of the former ones, or none",
       Depends(s, {})},
      {"--depends-on-all", "JOBS", "", Depends(s, spec::DependencyMode::kAll)},
      {"--depends-any,--depends-on-any", "JOBS", "Start after one of these jobs",
       Depends(s, spec::DependencyMode::kAny)},
      {"--begin", "TIME", "Start no earlier than this, or none",
       SetOrClearOption(s, "begin", &J::begin, time)},
      {"--max-concurrent", "N", "Run at most N jobs of its group at once, or none",
       Set(s, &Q::max_concurrent, Integer(1, 1'000'000), &Q::clear_max_concurrent)},
      {"--retries,--max-retries", "N", "Run it again up to N times when it fails", RetryCount(s)}};
  table.insert(table.end(), common.begin(), common.end());
  if (flavour == Flavour::kGpuman) AddOptionsOfSubmit(table, s, now);
  if (what == ForWhat::kRedo) {
    table.push_back({"--cascade", "",
                     "Also queue the jobs again that were cancelled because it did not finish",
                     [&s](const std::string&) -> Result<> {
                       s.cascade = true;
                       return {};
                     }});
    table.push_back(
        {"--clear-deps", "", "Queue it without its dependencies", [&s](const std::string&) -> Result<> {
           QueueOf(s).depends.emplace();
           return {};
         }});
  }
  return table;
}

api::JobUpdate UpdateOf(const UpdateSettings& s, const api::JobView& job) {
  api::JobUpdate update = s.update;
  if (s.gpus.empty() && s.retries.empty()) return update;
  if (!update.queue) update.queue.emplace();
  if (!s.gpus.empty()) {
    update.queue->gpus = job.queue ? job.queue->gpus : api::GpuRequest{};
    for (const auto& change : s.gpus) change(*update.queue->gpus);
  }
  if (!s.retries.empty()) {
    spec::JobOptions options;
    if (job.queue) options.retries = job.queue->asked.retries;
    for (const auto& change : s.retries) change(options.retries);
    update.queue->options.fields["retries"] = api::OptionOf(options, "retries");
  }
  return update;
}

}  // namespace gpuman::cli::queue
