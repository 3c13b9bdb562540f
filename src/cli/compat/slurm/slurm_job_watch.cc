#include "cli/compat/slurm/slurm_job_watch.h"

#include <algorithm>

namespace gpuman::cli::slurm {

using base::ErrorCode;
using base::Result;

SlurmJobWatch::SlurmJobWatch(const SlurmContext& engine, const SlurmJobId& name)
    : engine_(engine), name_(name), kept_(engine.record.Find(name.job)) {}

Result<bool> SlurmJobWatch::Ask() {
  const auto seen = engine_.programs.Query(name_);
  if (!seen) return AfterFailure(seen.error());
  asked_before_ = true;
  lost_since_.reset();
  waiting_.clear();
  for (const auto& job : *seen) {
    const auto name = NameOf(job);
    if (SlurmJobIdFromString(name))
      jobs_[name] = job;
    else
      waiting_.push_back(job);
  }
  if (!waiting_.empty() || !AllEnded()) return false;
  KeepEnd(WorstOf(Seen()));
  return true;
}

bool SlurmJobWatch::AllEnded() const {
  return std::all_of(jobs_.begin(), jobs_.end(),
                     [](const auto& job) { return spec::IsEnded(job.second.state); });
}

std::vector<SlurmJobView> SlurmJobWatch::Lines() const {
  std::vector<SlurmJobView> lines;
  for (const auto& job : Seen()) lines.push_back(LineOf(job, kept_));
  if (lines.empty() && kept_) lines.push_back(LineOf(std::nullopt, kept_));
  return lines;
}

JobEnd SlurmJobWatch::End() const {
  if (!jobs_.empty()) return WorstOf(Seen());
  return kept_ && kept_->ended ? *kept_->ended : JobEnd{};
}

bool SlurmJobWatch::IsArray() const { return !name_.task && !Seen().empty() && !Seen().front().task.empty(); }

std::optional<std::string> SlurmJobWatch::Output() const {
  // For an array that Slurm has forgotten, only the pattern of the file is known.
  if (jobs_.empty() && (!kept_ || kept_->array || !waiting_.empty())) return std::nullopt;
  const auto output = Lines().front().output;
  return output.empty() ? std::nullopt : std::optional(output);
}

std::vector<SeenJob> SlurmJobWatch::Seen() const {
  std::vector<SeenJob> jobs;
  for (const auto& [name, job] : jobs_) jobs.push_back(job);
  jobs.insert(jobs.end(), waiting_.begin(), waiting_.end());
  SortTasks(jobs);
  return jobs;
}

Result<bool> SlurmJobWatch::AfterFailure(const base::Error& error) {
  constexpr auto kAnswerPatience = std::chrono::minutes(1);
  if (error.code == ErrorCode::kNotFound && (kept_ || !jobs_.empty())) {
    if (!jobs_.empty() && waiting_.empty() && AllEnded()) return true;
    // The job has ended since gpuman last saw it; how it ended is unknown.
    if (!kept_) return base::Fail(error);
    jobs_.clear();
    waiting_.clear();
    KeepEnd(JobEnd{});
    return true;
  }
  const bool away = error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout;
  if (!lost_since_) lost_since_ = Steady::now();
  if (!away || !asked_before_ || Steady::now() - *lost_since_ > kAnswerPatience) return base::Fail(error);
  return false;
}

// Records an end; if that fails, the next question tries again. The end of one task is not that of the array.
void SlurmJobWatch::KeepEnd(const JobEnd& ended) {
  if (!kept_ || kept_->ended || name_.task) return;
  kept_->ended = ended;
  (void)engine_.record.SetEnded(kept_->id, ended);
}

}  // namespace gpuman::cli::slurm
