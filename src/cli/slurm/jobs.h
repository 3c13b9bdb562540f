// Jobs of Slurm: how gpuman names them, and what Slurm's programs print of them, read. Pure; thread-safe.
//
// Times that the programs print are read as UTC, in the form that Slurm calls standard: who runs them sees to
// that (programs.h).
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
struct JobName {
  std::uint32_t job = 0;
  std::optional<std::uint32_t> task{};
  friend bool operator==(const JobName&, const JobName&) = default;
};
std::optional<JobName> JobNameFromString(std::string_view word);
std::string ToString(const JobName& name);
// As Slurm writes it: "12_3".
std::string InSlurm(const JobName& name);

// One line of the queue, or one job that was asked for; what was not printed is empty.
struct SeenJob {
  std::uint32_t id = 0;   // its own; a task that has not started may have its array's
  std::uint32_t job = 0;  // the array's, else `id`
  std::string task;       // "3"; of tasks that wait together "4-9%2"; empty: no array
  std::string state_word;
  api::JobState state = api::JobState::kQueued;
  std::string reason;                    // Slurm's word; empty: there is none
  std::optional<int> exit_code, signal;  // of one that has ended
  std::string user, name, nodes, gres, partition;
  std::optional<base::Millis> time_limit;
  std::optional<base::WallTime> submitted, started, ended;  // of one that waits `started` is expected
  std::string output, errors;                               // files, whole
};
std::string NameOf(const SeenJob& job);  // "slurm-12_3"
// By index; those that wait together come last.
void SortTasks(std::vector<SeenJob>& tasks);

// What `squeue -h -o` is asked for, and its lines. A line of another form is passed over: a warning.
inline constexpr const char* kQueueFormat = "%A|%F|%K|%T|%r|%V|%S|%e|%l|%N|%b|%P|%u";
std::vector<SeenJob> ReadQueue(std::string_view text);
// What `scontrol show job` prints: of an array, each task that is or was apart, and the rest as one.
std::vector<SeenJob> ReadShown(std::string_view text);
// What `sacct -n -P -X -o` is asked for, and its lines.
inline constexpr const char* kAccountingFormat = "JobID,State,ExitCode,Submit,Start,End,User,JobName";
std::vector<SeenJob> ReadAccounting(std::string_view text);

// The id in what `sbatch --parsable` prints, and what it says besides.
struct Accepted {
  std::uint32_t id = 0;
  std::vector<std::string> said;
};
std::optional<Accepted> ReadAccepted(std::string_view text);

// Slurm's refusal in its own words, with the code that they stand for.
base::Error RefusalOf(std::string_view program, std::string_view text);

// gpuman's words for Slurm's: "dependency" for Dependency; what has none stays as it is.
std::string ReasonOf(std::string_view slurm_reason);

}  // namespace gpuman::cli::slurm
