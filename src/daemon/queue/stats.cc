#include "daemon/queue/stats.h"

#include <fmt/format.h>

namespace gpuman::daemon {
namespace {

constexpr double kSecondsPerHour = 3600;

std::string_view WordOf(StatsBy by) {
  return by == StatsBy::kGpu ? "gpu" : by == StatsBy::kProject ? "project" : "user";
}

}  // namespace

base::Result<StatsBy> ParseStatsBy(std::string_view word) {
  for (const auto by : {StatsBy::kUser, StatsBy::kProject, StatsBy::kGpu})
    if (WordOf(by) == word) return by;
  return base::Fail(base::ErrorCode::kInvalidArgument,
                    fmt::format("by: '{}' is none of user, project, gpu", word));
}

void Stats::Add(const jobs::RunAccount& run) {
  Count(total_, run, 1);
  if (by_ == StatsBy::kUser) Count(sums_[run.user], run, 1);
  if (by_ == StatsBy::kProject) Count(sums_[run.project], run, 1);
  if (by_ == StatsBy::kGpu)
    for (const auto& gpu : run.gpus) Count(sums_[gpu], run, 1.0 / static_cast<double>(run.gpus.size()));
}

void Stats::Add(const jobs::Job& job) {
  Count(total_, job);
  if (by_ == StatsBy::kUser) Count(sums_[job.owner->user], job);
  if (by_ == StatsBy::kProject) Count(sums_[job.terms->project], job);
  if (by_ == StatsBy::kGpu)
    for (const auto& gpu : job.gpus) Count(sums_[gpu], job);
}

void Stats::Count(Sums& sums, const jobs::RunAccount& run, double part) {
  auto& row = sums.row;
  ++row.jobs;
  row.finished += run.outcome == "finished";
  row.failed += run.outcome == "failed";
  row.cancelled += run.outcome == "cancelled";
  row.timeout += run.outcome == "timeout";
  row.killed += run.outcome == "killed";
  row.gpu_hours += part * run.GpuSeconds() / kSecondsPerHour;
  row.gpu_byte_hours += part * run.GpuByteSeconds() / kSecondsPerHour;
  if (run.energy) row.energy = row.energy.value_or(0) + part * *run.energy;
  sums.waited_ms += static_cast<double>(run.waited.count());
  sums.ran_ms += static_cast<double>(run.ran.count());
}

void Stats::Count(Sums& sums, const jobs::Job& job) {
  if (jobs::IsWaiting(job))
    ++sums.row.queued;
  else if (!jobs::IsEnded(job))
    ++sums.row.running;
}

api::StatsRow Stats::Finished(const Sums& sums) {
  api::StatsRow row = sums.row;
  if (row.jobs == 0) return row;
  const auto mean = [&](double sum) {
    return base::Millis(static_cast<std::int64_t>(sum / static_cast<double>(row.jobs)));
  };
  row.wait_mean = mean(sums.waited_ms);
  row.run_mean = mean(sums.ran_ms);
  row.success = static_cast<double>(row.finished) / static_cast<double>(row.jobs);
  return row;
}

api::StatsView Stats::View() const {
  api::StatsView view;
  view.by = WordOf(by_);
  for (const auto& [name, sums] : sums_) {
    view.rows.push_back(Finished(sums));
    view.rows.back().name = name;
  }
  view.total = Finished(total_);
  view.total.name = "total";
  return view;
}

}  // namespace gpuman::daemon
