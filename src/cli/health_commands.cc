// health, health acknowledge, gpu drain|undrain: what is wrong with the GPUs, and which get no new jobs.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/json.h"
#include "api/queue_client.h"
#include "api/queue_json.h"
#include "cli/command.h"
#include "cli/health_views.h"
#include "cli/queue/queue_views.h"

namespace gpuman::cli {
namespace {

struct HealthOptions {
  bool strict = false;
  std::string gpu;
  std::optional<std::string> code;
};

int StatusOf(const api::HealthReport& report, bool strict) {
  const bool bad = std::any_of(report.gpus.begin(), report.gpus.end(), [&](const api::GpuHealth& gpu) {
    return gpu.health.state == "unhealthy" || (strict && gpu.health.state != "healthy");
  });
  const bool unknown = strict && report.gpus.empty();
  return bad || unknown ? kExitFailed : kExitDone;
}

void Show(Session& session, const api::HealthReport& report) {
  if (session.json)
    session.PrintJson(api::ToJson(report));
  else
    session.Print(RenderHealth(report, session.style()));
}

base::Result<int> Acknowledge(Session& session, const HealthOptions& o) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto report, daemon.AcknowledgeHealth({o.gpu, o.code}));
  Show(session, report);
  return kExitDone;
}

// The parser calls the callback of a command after that of its subcommand.
base::Result<int> Health(Session& session, const HealthOptions& o) {
  if (!o.gpu.empty()) return Acknowledge(session, o);
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto report, daemon.Health());
  Show(session, report);
  const bool all_here = std::all_of(report.gpus.begin(), report.gpus.end(),
                                    [](const api::GpuHealth& gpu) { return gpu.index.has_value(); });
  if (report.gpus.empty() || !all_here) {
    GPUMAN_ASSIGN(const auto status, daemon.Status(false));
    if (status.driver_error) session.Note(*status.driver_error);
  }
  return StatusOf(report, o.strict);
}

base::Result<int> Drain(Session& session, const std::vector<std::string>& gpus, bool drain) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  api::QueueSettingsUpdate update;
  (drain ? update.drain : update.undrain) = gpus;
  GPUMAN_ASSIGN(const auto settings, api::SetQueueSettings(daemon, update));
  if (session.json) {
    session.PrintJson(api::ToJson(settings));
    return kExitDone;
  }
  const auto info = api::GetQueueInfo(daemon).value_or(api::QueueInfo{});
  session.Print(settings.drained.empty() ? std::string("No GPU is drained.\n")
                                         : fmt::format("Drained GPUs, on which no new job starts: {}\n",
                                                       queue::IndicesOf(settings.drained, info.gpus)));
  return kExitDone;
}

}  // namespace

void AddHealth(const Registry& registry) {
  const auto o = std::make_shared<HealthOptions>();  // shared by the parser's bindings and the action
  auto* health =
      registry.Add("health", "Show which GPUs have a fault, and what to do about it",
                   "gpuman health || echo broken", [o](Session& session) { return Health(session, *o); });
  health->add_flag("--strict", o->strict,
                   "Exit with status 1 also for degraded and unknown GPUs, and if there is no GPU");
  auto* acknowledge = registry.Add(
      "acknowledge", "Mark a fault as known: it stays in the list, and its GPU gets jobs again",
      "gpuman health acknowledge 0 xid_74", [o](Session& session) { return Health(session, *o); }, health);
  acknowledge->add_option("gpu", o->gpu, "Index, UUID, or the beginning of a UUID")
      ->type_name(kGpuValue)
      ->required();
  acknowledge->add_option("code", o->code, "Code of the fault (default: all faults of the GPU)")
      ->type_name("CODE");
}

void AddDrain(const Registry& registry, CLI::App* gpu) {
  for (const bool drain : {true, false}) {
    const auto gpus =
        std::make_shared<std::vector<std::string>>();  // shared by the parser's bindings and the action
    auto* command = registry.Add(
        drain ? "drain" : "undrain",
        drain ? "Start no new jobs on a GPU; running jobs continue" : "Start jobs on a drained GPU again",
        drain ? "gpuman gpu drain 2" : "gpuman gpu undrain 2",
        [gpus, drain](Session& session) { return Drain(session, *gpus, drain); }, gpu);
    command->add_option("gpus", *gpus, "Index, UUID, or the beginning of a UUID")
        ->type_name(kGpuValue)
        ->required();
  }
}

}  // namespace gpuman::cli
