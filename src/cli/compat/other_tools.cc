#include "cli/compat/other_tools.h"

#include "cli/compat/slurm/queue.h"

namespace gpuman::cli {

const queue::OtherTools& OtherTools() {
  static const slurm::Queue queue;
  static const queue::OtherTools tools{queue};
  return tools;
}

}  // namespace gpuman::cli
