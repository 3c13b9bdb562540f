// The jobs that a user has submitted to Slurm: one line of JSON a job in slurm.jsonl of the user's state
// directory ($XDG_STATE_HOME/gpuman). Slurm forgets a job soon after its end; the record keeps what gpuman
// learnt of it.
//
// Several programs may write at the same time: each change holds a lock file beside the file and replaces the
// file as a whole. Not thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/clock.h"
#include "base/paths.h"
#include "base/result.h"

namespace gpuman::cli::slurm {

struct JobEnd {
  spec::JobState state = spec::JobState::kFinished;
  bool known = false;  // false: Slurm no longer told the end, and `state` means nothing
  std::optional<int> exit_code, signal;
  std::optional<base::WallTime> at;
};

struct SubmissionRecord {
  std::uint32_t id = 0;
  std::string name;
  std::optional<std::string> project;
  base::WallTime submitted_at{};
  bool array = false;
  std::vector<std::string> command;  // empty: a script
  std::string directory;
  std::string output, errors;   // as in Translated
  std::optional<JobEnd> ended;  // for an array: the end of all its tasks
};

// Oldest first; invalid lines are skipped.
std::vector<SubmissionRecord> ReadRecord(std::string_view text);
std::string WriteRecord(const std::vector<SubmissionRecord>& jobs);

class SubmissionLog {
 public:
  explicit SubmissionLog(std::filesystem::path file) : file_(std::move(file)) {}
  static SubmissionLog OfUser(const base::EnvironmentLookup& environment);

  // Empty where the file does not exist, or cannot be read.
  std::vector<SubmissionRecord> Jobs() const;
  // The newest job with this id.
  std::optional<SubmissionRecord> Find(std::uint32_t id) const;
  // Keeps the last kMax jobs; jobs that have ended are dropped first.
  base::Result<> Add(const SubmissionRecord& job) const;
  base::Result<> SetEnded(std::uint32_t id, const JobEnd& ended) const;

  static constexpr std::size_t kMax = 1000;

 private:
  template <typename Change>
  base::Result<> Write(Change change) const;

  std::filesystem::path file_;
};

}  // namespace gpuman::cli::slurm
