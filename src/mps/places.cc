#include "mps/places.h"

#include "base/paths.h"
#include "mps/limits.h"

namespace gpuman::mps {

Places PlacesOf(const std::filesystem::path& root, const std::string& uuid) {
  return {root / uuid / "pipe", root / uuid / "logs"};
}

base::Result<> CheckLength(const Places& places) {
  // The longest name that the daemon makes there.
  return base::CheckSocketPath(places.pipe / "control_privileged");
}

Variables DaemonVariables(const Places& places, const std::string& uuid) {
  return {{"CUDA_MPS_PIPE_DIRECTORY", places.pipe.string()},
          {"CUDA_MPS_LOG_DIRECTORY", places.logs.string()},
          {"CUDA_VISIBLE_DEVICES", uuid}};
}

Variables ClientVariables(const Places& places, std::optional<double> threads) {
  Variables variables{{"CUDA_MPS_PIPE_DIRECTORY", places.pipe.string()},
                      {"CUDA_MPS_LOG_DIRECTORY", places.logs.string()}};
  if (threads) variables.emplace_back("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", ThreadsWord(*threads));
  return variables;
}

}  // namespace gpuman::mps
