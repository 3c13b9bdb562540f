// mig profiles|show|plan|apply|clear|export: GPUs split into instances.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/gpu_option.h"
#include "cli/mig_layouts.h"
#include "cli/mig_views.h"
#include "cli/show.h"
#include "cli/take.h"

namespace gpuman::cli {
namespace {

using base::ErrorCode;

constexpr std::size_t kMaxOfAFile = 1 << 20;

struct MigOptions {
  std::vector<std::string> gpus;
  std::string file, layout;
  bool dry_run = false;
  bool disable = false;
  std::string format = "toml";
  std::string name = "current";
};

// Empty `gpu`: all GPUs.
base::Result<api::MigReport> AskMig(const api::Client& daemon, std::string_view gpu) {
  api::Query query;
  if (!gpu.empty()) query.Add("gpu", gpu);
  return api::AskWithoutTimeout(daemon, api::routes::kMig, {{}, query});
}

base::Result<api::MigReport> AskMig(CommandContext& session, const std::vector<std::string>& gpus) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  if (gpus.empty()) return AskMig(daemon, "");
  api::MigReport report;
  for (const auto& gpu : gpus) {
    GPUMAN_ASSIGN(auto one, AskMig(daemon, gpu));
    report.gpus.insert(report.gpus.end(), one.gpus.begin(), one.gpus.end());
  }
  return report;
}

base::Result<std::vector<api::MigConfigSpec>> FromFile(const MigOptions& o) {
  GPUMAN_ASSIGN(const auto text, base::ReadFile(o.file, kMaxOfAFile));
  GPUMAN_ASSIGN(auto layouts, ParseMigLayouts(text, o.file));
  std::vector<std::string> names;
  for (const auto& [name, devices] : layouts) names.push_back(name);
  if (o.layout.empty() && layouts.size() == 1) return std::move(layouts.begin()->second);
  if (o.layout.empty())
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("{} has several layouts", o.file),
                      fmt::format("name one with --layout: {}", fmt::join(names, ", ")));
  const auto found = layouts.find(o.layout);
  if (found == layouts.end())
    return base::Fail(ErrorCode::kNotFound, fmt::format("{} has no layout '{}'", o.file, o.layout),
                      fmt::format("it has {}", fmt::join(names, ", ")));
  return std::move(found->second);
}

base::Result<api::MigRequest> RequestOf(const MigOptions& o, const std::vector<std::string>& instances) {
  api::MigRequest request;
  if (!o.file.empty()) {
    if (!instances.empty())
      return base::Fail(ErrorCode::kInvalidArgument, "give either instances or a file with --file, not both");
    GPUMAN_ASSIGN(request.devices, FromFile(o));
    for (auto& devices : request.devices)
      if (!o.gpus.empty()) devices.gpus = o.gpus;
    return request;
  }
  if (!o.layout.empty())
    return base::Fail(ErrorCode::kInvalidArgument,
                      "--layout names a layout of a file, and --file is missing");
  if (instances.empty())
    return base::Fail(
        ErrorCode::kInvalidArgument, "no instances are given",
        "gpuman mig plan --gpu 0 3g.71gb 2x1g.18gb, or --file FILE; gpuman mig clear removes them");
  api::MigConfigSpec devices;
  devices.gpus = o.gpus;
  devices.instances = instances;
  request.devices.push_back(std::move(devices));
  return request;
}

base::Result<int> Change(CommandContext& session, const api::MigRequest& request, bool is_plan) {
  // To apply takes seconds for each GPU.
  GPUMAN_ASSIGN(const auto changes,
                AskDaemon(session, is_plan ? api::routes::kPlanMig : api::routes::kApplyMig, {}, request,
                          api::NoTimeout()));
  GPUMAN_TRY(Show(session, changes, [&] { return RenderMigChanges(changes, is_plan); }));
  const bool failed = std::any_of(
      changes.gpus.begin(), changes.gpus.end(),
      [&](const api::MigGpuChange& gpu) { return gpu.error.has_value() || (!is_plan && !gpu.done); });
  return failed ? kExitFailed : kExitDone;
}

base::Result<int> Apply(CommandContext& session, const MigOptions& o,
                        const std::vector<std::string>& instances, bool is_plan) {
  GPUMAN_ASSIGN(const auto request, RequestOf(o, instances));
  return Change(session, request, is_plan || o.dry_run);
}

// Without --disable the daemon leaves the mode of each GPU as it finds it.
api::MigRequest ClearRequest(const MigOptions& o) {
  api::MigConfigSpec devices;
  devices.gpus = o.gpus;
  devices.enabled = false;
  devices.keep_mode = !o.disable;
  return api::MigRequest{{std::move(devices)}, true};
}

bool HasSplitGpu(const api::MigReport& report) {
  return std::any_of(report.gpus.begin(), report.gpus.end(),
                     [](const api::MigGpu& gpu) { return gpu.enabled || gpu.pending; });
}

base::Result<int> Clear(CommandContext& session, const MigOptions& o) {
  GPUMAN_ASSIGN(const int status, Change(session, ClearRequest(o), o.dry_run));
  if (status != kExitDone || o.dry_run || o.disable) return status;
  GPUMAN_ASSIGN(const auto after, AskMig(session, o.gpus));
  if (HasSplitGpu(after))
    session.Note(
        "MIG mode stays on: nothing runs on such a GPU until it has instances again, or until gpuman mig "
        "clear --disable");
  return status;
}

