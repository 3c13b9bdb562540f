// Jobs of Slurm as gpuman shows them: what Slurm says now, and what the user's record has. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/queue_client.h"
#include "cli/compat/slurm/jobs.h"
#include "cli/compat/slurm/record.h"
#include "cli/text.h"

namespace gpuman::cli::slurm {

struct SlurmJobView {
  std::string id;  // "slurm-12_3"
  std::string tag;
  std::string user;
  std::optional<std::string> project;
  std::optional<spec::JobState> state;  // nullopt: the job has ended, and Slurm no longer tells how
  std::string state_word;               // Slurm's
  std::string reason, reason_word;      // gpuman's word, and Slurm's
  std::vector<std::string> command;
  std::string directory, nodes, partition, gres, output;
  std::optional<base::Millis> time_limit;
  std::optional<base::WallTime> submitted_at, started_at, ended_at;
  std::optional<int> exit_code, signal;
};
inline bool IsWaiting(const SlurmJobView& job) { return job.state && spec::IsWaiting(*job.state); }

// At least one of the two must be given.
SlurmJobView LineOf(const std::optional<SeenJob>& seen, const std::optional<SubmissionRecord>& kept);

// One or more lines for each recorded job, in order: one for each task that Slurm knows, else one without
// Slurm's data.
std::vector<SlurmJobView> LinesOf(const std::vector<SeenJob>& seen,
                                  const std::vector<SubmissionRecord>& kept);

// Chooses as `gpuman queue` does: without states, the jobs that have not ended. `filter.jobs` may have ids of
// other jobs.
bool IsChosen(const SlurmJobView& job, const api::QueueFilter& filter);

// The worst of all tasks: 128+N for a signal; 1 where only the state is known, or not even the state.
int ExitStatusOf(const JobEnd& ended);
JobEnd EndOf(const SeenJob& job);
// The worst end of several jobs that have ended.
JobEnd WorstOf(const std::vector<SeenJob>& jobs);

std::string Sentence(const SlurmJobView& job);
std::string RenderTable(const std::vector<SlurmJobView>& jobs, const TerminalStyle& style,
                        base::WallTime now);
std::string RenderJob(const SlurmJobView& job, const TerminalStyle& style);
api::Json ToJson(const SlurmJobView& job);

}  // namespace gpuman::cli::slurm
