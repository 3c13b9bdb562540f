#include "cli/check_config.h"

#include <unistd.h>

#include <filesystem>

#include "cli/find_daemon.h"

namespace gpuman::cli {

base::Result<base::Finished> CheckConfigFile(const base::EnvironmentLookup& environment,
                                             const std::optional<std::string>& file) {
  base::Command command;
  GPUMAN_ASSIGN(command.program, FindProgram("gpumand", environment));
  command.arguments = {"--check-config"};
  std::error_code ignored;
  if (file)
    command.arguments.insert(command.arguments.end(), {"--config", *file});
  else if (::geteuid() != 0 && !std::filesystem::exists(base::SystemPaths().config, ignored))
    command.arguments.emplace_back("--user");
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    command.environment.emplace_back(*entry);
  GPUMAN_ASSIGN(auto checked, base::RunCommand(command));
  while (checked.output.ends_with('\n')) checked.output.pop_back();
  return checked;
}

}  // namespace gpuman::cli
