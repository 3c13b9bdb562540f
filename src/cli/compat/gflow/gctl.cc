// gctl: does what gpuman gpu, reserve and quota do, with gflow's words.
#include <fmt/format.h>

#include <algorithm>

#include "api/queue_client.h"
#include "api/queue_json.h"
#include "cli/commands.h"
#include "cli/compat/gflow/commands.h"
#include "cli/queue/commands.h"
#include "cli/queue/queue_views.h"
#include "cli/show.h"
#include "cli/take.h"
#include "spec/option_rules.h"

namespace gpuman::cli::gflow {
namespace {

using base::ErrorCode;
using base::Result;

Result<int> SetGpus(CommandContext& session, const CommandLine& line) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto allowed, AllowedGpus(daemon, line.words.front()));
  api::QueueSettingsUpdate update;
  update.allowed = allowed;
  update.clear_allowed = !allowed;
  GPUMAN_ASSIGN(const auto settings, api::AskWithoutTimeout(daemon, api::routes::kSetQueue, {}, update));
  return Show(session, settings, [&]() -> std::string {
    if (!settings.allowed) return "GPU restriction removed: all GPUs are used.\n";
    return fmt::format("GPU restriction set: only GPU {} is used from now on.\n",
                       queue::IndicesOf(*settings.allowed, queue::GpusOf(daemon)));
  });
}

std::string RenderGpus(const api::QueueInfo& info) {
  const auto& allowed = info.settings.allowed;
  std::string text;
  for (const auto& gpu : info.gpus) {
    const bool free = gpu.jobs.empty() && (gpu.state == "idle" || gpu.state == "restricted");
    text += fmt::format("{}\t{}", gpu.number || gpu.index ? api::NumberOf(gpu) : gpu.uuid,
                        free ? "available" : "in_use");
    if (allowed && std::find(allowed->begin(), allowed->end(), gpu.uuid) == allowed->end())
      text += "\trestricted";
    if (gpu.state == "unmanaged") text += "\tUnmanaged";
    if (gpu.state == "drained") text += "\tDrained";
    text += "\n";
  }
  return text;
}

Result<int> ShowGpus(CommandContext& session, const CommandLine&) {
  GPUMAN_ASSIGN(const auto info, AskDaemon(session, api::routes::kQueueInfo, {}, {}, api::NoTimeout()));
  return Show(session, info, [&] { return RenderGpus(info); });
}

struct Process {
  std::optional<std::string> gpu;
  std::optional<int> pid;
};

Options ProcessOptions(Process& process) {
  return {{"--gpu", "INDEX", "On this GPU", take::Text(process.gpu)},
          {"--pid", "PID", "This process", take::Integer(process.pid, 1, INT32_MAX)}};
}

Result<> RequireBoth(const Process& process) {
  if (process.gpu && process.pid) return {};
  return base::Fail(ErrorCode::kInvalidArgument, "the process is not given: --gpu and --pid are needed",
                    "gctl gpu-process ignore --gpu 0 --pid 1234");
}

Result<int> IgnoreOne(CommandContext& session, const Process& process) {
  GPUMAN_TRY(RequireBoth(process));
  api::IgnoreRuleView wanted;
  wanted.gpu = process.gpu;
  wanted.pid = process.pid;
  GPUMAN_ASSIGN(const auto rule,
                AskDaemon(session, api::routes::kIgnoreProcess, {}, wanted, api::NoTimeout()));
  return Show(session, rule, [&] {
    return fmt::format("Ignoring GPU process PID {} on GPU {}\n", *process.pid, *process.gpu);
  });
}

Result<int> UnignoreOne(CommandContext& session, const Process& process) {
  GPUMAN_TRY(RequireBoth(process));
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto list, api::AskWithoutTimeout(daemon, api::routes::kIgnoredProcesses));
  GPUMAN_ASSIGN(const auto info, api::AskWithoutTimeout(daemon, api::routes::kQueueInfo));
  for (const auto& rule : list.ignored) {
    if (rule.pid != process.pid || !rule.gpu) continue;
    if (*rule.gpu != *process.gpu && queue::IndicesOf({*rule.gpu}, info.gpus) != *process.gpu) continue;
    GPUMAN_ASSIGN(const auto gone,
                  api::AskWithoutTimeout(daemon, api::routes::kStopIgnoring, {{std::to_string(rule.id)}}));
    return Show(session, gone, [&] {
      return fmt::format("GPU process PID {} on GPU {} is no longer ignored\n", *process.pid, *process.gpu);
    });
  }
  return base::Fail(ErrorCode::kNotFound,
                    fmt::format("PID {} on GPU {} is not ignored", *process.pid, *process.gpu));
}

Result<int> ListIgnored(CommandContext& session, const CommandLine&) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto list, api::AskWithoutTimeout(daemon, api::routes::kIgnoredProcesses));
  GPUMAN_ASSIGN(const auto info, api::AskWithoutTimeout(daemon, api::routes::kQueueInfo));
  return Show(session, list, [&] {
    std::string text = list.ignored.empty() ? "No ignored GPU processes\n" : "";
    for (const auto& rule : list.ignored)
      text += fmt::format("gpu={}\tpid={}\n", rule.gpu ? queue::IndicesOf({*rule.gpu}, info.gpus) : "any",
                          rule.pid ? std::to_string(*rule.pid) : "any");
    return text;
  });
}

