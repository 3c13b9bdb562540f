// What serves people from other tools in the commands of the queue. It is put together in src/cli/compat, and
// app.cc gives it to the commands.
#pragma once

#include "cli/queue/other_queue.h"

namespace gpuman::cli::queue {

// Lives as long as the commands that got it.
struct OtherTools {
  const OtherQueue& queue;
};

}  // namespace gpuman::cli::queue
