// What a job takes over from the shell that submits it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace gpuman::cli::queue {

using Variables = std::map<std::string, std::string>;

struct LaunchContext {
  std::string directory;
  std::vector<std::string> environment;  // "NAME=value"
  std::uint32_t umask = 022;
};
base::Result<LaunchContext> OriginOfThisProcess();

// The variables of the environment. `left_out` gets the names of those that JSON cannot carry, since they are
// not UTF-8; entries that are no variables are skipped.
Variables VariablesOf(const LaunchContext& origin, std::vector<std::string>& left_out);

}  // namespace gpuman::cli::queue
