#include "cli/compat/known_tools.h"

#include "cli/compat/gflow/dialect.h"
#include "cli/compat/nvshare/environment.h"
#include "cli/compat/slurm/sbatch.h"
#include "cli/compat/slurm/slurm_queue.h"

namespace gpuman::cli {

const queue::ToolCompatibility& KnownTools() {
  static const slurm::SlurmQueue queue;
  static const queue::ToolCompatibility tools{
      queue, {&gflow::kDialect}, &slurm::ReadSbatch, slurm::kScriptMark, &nvshare::LeaveOutLibrary};
  return tools;
}

}  // namespace gpuman::cli
