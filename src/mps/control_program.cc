#include "mps/control_program.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/process_spawner.h"

namespace gpuman::mps {
namespace {

// The variables that are needed to find programs and libraries, and those of `directories`. Other variables
// could make the daemon a client of another daemon.
std::vector<std::string> EnvironmentOf(const Directories& directories, const std::string& uuid) {
  std::vector<std::string> environment;
  for (auto& variable : base::OwnEnvironment()) {
    const auto name = std::string_view(variable).substr(0, variable.find('='));
    if (name == "PATH" || name == "LD_LIBRARY_PATH" || name == "HOME" || name.starts_with("GPUMAN_SIM_") ||
        name.ends_with("SAN_OPTIONS"))
      environment.push_back(std::move(variable));
  }
  for (const auto& [name, value] : DaemonVariables(directories, uuid))
    environment.push_back(fmt::format("{}={}", name, value));
  return environment;
}

}  // namespace

base::Result<base::ProgramResult> ControlProgram::Run(std::vector<std::string> arguments,
                                                      std::string input) const {
  return base::RunCommand(
      {program_, std::move(arguments), EnvironmentOf(directories_, uuid_), std::move(input)});
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace gpuman::mps
