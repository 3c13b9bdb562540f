// device: persistence, compute mode, clocks, power, ECC, profiles.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/device_json.h"
#include "cli/command.h"
#include "cli/device_views.h"

namespace gpuman::cli {
namespace {

// The options of every command that changes a setting.
struct ChangeOptions {
  std::vector<std::string> gpus;
  bool dry_run = false;
  std::string word;  // the new value of the setting
  std::optional<std::string> graphics, memory, duration;
  bool reset_graphics = false, reset_memory = false;
};
using ChangeOptionsPtr = std::shared_ptr<ChangeOptions>;  // shared by the parser's bindings and the action

template <typename T>
int Show(Session& session, const T& value, std::string (*render)(const T&, const TerminalStyle&)) {
  if (session.json)
    session.PrintJson(api::ToJson(value));
  else
    session.Print(render(value, session.style()));
  return kExitDone;
}

base::Result<int> Change(Session& session, const ChangeOptions& o, api::DeviceChange change) {
  change.gpus = o.gpus;
  change.dry_run = o.dry_run;
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto report, api::ChangeDevices(daemon, change));
  return Show(session, report, RenderDeviceReport);
}

base::Result<int> SetOne(Session& session, const ChangeOptions& o, const char* setting) {
  api::DeviceChange change;
  change.set[setting] = o.word;
  return Change(session, o, std::move(change));
}

base::Result<int> LockClocks(Session& session, const ChangeOptions& o) {
  api::DeviceChange change;
  if (o.graphics) change.set["graphics_clocks"] = *o.graphics;
  if (o.memory) change.set["memory_clocks"] = *o.memory;
  if (change.set.empty())
    return base::Fail(base::ErrorCode::kInvalidArgument, "neither --graphics nor --memory is given",
                      "gpuman device clocks lock --graphics 1200,1400; gpuman device show has the range");
  return Change(session, o, std::move(change));
}

base::Result<int> ResetClocks(Session& session, const ChangeOptions& o) {
  api::DeviceChange change;
  const bool both = o.reset_graphics == o.reset_memory;
  if (both || o.reset_graphics) change.reset.emplace_back("graphics_clocks");
  if (both || o.reset_memory) change.reset.emplace_back("memory_clocks");
  return Change(session, o, std::move(change));
}

base::Result<int> ChangeProfile(Session& session, const ChangeOptions& o, bool apply) {
  api::DeviceProfileChange change;
  change.gpus = o.gpus;
  change.dry_run = o.dry_run;
  if (apply) change.name = o.word;
  if (o.duration) {
    GPUMAN_ASSIGN(change.duration, base::ParseDuration(*o.duration));
  }
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto report, api::ChangeDeviceProfile(daemon, change));
  return Show(session, report, RenderDeviceReport);
}

base::Result<int> ShowDevices(Session& session, const std::string& gpu) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto list, api::Devices(daemon, gpu));
  if (!session.json || gpu.empty()) return Show(session, list, RenderDevices);
  session.PrintJson(api::ToJson(list.devices.at(0)));
  return kExitDone;
}

base::Result<int> ListProfiles(Session& session) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto list, api::DeviceProfiles(daemon));
  return Show(session, list, RenderDeviceProfiles);
}

base::Result<int> ShowProfile(Session& session, const std::string& name) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto list, api::DeviceProfiles(daemon));
  const auto it = std::find_if(list.profiles.begin(), list.profiles.end(),
                               [&](const api::DeviceProfile& profile) { return profile.name == name; });
  if (it == list.profiles.end())
    return base::Fail(base::ErrorCode::kNotFound, fmt::format("there is no device profile '{}'", name),
                      "gpuman device profile list shows them");
  return Show(session, *it, RenderDeviceProfile);
}

// Makes the commands below `gpuman device`; each gets options of its own.
class Maker {
 public:
  explicit Maker(const Registry& registry, CLI::App* device) : registry_(registry), device_(device) {}

