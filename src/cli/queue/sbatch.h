// Scripts that were written for Slurm: what a job of gpuman takes over from their "#SBATCH" lines. Pure.
//
// As in Slurm, a line counts that begins with "#SBATCH" and stands before the first command. Values mean what
// they mean there: --time=30 is minutes, --mem=512 is MiB of the host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/queue/settings.h"

namespace gpuman::cli::queue {

struct SbatchReading {
  bool found = false;                 // there is such a line
  std::vector<std::string> taken;     // options that were taken over, as they stand in the script
  std::vector<std::string> not_read;  // those that gpuman has no counterpart for
};

// Writes what it takes over into `settings`. kInvalidArgument names the line of an option whose value cannot
// be read: a limit that is left out silently would be worse.
base::Result<SbatchReading> ApplySbatch(std::string_view text, std::string_view name,
                                        SubmitSettings& settings, base::WallTime now);

// What errors and notes call a script that has no file.
inline constexpr std::string_view kStandardInput = "standard input";

// For who expects a GPU of a script that says nothing of one.
std::string NoteOfNoGpu(std::string_view name);

// What the user is told about a script `name` that was read so; `gpus`: the job asks for some.
std::vector<std::string> NotesOf(const SbatchReading& reading, std::string_view name, std::string_view text,
                                 bool gpus);

}  // namespace gpuman::cli::queue
