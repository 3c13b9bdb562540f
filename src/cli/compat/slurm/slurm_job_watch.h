// The state of a job of Slurm, kept between questions to Slurm: what Slurm says of the job, and what the
// record has where Slurm has forgotten the job. Not thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_context.h"
#include "cli/compat/slurm/programs.h"
#include "cli/compat/slurm/record.h"
#include "cli/compat/slurm/views.h"

namespace gpuman::cli::slurm {

// Slurm's programs and the user's record, for the commands about jobs of Slurm.
struct SlurmContext {
  explicit SlurmContext(const CommandContext& session)
      : programs(session.environment()), record(SubmissionLog::OfUser(session.environment())) {}
  SlurmClient programs;
  SubmissionLog record;
};

class SlurmJobWatch {
 public:
  // `engine` must outlive this object.
  SlurmJobWatch(const SlurmContext& engine, const SlurmJobId& name);

  // Whether all of the job has ended; the end is then recorded. kNotFound: neither Slurm nor the record knows
  // it. After a first answer, Slurm may be away for a minute, as when its controller restarts: that is no
  // error.
  base::Result<bool> Ask();

  // The lines as of the last question. Tasks that Slurm has forgotten since are included.
  std::vector<SlurmJobView> Lines() const;
  JobEnd End() const;
  bool IsArray() const;
  const std::optional<SubmissionRecord>& kept() const { return kept_; }
  // The file that the job writes; for an array, the file that the first task writes; nullopt: not known yet.
  std::optional<std::string> Output() const;

 private:
  using Steady = std::chrono::steady_clock;

  std::vector<SeenJob> Seen() const;
  bool AllEnded() const;
  base::Result<bool> AfterFailure(const base::Error& error);
  void KeepEnd(const JobEnd& ended);

  const SlurmContext& engine_;
  SlurmJobId name_;
  std::optional<SubmissionRecord> kept_;
  std::map<std::string, SeenJob> jobs_;  // by gpuman's name
  std::vector<SeenJob> waiting_;         // tasks that wait together
  std::optional<Steady::time_point> lost_since_;
  bool asked_before_ = false;
};

}  // namespace gpuman::cli::slurm
