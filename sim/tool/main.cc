// gpuman-sim: runs commands on the simulated driver, injects faults, shows its state.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string_view>

#include "base/output.h"
#include "base/units.h"
#include "sim/tool/bus_speeds.h"
#include "sim/tool/exec.h"
#include "sim/tool/inject.h"
#include "sim/tool/show.h"

namespace {

using namespace gpuman;  // NOLINT(google-build-using-namespace)

constexpr const char* kFooter = R"(Examples:
  gpuman-sim exec --profile h200 --gpus 2 -- gpuman-load --alloc 1GiB --verify
  gpuman-sim exec -- sh        then, in that shell: gpuman-sim inject xid 79; gpuman-sim show
Inject and show work on the machine that GPUMAN_SIM_DIR names, as in every child of exec.)";

int Complain(const base::Error& error) {
  std::fprintf(stderr, "gpuman-sim: %s\n", error.message.c_str());
  if (!error.hint.empty()) std::fprintf(stderr, "hint: %s\n", error.hint.c_str());
  return 1;
}

// An option that holds bytes, or bytes a second, written as a size.
void AddSize(CLI::App& app, const char* name, std::uint64_t& target, const char* help) {
  app.add_option_function<std::string>(
         name, [&target](const std::string& text) { target = base::ParseBytes(text)->count; }, help)
      ->check([](const std::string& text) {
        const auto parsed = base::ParseBytes(text);
        return parsed ? std::string() : parsed.error().message;
      });
}

// Speeds of buses, checked as far as they can be before the number of GPUs is known.
void AddSpeeds(CLI::App& app, const char* name, std::string& target, const char* help) {
  app.add_option(name, target, help)->check([](const std::string& text) {
    const auto parsed = sim::ParseBusSpeeds(text, sim::kMaxGpus);
    return parsed ? std::string() : parsed.error().message;
  });
}

void DeclareExec(CLI::App& app, sim::ExecOptions& o) {
  app.add_option("--profile", o.machine.profile, "rtx4050, a100 or h200")->capture_default_str();
  app.add_option("--gpus", o.machine.gpus, "How many GPUs")
      ->check(CLI::Range(0u, sim::kMaxGpus))
      ->capture_default_str();
  app.add_option("--driver", o.machine.driver_version, "Driver version")->capture_default_str();
  AddSize(app, "--memory", o.machine.memory_total, "Memory of each GPU (default: the profile's)");
  AddSpeeds(app, "--bus-to-device", o.bus_to_device,
            "Bytes a second host to device: 55G, or 0=55G,1=25G by GPU (default: unlimited)");
  AddSpeeds(app, "--bus-to-host", o.bus_to_host, "Bytes a second device to host, in the same form");
  AddSize(app, "--checkpoint-speed", o.machine.checkpoint_speed, "Bytes a second of the process checkpoint");
  AddSize(app, "--restore-speed", o.machine.restore_speed, "Bytes a second of its restore");
  app.add_option("--nvlink", o.machine.nvlink,
                 "GPUs joined by NVLink, as 0-3,1-2: two pairs; none (default: the profile's)");
  app.add_flag("!--no-vmm", o.virtual_memory, "GPUs without the CUDA virtual memory calls");
  app.add_option("--dir", o.directory,
                 "Use the machine in this directory, or make it there, and leave it there");
}

int OnMachine(const std::function<base::Result<>(const sim::State&)>& act) {
  const auto state = sim::State::OpenFromEnvironment();
  if (!state) return Complain({base::ErrorCode::kNotFound, state.error(), "run this inside gpuman-sim exec"});
  const auto done = act(*state);
  return done ? base::FinishOutput("gpuman-sim", 0) : Complain(done.error());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs commands on a simulated NVIDIA driver, makes faults in it, and shows it.", "gpuman-sim"};
  app.footer(kFooter);
  app.require_subcommand(1);
  sim::ExecOptions exec;
  CLI::App* exec_command = app.add_subcommand(
      "exec", "Runs a command and its children on a simulated machine: exec [OPTIONS] -- COMMAND…");
  DeclareExec(*exec_command, exec);
  CLI::App* inject_command = app.add_subcommand("inject", "Makes a fault, or sets a reading");
  inject_command->require_subcommand(1);
  sim::Injection injection;
  sim::DeclareInjections(*inject_command, injection);
  bool json = false;
  CLI::App* show_command = app.add_subcommand("show", "Shows GPUs, memory and processes of the machine");
  show_command->add_flag("--json", json, "As JSON");

  // All words behind the first -- belong to the command, whatever they look like.
  const auto dashes = std::find(argv, argv + argc, std::string_view("--"));
  if (dashes != argv + argc) exec.command.assign(dashes + 1, argv + argc);
  try {
    app.parse(static_cast<int>(dashes - argv), argv);
    if (exec_command->parsed() && exec.command.empty()) throw CLI::RequiredError("-- COMMAND");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? base::FinishOutput("gpuman-sim", 0) : 2;
  }
  if (exec_command->parsed()) {
    const auto status = sim::Exec(exec);
    return status ? *status : Complain(status.error());
  }
  if (inject_command->parsed()) return OnMachine(injection);
  return OnMachine([&](const sim::State& state) -> base::Result<> {
    std::fputs((json ? sim::ShowJson(state) : sim::ShowText(state)).c_str(), stdout);
    return {};
  });
}
