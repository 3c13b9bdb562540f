// Reads scripts that were written for Slurm: what a job of gpuman takes over from the "#SBATCH" lines. Pure.
//
// As in Slurm, a line counts if it begins with "#SBATCH" and stands before the first command. Values mean
// what they mean in Slurm: --time=30 is minutes, --mem=512 is MiB of host memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/queue/tool_compatibility.h"

namespace gpuman::cli::slurm {

inline constexpr std::string_view kScriptMark = "#SBATCH";

struct SbatchReading {
  bool found = false;                 // the script has such a line
  std::vector<std::string> taken;     // options that were taken over, as they stand in the script
  std::vector<std::string> not_read;  // options without a counterpart in gpuman
};

// Writes the options into `settings`. kInvalidArgument names the line of an option with an unreadable value:
// to ignore a limit silently would be worse.
base::Result<SbatchReading> ApplySbatch(std::string_view text, std::string_view name,
                                        queue::SubmitSettings& settings, base::WallTime now);

// The same as ToolCompatibility::read_script. The tasks of an array find their index under Slurm's name.
base::Result<queue::ToolCompatibility::CompleteScript> ReadSbatch(std::string_view text,
                                                                  std::string_view name,
                                                                  queue::SubmitSettings& settings,
                                                                  base::WallTime now);

}  // namespace gpuman::cli::slurm