base::Result<int> Export(CommandContext& session, const MigOptions& o) {
  GPUMAN_ASSIGN(const auto report, AskMig(session, o.gpus));
  std::vector<api::MigConfigSpec> layout;
  for (const auto& gpu : report.gpus) {
    if (!gpu.supported) continue;
    if (gpu.error)
      return base::Fail(ErrorCode::kUnavailable, fmt::format("GPU {}: {}", gpu.index, *gpu.error));
    const auto same = std::find_if(layout.begin(), layout.end(), [&](const api::MigConfigSpec& each) {
      return each.enabled == gpu.enabled && each.instances == gpu.layout;
    });
    if (same != layout.end()) {
      same->gpus.push_back(std::to_string(gpu.index));
      continue;
    }
    api::MigConfigSpec devices;
    devices.gpus = {std::to_string(gpu.index)};
    devices.enabled = gpu.enabled;
    devices.instances = gpu.layout;
    layout.push_back(std::move(devices));
  }
  if (layout.empty())
    return base::Fail(ErrorCode::kNotSupported, "no GPU here can be split into MIG instances");
  return Show(session, api::MigRequest{layout, false}, [&] {
    return o.format == "toml" ? WriteMigToml(o.name, layout) : WriteMigParted(o.name, layout);
  });
}

Command ChangeCommand(bool is_plan) {
  const auto o = std::make_shared<MigOptions>();  // shared by the options and the action
  Options options = {
      GpuOption(o->gpus),
      {"--file", kFileValue, "File with named layouts, in TOML or in the format of NVIDIA's mig-parted",
       take::Text(o->file)},
      {"--layout", "NAME", "Name of the layout in the file (default: the only one)", take::Text(o->layout)}};
  if (!is_plan) options.push_back({"--dry-run", "", "Only show the steps", take::Flag(o->dry_run)});
  return {is_plan ? "plan" : "apply",
          is_plan ? "Show what splitting GPUs would change, and which programs prevent it"
                  : "Split GPUs into instances, and restore them after a reset; existing instances that fit "
                    "stay. Undone by:\ngpuman mig clear",
          is_plan ? "gpuman mig plan --gpu 0 3g.71gb 2x1g.18gb"
                  : "gpuman mig apply --file layouts.toml --layout balanced",
          {{"INSTANCE", 0, kAnyNumber, "[COUNTx][SLICESc.]PROFILE, such as 3g.71gb or 2x1g.18gb"}},
          std::move(options),
          [o, is_plan](CommandContext& session, const CommandLine& line) {
            return Apply(session, *o, line.words, is_plan);
          }};
}

Command ViewCommand(const char* name, const char* summary,
                    std::string (*render)(const api::MigReport&, const TerminalStyle&)) {
  const auto gpus = std::make_shared<std::vector<std::string>>();  // shared by the option and the action
  return {name,
          summary,
          fmt::format("gpuman mig {} --gpu 0", name),
          {{kGpuValue, 0, kAnyNumber, "Only these GPUs, without --gpu"}},
          {GpuOption(*gpus)},
          [gpus, render](CommandContext& session, const CommandLine& line) -> base::Result<int> {
            gpus->insert(gpus->end(), line.words.begin(), line.words.end());
            GPUMAN_ASSIGN(const auto report, AskMig(session, *gpus));
            return Show(session, report, render);
          }};
}

Command ClearCommand() {
  const auto o = std::make_shared<MigOptions>();  // shared by the options and the action
  return {"clear",
          "Remove all instances, and do not restore them. Without --disable MIG mode stays as it is;\nwhere "
          "it is on, nothing runs on the GPU until it has instances again",
          "gpuman mig clear --gpu 0 --disable",
          {},
          {GpuOption(o->gpus),
           {"--disable", "", "Also turn MIG mode off, so that the GPU can be used as a whole again",
            take::Flag(o->disable)},
           {"--dry-run", "", "Only show the steps", take::Flag(o->dry_run)}},
          [o](CommandContext& session, const CommandLine&) { return Clear(session, *o); }};
}

Command ExportCommand() {
  const auto o = std::make_shared<MigOptions>();  // shared by the options and the action
  return {"export",
          "Print the current layout of the GPUs as a file for mig apply",
          "gpuman mig export --format mig-parted",
          {},
          {GpuOption(o->gpus),
           {"--format", "toml|mig-parted", "Format of the file", take::Text(o->format)},
           {"--name", "NAME", "Name of the layout in the file (default: current)", take::Text(o->name)}},
          [o](CommandContext& session, const CommandLine&) { return Export(session, *o); }};
}

}  // namespace

Command MigCommand() {
  return {"mig",
          "Split GPUs into instances (MIG)",
          "gpuman mig apply --gpu 0 3g.71gb 2x1g.18gb",
          {},
          {},
          {},
          {ViewCommand("profiles", "Show what GPUs can be split into", RenderMigProfiles),
           ViewCommand("show", "Show what GPUs are split into", RenderMig), ChangeCommand(true),
           ChangeCommand(false), ClearCommand(), ExportCommand()}};
}

}  // namespace gpuman::cli
