#include "cli/check_config.h"

#include <unistd.h>

#include <filesystem>

#include "base/process_spawner.h"
#include "cli/find_daemon.h"

namespace gpuman::cli {
namespace {

// Whether a gpumand that this user starts would run as `gpumand --user`.
bool ReadsOwnFile() {
  std::error_code ignored;
  return ::geteuid() != 0 && !std::filesystem::exists(base::SystemPaths().config, ignored);
}

}  // namespace

ConfigFile ConfigFileOf(const base::EnvironmentLookup& environment, const std::optional<std::string>& file) {
  if (file) return {*file, true};
  if (const auto set = environment("GPUMAN_CONFIG")) return {*set, true};
  return {(ReadsOwnFile() ? base::UserPaths() : base::SystemPaths()).config, false};
}

base::Result<base::ProgramResult> CheckConfigFile(const base::EnvironmentLookup& environment,
                                                  const std::optional<std::string>& file) {
  base::ProgramRunRequest command;
  GPUMAN_ASSIGN(command.program, FindProgram("gpumand", environment));
  command.arguments = {"--check-config"};
  if (file)
    command.arguments.insert(command.arguments.end(), {"--config", *file});
  else if (ReadsOwnFile())
    command.arguments.emplace_back("--user");
  command.environment = base::OwnEnvironment();
  GPUMAN_ASSIGN(auto checked, base::RunCommand(command));
  while (checked.output.ends_with('\n')) checked.output.pop_back();
  return checked;
}

}  // namespace gpuman::cli
