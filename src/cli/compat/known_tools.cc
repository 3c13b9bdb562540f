#include "cli/compat/known_tools.h"

#include "cli/compat/gflow/dialect.h"
#include "cli/compat/nvshare/environment.h"
#include "cli/compat/slurm/queue.h"
#include "cli/compat/slurm/sbatch.h"

namespace gpuman::cli {

const queue::OtherTools& KnownTools() {
  static const slurm::Queue queue;
  static const queue::OtherTools tools{
      queue, {&gflow::kDialect}, &slurm::ReadSbatch, &nvshare::LeaveOutLibrary};
  return tools;
}

}  // namespace gpuman::cli