  CLI::App* Group(const char* name, const char* summary, const char* example) const {
    auto* group = registry_.Add(name, summary, example, nullptr, device_);
    group->require_subcommand(1);
    return group;
  }
  // Adds a command with --gpu and --dry-run.
  CLI::App* Change(const char* name, const std::string& summary, const std::string& example,
                   const ChangeOptionsPtr& o, Action action, CLI::App* parent) const {
    auto* command = registry_.Add(name, summary, example, std::move(action), parent);
    command
        ->add_option("-g,--gpu", o->gpus,
                     "Only these GPUs, by index or UUID; repeat or use commas (default: all)")
        ->type_name(kGpuValue)
        ->delimiter(',')
        ->expected(1)
        ->take_all();
    command->add_flag("--dry-run", o->dry_run, "Only show what would change");
    return command;
  }
  // Adds `gpuman device NAME WORD`.
  void Word(const char* name, const std::string& summary, const std::string& example, const char* setting,
            const char* words, std::vector<std::string> allowed) const {
    const auto o = std::make_shared<ChangeOptions>();
    auto* command = Change(
        name, summary, example, o, [o, setting](Session& session) { return SetOne(session, *o, setting); },
        device_);
    command->add_option("value", o->word, "The new value")
        ->type_name(words)
        ->check(CLI::IsMember(std::move(allowed)).description(""))
        ->required();
  }
  const Registry& registry() const { return registry_; }

 private:
  const Registry& registry_;
  CLI::App* device_;
};

void AddModes(const Maker& maker) {
  maker.Word("persistence",
             "Keep the driver loaded with no program on the GPU: saves seconds at each first CUDA call.\n"
             "Costs some watts at rest. Undone by: gpuman device persistence off",
             "gpuman device persistence on --gpu 0", "persistence", "on|off", {"on", "off"});
  maker.Word(
      "compute-mode",
      "How many programs may use a GPU at once: any number, one, or none. Running programs continue; a "
      "program\nthat is not allowed fails when it starts. Undone by: gpuman device compute-mode default",
      "gpuman device compute-mode exclusive-process --gpu 0", "compute_mode",
      "default|exclusive-process|prohibited", {"default", "exclusive-process", "prohibited"});
}

void AddClocks(const Maker& maker) {
  auto* clocks = maker.Group("clocks", "Lock the clocks of a GPU, or let the driver choose them again",
                             "gpuman device clocks lock --graphics 1200,1400");
  const auto lock = std::make_shared<ChangeOptions>();
  auto* command = maker.Change(
      "lock",
      "Keep clocks within a range: the speed is the same every time, without the boost above the range. "
      "The\ndriver still lowers them when the GPU is too hot. Undone by: gpuman device clocks reset",
      "gpuman device clocks lock --graphics 1200,1400 --memory max", lock,
      [lock](Session& session) { return LockClocks(session, *lock); }, clocks);
  command
      ->add_option("--graphics", lock->graphics,
                   "Graphics clock: MHz, a part of the highest (75%), min or max; or a range MIN,MAX")
      ->type_name("MIN[,MAX]");
  command->add_option("--memory", lock->memory, "Memory clock, written in the same way")
      ->type_name("MIN[,MAX]");
  const auto reset = std::make_shared<ChangeOptions>();
  command = maker.Change(
      "reset", "Let the driver choose the clocks again: both, or those that are named",
      "gpuman device clocks reset", reset, [reset](Session& session) { return ResetClocks(session, *reset); },
      clocks);
  command->add_flag("--graphics", reset->reset_graphics, "Only the graphics clock");
  command->add_flag("--memory", reset->reset_memory, "Only the memory clock");
}

void AddPower(const Maker& maker) {
  auto* power = maker.Group("power", "Limit the power of a GPU, within the range that it allows",
                            "gpuman device power set 250W");
  const auto set = std::make_shared<ChangeOptions>();
  auto* command = maker.Change(
      "set",
      "Set the power limit. A lower one costs speed under load and saves heat; a higher one needs enough "
      "cooling.\nUndone by: gpuman device power reset",
      "gpuman device power set 250W --gpu 0,1", set,
      [set](Session& session) { return SetOne(session, *set, "power"); }, power);
  command
      ->add_option("power", set->word, "Watts (250W), a part of the highest limit (60%), min, max or default")
      ->type_name("WATTS")
      ->required();
  const auto reset = std::make_shared<ChangeOptions>();
  maker.Change(
      "reset", "Go back to the GPU's default limit; gpuman no longer sets one", "gpuman device power reset",
      reset,
      [reset](Session& session) {
        api::DeviceChange change;
        change.reset = {"power"};
        return Change(session, *reset, std::move(change));
      },
      power);
}

