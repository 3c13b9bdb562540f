// mig profiles|show|plan|apply|clear|export: GPUs split into instances.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/command.h"
#include "cli/mig_layouts.h"
#include "cli/mig_views.h"

namespace gpuman::cli {
namespace {

using base::ErrorCode;

constexpr std::size_t kMaxOfAFile = 1 << 20;

struct MigOptions {
  std::vector<std::string> gpus;
  std::vector<std::string> instances;
  std::string file, layout;
  bool dry_run = false;
  bool disable = false;
  std::string format = "toml";
  std::string name = "current";
};

using MigOptionsPtr = std::shared_ptr<MigOptions>;  // shared by the parser's bindings and the action

base::Result<api::MigReport> AskMig(Session& session, const MigOptions& o) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  if (o.gpus.empty()) return daemon.Mig("");
  api::MigReport report;
  for (const auto& gpu : o.gpus) {
    GPUMAN_ASSIGN(auto one, daemon.Mig(gpu));
    report.gpus.insert(report.gpus.end(), one.gpus.begin(), one.gpus.end());
  }
  return report;
}

base::Result<int> Show(Session& session, const MigOptions& o,
                       std::string (*render)(const api::MigReport&, const TerminalStyle&)) {
  GPUMAN_ASSIGN(const auto report, AskMig(session, o));
  if (session.json)
    session.PrintJson(api::ToJson(report));
  else
    session.Print(render(report, session.style()));
  return kExitDone;
}

base::Result<std::vector<api::MigDevices>> FromFile(const MigOptions& o) {
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

base::Result<api::MigRequest> RequestOf(const MigOptions& o) {
  api::MigRequest request;
  if (!o.file.empty()) {
    if (!o.instances.empty())
      return base::Fail(ErrorCode::kInvalidArgument, "give either instances or a file with --file, not both");
    GPUMAN_ASSIGN(request.devices, FromFile(o));
    for (auto& devices : request.devices)
      if (!o.gpus.empty()) devices.gpus = o.gpus;
    return request;
  }
  if (!o.layout.empty())
    return base::Fail(ErrorCode::kInvalidArgument,
                      "--layout names a layout of a file, and --file is missing");
  if (o.instances.empty())
    return base::Fail(
        ErrorCode::kInvalidArgument, "no instances are given",
        "gpuman mig plan --gpu 0 3g.71gb 2x1g.18gb, or --file FILE; gpuman mig clear removes them");
  api::MigDevices devices;
  devices.gpus = o.gpus;
  devices.instances = o.instances;
  request.devices.push_back(std::move(devices));
  return request;
}

base::Result<int> Change(Session& session, const api::MigRequest& request, bool is_plan) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto changes, is_plan ? daemon.PlanMig(request) : daemon.ApplyMig(request));
  if (session.json)
    session.PrintJson(api::ToJson(changes));
  else
    session.Print(RenderMigChanges(changes, is_plan));
  const bool failed = std::any_of(changes.gpus.begin(), changes.gpus.end(), [&](const api::MigChange& gpu) {
    return gpu.error.has_value() || (!is_plan && !gpu.done);
  });
  return failed ? kExitFailed : kExitDone;
}

base::Result<int> Apply(Session& session, const MigOptions& o, bool is_plan) {
  GPUMAN_ASSIGN(const auto request, RequestOf(o));
  return Change(session, request, is_plan || o.dry_run);
}

base::Result<int> Clear(Session& session, const MigOptions& o) {
  api::MigDevices devices;
  devices.gpus = o.gpus;
  devices.enabled = !o.disable;
  GPUMAN_ASSIGN(const int status, Change(session, {{devices}, true}, o.dry_run));
  if (status == kExitDone && !o.disable && !o.dry_run)
    session.Note(
        "MIG mode stays on: nothing runs on such a GPU until it has instances again, or until gpuman mig "
        "clear --disable");
  return status;
}

base::Result<int> Export(Session& session, const MigOptions& o) {
  GPUMAN_ASSIGN(const auto report, AskMig(session, o));
  std::vector<api::MigDevices> layout;
  for (const auto& gpu : report.gpus) {
    if (!gpu.supported) continue;
    if (gpu.error)
      return base::Fail(ErrorCode::kUnavailable, fmt::format("GPU {}: {}", gpu.index, *gpu.error));
    const auto same = std::find_if(layout.begin(), layout.end(), [&](const api::MigDevices& each) {
      return each.enabled == gpu.enabled && each.instances == gpu.layout;
    });
    if (same != layout.end()) {
      same->gpus.push_back(std::to_string(gpu.index));
      continue;
    }
    api::MigDevices devices;
    devices.gpus = {std::to_string(gpu.index)};
    devices.enabled = gpu.enabled;
    devices.instances = gpu.layout;
    layout.push_back(std::move(devices));
  }
  if (layout.empty())
    return base::Fail(ErrorCode::kNotSupported, "no GPU here can be split into MIG instances");
  if (session.json)
    session.PrintJson(api::ToJson(api::MigRequest{layout, false}));
  else
    session.Print(o.format == "toml" ? WriteMigToml(o.name, layout) : WriteMigParted(o.name, layout));
  return kExitDone;
}

