// A job of Slurm's from one question to the next: what Slurm says of it, and where that has forgotten it what
// the record has. Not thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/session.h"
#include "cli/slurm/programs.h"
#include "cli/slurm/record.h"
#include "cli/slurm/views.h"

namespace gpuman::cli::slurm {

// What a command works with.
struct Engine {
  explicit Engine(const Session& session)
      : programs(session.environment()), record(SubmissionFile::OfUser(session.environment())) {}
  Programs programs;
  SubmissionFile record;
};

class Watched {
 public:
  // `engine` must live as long.
  Watched(const Engine& engine, const JobName& name);

  // Whether all of it has ended, which is then written down. kNotFound: nobody knows it. Once it has been
  // answered Slurm may be away for a minute, as when its controller is restarted: that is no error.
  base::Result<bool> Ask();

  // As of the last question. Tasks that Slurm has forgotten meanwhile are there.
  std::vector<JobLine> Lines() const;
  Ended End() const;
  bool IsArray() const;
  const std::optional<Submitted>& kept() const { return kept_; }
  // The file it writes, of an array its first task's; nullopt: not known yet.
  std::optional<std::string> Output() const;

 private:
  using Steady = std::chrono::steady_clock;

  std::vector<SeenJob> Seen() const;
  bool AllEnded() const;
  base::Result<bool> AfterFailure(const base::Error& error);
  void KeepEnd(const Ended& ended);

  const Engine& engine_;
  JobName name_;
  std::optional<Submitted> kept_;
  std::map<std::string, SeenJob> jobs_;  // by gpuman's name
  std::vector<SeenJob> waiting_;         // tasks that wait together
  std::optional<Steady::time_point> lost_since_;
  bool asked_before_ = false;
};

}  // namespace gpuman::cli::slurm