void AddEcc(const Maker& maker) {
  auto* ecc =
      maker.Group("ecc", "Error correction of the memory, and its error counters", "gpuman device ecc on");
  for (const char* word : {"on", "off"}) {
    const bool on = std::string_view(word) == "on";
    const auto o = std::make_shared<ChangeOptions>();
    o->word = word;
    maker.Change(
        word,
        on ? "Correct flipped bits in memory. On some GPUs this takes a few percent of the memory. Takes "
             "effect with\nthe next reset of the GPU. Undone by: gpuman device ecc off"
           : "Do not correct flipped bits, which then go unnoticed; some GPUs have more memory. Takes effect "
             "with the\nnext reset of the GPU. Undone by: gpuman device ecc on",
        fmt::format("gpuman device ecc {} --gpu 0", word), o,
        [o](Session& session) { return SetOne(session, *o, "ecc"); }, ecc);
  }
  const auto clear = std::make_shared<ChangeOptions>();
  auto* command = maker.Change(
      "clear", "Set the error counters to zero. The counts are lost; this cannot be undone",
      "gpuman device ecc clear volatile --gpu 0", clear,
      [clear](Session& session) {
        api::DeviceChange change;
        change.clear_ecc = clear->word;
        return Change(session, *clear, std::move(change));
      },
      ecc);
  command
      ->add_option("which", clear->word,
                   "Counters since the driver was loaded, or over the whole life of the GPU")
      ->type_name("volatile|aggregate")
      ->check(CLI::IsMember(std::vector<std::string>{"volatile", "aggregate"}).description(""))
      ->required();
}

void AddProfiles(const Maker& maker) {
  auto* profile =
      maker.Group("profile", "Several settings under one name, which are applied and removed together",
                  "gpuman device profile apply benchmark --gpu 0 --for 2h");
  maker.registry().Add("list", "List the profiles", "gpuman device profile list", ListProfiles, profile);
  const auto shown = std::make_shared<std::string>();  // shared by the parser's bindings and the action
  maker.registry()
      .Add(
          "show", "Show what a profile sets", "gpuman device profile show benchmark",
          [shown](Session& session) { return ShowProfile(session, *shown); }, profile)
      ->add_option("name", *shown, "Its name")
      ->type_name("NAME")
      ->required();
  const auto apply = std::make_shared<ChangeOptions>();
  auto* command = maker.Change(
      "apply",
      "Apply a profile to GPUs, in place of the current one. The settings before it come back when it "
      "is\nremoved. Undone by: gpuman device profile clear",
      "gpuman device profile apply benchmark --gpu 0 --for 2h", apply,
      [apply](Session& session) { return ChangeProfile(session, *apply, true); }, profile);
  command->add_option("name", apply->word, "Its name")->type_name("NAME")->required();
  command->add_option("--for", apply->duration, "Remove it again after this time: 90s, 30m, 2h")
      ->type_name(kTimeValue);
  const auto clear = std::make_shared<ChangeOptions>();
  maker.Change(
      "clear", "Remove the profile: settings go back to what they were, or to what was set meanwhile",
      "gpuman device profile clear --gpu 0", clear,
      [clear](Session& session) { return ChangeProfile(session, *clear, false); }, profile);
}

}  // namespace

void AddDevice(const Registry& registry) {
  auto* device = registry.Add(
      "device", "Show and change settings of GPUs: persistence, compute mode, clocks, power, ECC",
      "gpuman device show", nullptr);
  device->require_subcommand(1);
  const auto gpu = std::make_shared<std::string>();  // shared by the parser's bindings and the action
  registry
      .Add(
          "show", "Show each setting: its current, wanted, default and possible values",
          "gpuman device show 0", [gpu](Session& session) { return ShowDevices(session, *gpu); }, device)
      ->add_option("gpu", *gpu, "Index, UUID, or the beginning of a UUID (default: all)")
      ->type_name(kGpuValue);
  const Maker maker(registry, device);
  AddModes(maker);
  AddClocks(maker);
  AddPower(maker);
  AddEcc(maker);
  AddProfiles(maker);
}

}  // namespace gpuman::cli