void AddGpus(CLI::App* command, const MigOptionsPtr& o) {
  command->add_option("-g,--gpu", o->gpus, "Only this GPU, by index or UUID; repeat for more (default: all)")
      ->type_name(kGpuValue)
      ->delimiter(',')
      ->allow_extra_args(false)  // the words behind the option are instances
      ->take_all();
}

void AddChange(const Registry& registry, CLI::App* mig, bool is_plan) {
  const auto o = std::make_shared<MigOptions>();
  auto* command = registry.Add(
      is_plan ? "plan" : "apply",
      is_plan ? "Show what splitting GPUs would change, and which programs prevent it"
              : "Split GPUs into instances, and restore them after a reset; existing instances that fit "
                "stay. Undone by:\ngpuman mig clear",
      is_plan ? "gpuman mig plan --gpu 0 3g.71gb 2x1g.18gb"
              : "gpuman mig apply --file layouts.toml --layout balanced",
      [o, is_plan](Session& session) { return Apply(session, *o, is_plan); }, mig);
  command->add_option("instances", o->instances, "[COUNTx][SLICESc.]PROFILE, such as 3g.71gb or 2x1g.18gb")
      ->type_name("INSTANCE");
  AddGpus(command, o);
  command
      ->add_option("--file", o->file,
                   "File with named layouts, in TOML or in the format of NVIDIA's mig-parted")
      ->type_name(kFileValue);
  command->add_option("--layout", o->layout, "Name of the layout in the file (default: the only one)")
      ->type_name("NAME");
  if (!is_plan) command->add_flag("--dry-run", o->dry_run, "Only show the steps");
}

void AddLook(const Registry& registry, CLI::App* mig, const char* name, const char* summary,
             std::string (*render)(const api::MigReport&, const TerminalStyle&)) {
  const auto o = std::make_shared<MigOptions>();
  auto* command = registry.Add(
      name, summary, fmt::format("gpuman mig {} --gpu 0", name),
      [o, render](Session& session) { return Show(session, *o, render); }, mig);
  AddGpus(command, o);
  command->add_option("gpus", o->gpus, "Only these GPUs, without --gpu")->type_name(kGpuValue);
}

}  // namespace

void AddMig(const Registry& registry) {
  auto* mig = registry.Add("mig", "Split GPUs into instances (MIG)",
                           "gpuman mig apply --gpu 0 3g.71gb 2x1g.18gb", nullptr);
  mig->require_subcommand(1);
  AddLook(registry, mig, "profiles", "Show what GPUs can be split into", RenderMigProfiles);
  AddLook(registry, mig, "show", "Show what GPUs are split into", RenderMig);
  AddChange(registry, mig, true);
  AddChange(registry, mig, false);
  const auto clear = std::make_shared<MigOptions>();
  auto* clearing = registry.Add(
      "clear",
      "Remove all instances, and do not restore them. Without --disable nothing runs on the GPU until it "
      "has\ninstances again",
      "gpuman mig clear --gpu 0 --disable", [clear](Session& session) { return Clear(session, *clear); },
      mig);
  AddGpus(clearing, clear);
  clearing->add_flag("--disable", clear->disable,
                     "Also turn MIG mode off, so that the GPU can be used as a whole again");
  clearing->add_flag("--dry-run", clear->dry_run, "Only show the steps");
  const auto out = std::make_shared<MigOptions>();
  auto* exporting = registry.Add(
      "export", "Print the current layout of the GPUs as a file for mig apply",
      "gpuman mig export --format mig-parted", [out](Session& session) { return Export(session, *out); },
      mig);
  AddGpus(exporting, out);
  exporting->add_option("--format", out->format, "Format of the file")
      ->type_name("toml|mig-parted")
      ->check(CLI::IsMember(std::vector<std::string>{"toml", "mig-parted"}).description(""));
  exporting->add_option("--name", out->name, "Name of the layout in the file")
      ->type_name("NAME")
      ->capture_default_str();
}

}  // namespace gpuman::cli
