// Jobs of Slurm: gpuman's names for them, and the parsers of what Slurm's programs print. Pure; thread-safe.
//
// The parsers read times as UTC, in the form that Slurm calls standard: programs.h runs the programs that
// way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"

namespace gpuman::cli::slurm {

// "slurm-12", or "slurm-12_3" for a task of an array.
struct SlurmJobId {
  std::uint32_t job = 0;
  std::optional<std::uint32_t> task{};
  friend bool operator==(const SlurmJobId&, const SlurmJobId&) = default;
};
std::optional<SlurmJobId> SlurmJobIdFromString(std::string_view word);
std::string ToString(const SlurmJobId& name);
// As Slurm writes it: "12_3".
std::string InSlurm(const SlurmJobId& name);

// One line of the queue, or one job that was asked for; fields that were not printed are empty.
struct SeenJob {
  std::uint32_t id = 0;   // the job's own id; a task that has not started may have its array's id
  std::uint32_t job = 0;  // the array's id, else `id`
  std::string task;       // "3"; for tasks that wait together "4-9%2"; empty: no array
  std::string state_word;
  spec::JobState state = spec::JobState::kQueued;
  std::string reason;                    // Slurm's word; empty: there is none
  std::optional<int> exit_code, signal;  // for a job that has ended
  std::string user, name, nodes, gres, partition;
  std::optional<base::Millis> time_limit;
  std::optional<base::WallTime> submitted, started, ended;  // while it waits, `started` is the expected time
  std::string output, errors;                               // full paths
};
std::string NameOf(const SeenJob& job);  // "slurm-12_3"
// Sorts by index; tasks that wait together come last.
void SortTasks(std::vector<SeenJob>& tasks);

// The format for `squeue -h -o`, and the parser of its lines. Skips a line of another form: it is a warning.
inline constexpr const char* kQueueFormat = "%A|%F|%K|%T|%r|%V|%S|%e|%l|%N|%b|%P|%u";
std::vector<SeenJob> ReadQueue(std::string_view text);
// Reads what `scontrol show job` prints: for an array, each task that runs or ran has a block of its own, and
// all other tasks share one block.
std::vector<SeenJob> ReadShown(std::string_view text);
// The format for `sacct -n -P -X -o`, and the parser of its lines.
inline constexpr const char* kAccountingFormat = "JobID,State,ExitCode,Submit,Start,End,User,JobName";
std::vector<SeenJob> ReadAccounting(std::string_view text);

// What `sbatch --parsable` prints: the id, and other messages.
struct SbatchAnswer {
  std::uint32_t id = 0;
  std::vector<std::string> said;
};
std::optional<SbatchAnswer> ReadAccepted(std::string_view text);

// Slurm's refusal in its own words, with the matching error code.
base::Error RefusalOf(std::string_view program, std::string_view text);

// gpuman's word for Slurm's: "dependency" for Dependency; a word without a counterpart stays as it is.
std::string ReasonOf(std::string_view slurm_reason);

}  // namespace gpuman::cli::slurm