// Sets the limit of a job's group, named by a job or by the group's name; an array has a limit of its own.
Result<int> SetLimit(CommandContext& session, const CommandLine& line) {
  const std::string& group = line.words[0];
  GPUMAN_ASSIGN(const int limit, ParseInteger(line.words[1], 1, spec::kMaxConcurrent));
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  auto job = daemon.Job(group);
  if (!job) {
    GPUMAN_ASSIGN(const auto queue, api::ListQueue(daemon, {}));
    const auto it = std::find_if(queue.jobs.begin(), queue.jobs.end(), [&](const auto& one) {
      return one.queue && one.queue->asked.group == group;
    });
    if (it == queue.jobs.end()) return base::Fail(WithNearestTag(daemon, group, std::move(job.error())));
    job = *it;
  }
  api::JobUpdate update;
  const bool is_array = job->queue && job->queue->array_id && !job->queue->asked.group;
  if (is_array) {
    update.queue.emplace().array_limit = limit;
  } else {
    spec::JobRequest options;
    options.max_concurrent = limit;
    api::AddOption(options, "max_concurrent", update);
  }
  GPUMAN_ASSIGN(const auto updated,
                api::AskWithoutTimeout(daemon, api::routes::kUpdateJob, {{std::to_string(job->id)}}, update));
  return Show(session, updated, [&] {
    return fmt::format("At most {} jobs of the group of job {} run at once.\n", limit, job->id);
  });
}

Command GpuProcess() {
  const auto process = std::make_shared<Process>();  // shared by the options and the actions
  return {"gpu-process",
          "Let the queue use a GPU although a process outside gpuman uses it",
          "gctl gpu-process list",
          {},
          {},
          {},
          {{"ignore",
            "Let the queue use a GPU although this process uses it",
            "gctl gpu-process ignore --gpu 0 --pid 1234",
            {},
            ProcessOptions(*process),
            [process](CommandContext& session, const auto&) { return IgnoreOne(session, *process); }},
           {"unignore",
            "Undo gpu-process ignore",
            "gctl gpu-process unignore --gpu 0 --pid 1234",
            {},
            ProcessOptions(*process),
            [process](CommandContext& session, const auto&) { return UnignoreOne(session, *process); }},
           {"list", "List the ignored processes", "gctl gpu-process list", {}, {}, ListIgnored}}};
}

// A command of gpuman with examples of gctl.
Command OfGctl(Command command) {
  command.example.replace(0, std::string_view("gpuman").size(), "gctl");
  for (auto& below : command.commands) below = OfGctl(std::move(below));
  return command;
}

}  // namespace

Result<std::optional<std::vector<std::string>>> AllowedGpus(const api::Client& daemon,
                                                            const std::string& spec) {
  if (spec == "all") return std::optional<std::vector<std::string>>();
  GPUMAN_ASSIGN(const auto names, ParseGpus(spec));
  GPUMAN_ASSIGN(const auto info, api::AskWithoutTimeout(daemon, api::routes::kQueueInfo));
  std::vector<std::string> uuids;
  std::string missing;
  for (const auto& name : names) {
    const auto it = std::find_if(info.gpus.begin(), info.gpus.end(), [&](const auto& gpu) {
      return api::NumberOf(gpu) == name || gpu.uuid == name;
    });
    if (it != info.gpus.end())
      uuids.push_back(it->uuid);
    else
      missing += (missing.empty() ? "" : ",") + name;
  }
  if (!missing.empty())
    return base::Fail(
        ErrorCode::kNotFound, fmt::format("there is no GPU {} on this machine; nothing was changed", missing),
        fmt::format("it has {}; ginfo shows them",
                    info.gpus.empty()       ? "no GPU"
                    : info.gpus.size() == 1 ? "GPU " + api::NumberOf(info.gpus.front())
                                            : fmt::format("GPU {} to {}", api::NumberOf(info.gpus.front()),
                                                          api::NumberOf(info.gpus.back()))));
  if (uuids.size() == info.gpus.size()) return std::optional<std::vector<std::string>>();
  return std::optional(std::move(uuids));
}

Command Gctl() {
  return {
      "gctl",
      "Change which GPUs the queue uses, reservations and quotas",
      "",
      {},
      {},
      {},
      {{"set-gpus",
        "Use only these GPUs: 0,2, 0-3 or all",
        "gctl set-gpus 0,2",
        {{.value = "GPUS", .help = "Indices: 0,2 or 0-3; or all"}},
        {},
        SetGpus},
       {"show-gpus", "Show which GPUs are free, in use and restricted", "gctl show-gpus", {}, {}, ShowGpus},
       GpuProcess(),
       {"set-limit",
        "Set how many jobs of a group run at once",
        "gctl set-limit 7 2",
        {{.value = kJobValue, .help = "A job of the group, or the name of the group"},
         {.value = "N", .help = "So many of its jobs run at once"}},
        {},
        SetLimit},
       OfGctl(ReserveCommand()),
       OfGctl(QuotaCommand())}};
}

}  // namespace gpuman::cli::gflow
