// What serves people from other tools in the commands of the queue. It is put together in src/cli/compat, and
// app.cc gives it to the commands.
#pragma once

#include <vector>

#include "cli/queue/dialect.h"
#include "cli/queue/other_queue.h"

namespace gpuman::cli::queue {

// Lives as long as the commands that got it.
struct OtherTools {
  const OtherQueue& queue;
  std::vector<const Dialect*> dialects;  // in which lines of scripts may be, beside gpuman's
};

}  // namespace gpuman::cli::queue
