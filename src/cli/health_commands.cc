// health, health acknowledge, gpu drain|undrain: what is wrong with the GPUs, and which get no new jobs.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/gpu_option.h"
#include "cli/health_views.h"
#include "cli/queue/commands.h"
#include "cli/queue/queue_views.h"
#include "cli/show.h"
#include "cli/take.h"

namespace gpuman::cli {
namespace {

int StatusOf(const api::HealthReport& report, bool strict) {
  const bool bad = std::any_of(report.gpus.begin(), report.gpus.end(), [&](const api::GpuHealth& gpu) {
    return gpu.health.state == "unhealthy" || (strict && gpu.health.state != "healthy");
  });
  const bool unknown = strict && report.gpus.empty();
  return bad || unknown ? kExitFailed : kExitDone;
}

base::Result<int> Acknowledge(CommandContext& session, const CommandLine& line) {
  api::HealthAcknowledgement what{line.words.front(), std::nullopt};
  if (line.words.size() > 1) what.code = line.words[1];
  GPUMAN_ASSIGN(const auto report, AskDaemon(session, api::routes::kAcknowledgeHealth, {}, what));
  return Show(session, report, RenderHealth);
}

base::Result<int> Health(CommandContext& session, bool strict) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto report, api::Ask(daemon, api::routes::kHealth));
  GPUMAN_TRY(Show(session, report, RenderHealth));
  const bool all_here = std::all_of(report.gpus.begin(), report.gpus.end(),
                                    [](const api::GpuHealth& gpu) { return gpu.index.has_value(); });
  if (report.gpus.empty() || !all_here) {
    GPUMAN_ASSIGN(const auto status, daemon.Status(false));
    if (status.driver_error) session.Note(*status.driver_error);
  }
  return StatusOf(report, strict);
}

base::Result<int> Drain(CommandContext& session, const std::vector<std::string>& gpus, bool drain) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  api::QueueSettingsUpdate update;
  (drain ? update.drain : update.undrain) = gpus;
  GPUMAN_ASSIGN(const auto settings, api::AskWithoutTimeout(daemon, api::routes::kSetQueue, {}, update));
  if (!drain) {
    GPUMAN_ASSIGN(const auto report, api::Ask(daemon, api::routes::kHealth));
    for (const auto& gpu : report.gpus)
      if (gpu.index && gpu.health.state == "unhealthy")
        session.Note(
            fmt::format("GPU {0} gets no new jobs, because of its fault: gpuman health shows it, gpuman "
                        "health acknowledge {0} lets it have jobs again",
                        *gpu.index));
  }
  return Show(session, settings, [&]() -> std::string {
    if (settings.drained.empty()) return "No GPU is drained.\n";
    return fmt::format("Drained GPUs, on which the queue starts no job: {}\n",
                       queue::IndicesOf(settings.drained, queue::GpusOf(daemon)));
  });
}

}  // namespace

Command HealthCommand() {
  const auto strict = std::make_shared<bool>(false);  // shared by the options and the action
  return {"health",
          "Show which GPUs have a fault, and what to do about it",
          "gpuman health || echo broken",
          {},
          {{"--strict", "", "Exit with status 1 also for degraded and unknown GPUs, and if there is no GPU",
            take::Flag(*strict)}},
          [strict](CommandContext& session, const CommandLine&) { return Health(session, *strict); },
          {{"acknowledge",
            "Mark a fault as known: it stays in the list, and its GPU gets jobs again",
            "gpuman health acknowledge 0 xid_74",
            {GpuArgument(), {"CODE", 0, 1, "Code of the fault (default: all faults of the GPU)"}},
            {},
            Acknowledge}}};
}

std::vector<Command> DrainCommands() {
  const Arguments gpus{GpuArgument(kAnyNumber)};
  const auto run = [](bool drain) {
    return [drain](CommandContext& session, const CommandLine& line) {
      return Drain(session, line.words, drain);
    };
  };
  return {{"drain",
           "Let the queue start no new jobs on a GPU; running jobs continue",
           "gpuman gpu drain 2",
           gpus,
           {},
           run(true)},
          {"undrain",
           "Let the queue start jobs on a drained GPU again",
           "gpuman gpu undrain 2",
           gpus,
           {},
           run(false)}};
}

}  // namespace gpuman::cli
