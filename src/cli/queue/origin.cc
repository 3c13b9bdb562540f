#include "cli/queue/origin.h"

#include <sys/stat.h>

#include <filesystem>

#include "base/process_spawner.h"
#include "base/utf8.h"

namespace gpuman::cli::queue {

base::Result<LaunchContext> OriginOfThisProcess() {
  LaunchContext origin;
  std::error_code error;
  origin.directory = std::filesystem::current_path(error).string();
  if (error) return base::Fail(base::SystemError(error.value(), "finding the current directory"));
  origin.environment = base::OwnEnvironment();
  const mode_t mask = ::umask(0);
  ::umask(mask);
  origin.umask = mask;
  return origin;
}

Variables VariablesOf(const LaunchContext& origin, std::vector<std::string>& left_out) {
  Variables variables;
  for (const auto& entry : origin.environment) {
    const auto equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos) continue;  // not a variable; some programs leave these
    if (base::IsUtf8(entry))
      variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    else
      left_out.push_back(entry.substr(0, equals));
  }
  return variables;
}

}  // namespace gpuman::cli::queue
