// device: persistence, compute mode, clocks, power, ECC, profiles.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/device_views.h"
#include "cli/gpu_option.h"
#include "cli/show.h"
#include "cli/take.h"

namespace gpuman::cli {
namespace {

constexpr const char* kGraphicsClocks = "graphics_clocks";
constexpr const char* kMemoryClocks = "memory_clocks";

using ChangePtr =
    std::shared_ptr<api::DeviceSettingsRequest>;  // shared by the options and the action of a command

base::Result<int> Send(CommandContext& session, const api::DeviceSettingsRequest& change) {
  GPUMAN_ASSIGN(const auto report,
                AskDaemon(session, api::routes::kChangeDevices, {}, change, api::NoTimeout()));
  return Show(session, report, RenderDeviceReport);
}

base::Result<int> Send(CommandContext& session, const api::DeviceProfileRequest& change) {
  GPUMAN_ASSIGN(const auto report,
                AskDaemon(session, api::routes::kChangeDeviceProfile, {}, change, api::NoTimeout()));
  return Show(session, report, RenderDeviceReport);
}

base::Result<int> PrintDevices(CommandContext& session, const CommandLine& line) {
  api::Query query;
  if (!line.words.empty()) query.Add("gpu", line.words.front());
  GPUMAN_ASSIGN(const auto list,
                AskDaemon(session, api::routes::kDevices, {{}, query}, {}, api::NoTimeout()));
  if (!session.json || line.words.empty()) return Show(session, list, RenderDevices);
  session.PrintJson(api::ToJson(list.devices.at(0)));
  return kExitDone;
}

base::Result<api::DeviceProfileList> AskProfiles(CommandContext& session) {
  return AskDaemon(session, api::routes::kDeviceProfiles, {}, {}, api::NoTimeout());
}

base::Result<int> PrintProfiles(CommandContext& session, const CommandLine&) {
  GPUMAN_ASSIGN(const auto list, AskProfiles(session));
  return Show(session, list, RenderDeviceProfiles);
}

base::Result<int> PrintProfile(CommandContext& session, const CommandLine& line) {
  const std::string& name = line.words.front();
  GPUMAN_ASSIGN(const auto list, AskProfiles(session));
  const auto it = std::find_if(list.profiles.begin(), list.profiles.end(),
                               [&](const api::DeviceProfile& profile) { return profile.name == name; });
  if (it == list.profiles.end())
    return base::Fail(base::ErrorCode::kNotFound, fmt::format("there is no device profile '{}'", name),
                      "gpuman device profile list shows them");
  return Show(session, *it, RenderDeviceProfile);
}

// Takes the wanted value of a setting. `change` must live as long as the function, here and below.
Take Setting(api::DeviceSettingsRequest& change, const char* name) {
  return [&change, name](const std::string& value) -> base::Result<> {
    change.set[name] = value;
    return {};
  };
}
Take Reset(api::DeviceSettingsRequest& change, const char* name) {
  return [&change, name](const std::string&) -> base::Result<> {
    change.reset.emplace_back(name);
    return {};
  };
}

// The options of every command that changes a setting, and `more`.
template <typename Change>
Options ChangeOptions(Change& change, const Options& more = {}) {
  Options options = {GpuOption(change.gpus),
                     {"--dry-run", "", "Only show what would change", take::Flag(change.dry_run)}};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

Command Changing(const char* name, const char* summary, const std::string& example, const ChangePtr& change,
                 const Options& more = {}) {
  return {name,
          summary,
          example,
          {},
          ChangeOptions(*change, more),
          [change](CommandContext& session, const CommandLine&) { return Send(session, *change); }};
}

// A command with one argument, which `take` puts into the change.
Command Taking(const Argument& argument, const ChangePtr& change, const Take& take, const char* name,
               const char* summary, const char* example) {
  Command command = Changing(name, summary, example, change);
  command.arguments = {argument};
  command.run = [change, take](CommandContext& session, const CommandLine& line) -> base::Result<int> {
    GPUMAN_TRY(take(line.words.front()));
    return Send(session, *change);
  };
  return command;
}

Command Group(const char* name, const char* summary, const char* example, std::vector<Command> commands) {
  return {name, summary, example, {}, {}, {}, std::move(commands)};
}

Command Show() {
  return {"show",
          "Show each setting: its current, wanted, default and possible values",
          "gpuman device show 0",
          {GpuOrAll()},
          {},
          PrintDevices};
}

Command Persistence() {
  const auto change = std::make_shared<api::DeviceSettingsRequest>();
  return Taking({.value = "on|off", .help = "The new value"}, change, Setting(*change, "persistence"),
                "persistence",
                "Keep the driver loaded with no program on the GPU: saves seconds at each first CUDA call.\n"
                "Costs some watts at rest. Undone by: gpuman device persistence off",
                "gpuman device persistence on --gpu 0");
}

Command ComputeMode() {
  const auto change = std::make_shared<api::DeviceSettingsRequest>();
  return Taking(
      {.value = "default|exclusive-process|prohibited", .help = "The new value"}, change,
      Setting(*change, "compute_mode"), "compute-mode",
      "How many programs may use a GPU at once: any number, one, or none. Running programs continue; a "
      "program\nthat is not allowed fails when it starts. Undone by: gpuman device compute-mode default",
      "gpuman device compute-mode exclusive-process --gpu 0");
}

Command LockClocks() {
  const auto change = std::make_shared<api::DeviceSettingsRequest>();
  Command command = Changing(
      "lock",
      "Keep clocks within a range: the speed is the same every time, without the boost above the range. "
      "The\ndriver still lowers them when the GPU is too hot. Undone by: gpuman device clocks reset",
      "gpuman device clocks lock --graphics min,75% --memory max", change,
      {{"--graphics", "MIN[,MAX]",
        "Graphics clock: MHz, a part of the highest (75%), min or max; or a range MIN,MAX",
        Setting(*change, kGraphicsClocks)},
       {"--memory", "MIN[,MAX]", "Memory clock, written in the same way", Setting(*change, kMemoryClocks)}});
  command.run = [change](CommandContext& session, const CommandLine&) -> base::Result<int> {
    if (change->set.empty())
      return base::Fail(base::ErrorCode::kInvalidArgument, "neither --graphics nor --memory is given",
                        "gpuman device clocks lock --graphics min,75%; gpuman device show has the range");
    return Send(session, *change);
  };
  return command;
}

Command ResetClocks() {
  const auto change = std::make_shared<api::DeviceSettingsRequest>();
  Command command = Changing("reset", "Let the driver choose the clocks again: both, or those that are named",
                             "gpuman device clocks reset", change,
                             {{"--graphics", "", "Only the graphics clock", Reset(*change, kGraphicsClocks)},
                              {"--memory", "", "Only the memory clock", Reset(*change, kMemoryClocks)}});
  command.run = [change](CommandContext& session, const CommandLine&) {
    if (change->reset.empty()) change->reset = {kGraphicsClocks, kMemoryClocks};
    return Send(session, *change);
  };
  return command;
}

Command SetPower() {
  const auto change = std::make_shared<api::DeviceSettingsRequest>();
  return Taking(
      {.value = "WATTS", .help = "Watts (250W), a part of the highest limit (60%), min, max or default"},
      change, Setting(*change, "power"), "set",
      "Set the power limit. A lower one costs speed under load and saves heat; a higher one needs enough "
      "cooling.\nUndone by: gpuman device power reset",
      "gpuman device power set 250W --gpu 0,1");
}

Command ResetPower() {
  const auto change = std::make_shared<api::DeviceSettingsRequest>();
  change->reset = {"power"};
  return Changing("reset", "Go back to the GPU's default limit; gpuman no longer sets one",
                  "gpuman device power reset", change);
}

Command SetEcc(const char* word, const char* summary) {
  const auto change = std::make_shared<api::DeviceSettingsRequest>();
  change->set["ecc"] = word;
  return Changing(word, summary, fmt::format("gpuman device ecc {} --gpu 0", word), change);
}

Command ClearEcc() {
  const auto change = std::make_shared<api::DeviceSettingsRequest>();
  return Taking({.value = "volatile|aggregate",
                 .help = "Counters since the driver was loaded, or over the whole life of the GPU"},
                change, take::Text(change->clear_ecc), "clear",
                "Set the error counters to zero. The counts are lost; this cannot be undone",
                "gpuman device ecc clear volatile --gpu 0");
}

Argument ProfileArgument() { return {.value = "NAME", .help = "Its name"}; }

Command ListProfiles() {
  return {"list", "List the profiles", "gpuman device profile list", {}, {}, PrintProfiles};
}

Command ShowProfile() {
  return {"show",
          "Show what a profile sets",
          "gpuman device profile show benchmark",
          {ProfileArgument()},
          {},
          PrintProfile};
}

Command ApplyProfile() {
  const auto change = std::make_shared<api::DeviceProfileRequest>();
  return {"apply",
          "Apply a profile to GPUs, in place of the current one. The settings before it come back when it "
          "is\nremoved. Undone by: gpuman device profile clear",
          "gpuman device profile apply benchmark --gpu 0 --for 2h",
          {ProfileArgument()},
          ChangeOptions(*change, {{"--for", kTimeValue, "Remove it again after this time: 90s, 30m, 2h",
                                   take::Duration(change->duration)}}),
          [change](CommandContext& session, const CommandLine& line) {
            change->name = line.words.front();
            return Send(session, *change);
          }};
}

Command ClearProfile() {
  const auto change = std::make_shared<api::DeviceProfileRequest>();
  return {"clear",
          "Remove the profile: settings go back to what they were, or to what was set meanwhile",
          "gpuman device profile clear --gpu 0",
          {},
          ChangeOptions(*change),
          [change](CommandContext& session, const CommandLine&) { return Send(session, *change); }};
}

}  // namespace

Command DeviceCommand() {
  return Group(
      "device", "Show and change settings of GPUs: persistence, compute mode, clocks, power, ECC",
      "gpuman device show",
      {Show(), Persistence(), ComputeMode(),
       Group("clocks", "Lock the clocks of a GPU, or let the driver choose them again",
             "gpuman device clocks lock --graphics min,75%", {LockClocks(), ResetClocks()}),
       Group("power", "Limit the power of a GPU, within the range that it allows",
             "gpuman device power set 250W", {SetPower(), ResetPower()}),
       Group("ecc", "Error correction of the memory, and its error counters", "gpuman device ecc on",
             {SetEcc("on",
                     "Correct flipped bits in memory. On some GPUs this takes a few percent of the memory. "
                     "Takes effect with\nthe next reset of the GPU. Undone by: gpuman device ecc off"),
              SetEcc("off",
                     "Do not correct flipped bits, which then go unnoticed; some GPUs have more memory. "
                     "Takes effect with the\nnext reset of the GPU. Undone by: gpuman device ecc on"),
              ClearEcc()}),
       Group("profile", "Several settings under one name, which are applied and removed together",
             "gpuman device profile apply benchmark --gpu 0 --for 2h",
             {ListProfiles(), ShowProfile(), ApplyProfile(), ClearProfile()})});
}

}  // namespace gpuman::cli
