// What serves people from other tools in the commands of the queue. It is put together in src/cli/compat, and
// app.cc gives it to the commands.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/queue_types.h"
#include "base/clock.h"
#include "base/result.h"
#include "cli/queue/command_dialect.h"
#include "cli/queue/external_queue.h"

namespace gpuman::cli::queue {

// Lives as long as the commands that got it.
struct ToolCompatibility {
  // Changes the job of a script of another tool once all options of the job are known, and returns notes for
  // the user.
  using CompleteScript = std::function<std::vector<std::string>(api::Submission& job)>;

  const ExternalQueue& queue;
  std::vector<const CommandDialect*> dialects;  // in which lines of scripts may be, beside gpuman's

  // Applies to `settings` what a script says to another tool. Empty: it says nothing. `text` and `name` must
  // outlive the result.
  base::Result<CompleteScript> (*read_script)(std::string_view text, std::string_view name,
                                              SubmitSettings& settings, base::WallTime now);
  std::string_view script_mark;  // what such lines begin with: "#SBATCH"
  // Takes out of the environments of jobs what would get into the way of gpuman; returns notes for the user.
  std::vector<std::string> (*clean_environment)(api::SubmitRequest& request);
};

}  // namespace gpuman::cli::queue
