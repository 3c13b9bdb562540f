#include "mps/directories.h"

#include "base/paths.h"
#include "mps/limits.h"

namespace gpuman::mps {

Directories DirectoriesOf(const std::filesystem::path& root, const std::string& uuid) {
  return {root / uuid / "pipe", root / uuid / "logs"};
}

base::Result<> CheckLength(const Directories& directories) {
  // The longest name that the daemon makes there.
  return base::CheckSocketPath(directories.pipe / "control_privileged");
}

Variables DaemonVariables(const Directories& directories, const std::string& uuid) {
  return {{"CUDA_MPS_PIPE_DIRECTORY", directories.pipe.string()},
          {"CUDA_MPS_LOG_DIRECTORY", directories.logs.string()},
          {"CUDA_VISIBLE_DEVICES", uuid}};
}

Variables ClientVariables(const Directories& directories, std::optional<double> threads) {
  Variables variables{{"CUDA_MPS_PIPE_DIRECTORY", directories.pipe.string()},
                      {"CUDA_MPS_LOG_DIRECTORY", directories.logs.string()}};
  if (threads) variables.emplace_back("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", ThreadsWord(*threads));
  return variables;
}

base::Result<Directories> DirectoriesIn(const Directories& of_gpu, const std::string& server,
                                        const std::string& name_space) {
  Directories inner{of_gpu.pipe / server / name_space, of_gpu.logs};
  GPUMAN_TRY(base::CheckSocketPath(inner.pipe / "control"));
  return inner;
}

}  // namespace gpuman::mps
