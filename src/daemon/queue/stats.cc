#include "daemon/queue/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "jobs/lifecycle.h"

namespace gpuman::daemon {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr std::string_view kFinished = "finished";
constexpr std::size_t kDayLetters = 10;  // "2026-11-29"

std::string_view WordOf(StatsBy by) {
  switch (by) {
    case StatsBy::kUser:
      return "user";
    case StatsBy::kProject:
      return "project";
    case StatsBy::kName:
      return "name";
    case StatsBy::kDayOfEnd:
      return "day";
    case StatsBy::kGpu:
      break;
  }
  return "gpu";
}

// The least of the values that so many of a hundred do not pass. Changes their order.
template <typename Value>
Value Percentile(std::vector<Value>& values, std::size_t of_hundred) {
  const auto place =
      values.begin() + static_cast<std::ptrdiff_t>((values.size() * of_hundred + 99) / 100 - 1);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// nullopt: there are no values.
template <typename Statistics, typename Value>
std::optional<Statistics> StatisticsOf(std::vector<Value> values) {
  if (values.empty()) return std::nullopt;
  const Value median = Percentile(values, 50), most_of_all = Percentile(values, 95);
  return Statistics{static_cast<std::int64_t>(values.size()), median, most_of_all,
                    *std::max_element(values.begin(), values.end())};
}

}  // namespace

base::Result<StatsBy> ParseStatsBy(std::string_view word) {
  for (const auto by : {StatsBy::kUser, StatsBy::kProject, StatsBy::kName, StatsBy::kGpu, StatsBy::kDayOfEnd})
    if (WordOf(by) == word) return by;
  return base::Fail(base::ErrorCode::kInvalidArgument,
                    fmt::format("by: '{}' is none of user, project, name, gpu, day", word));
}

std::vector<std::string> Stats::RowsOf(const jobs::RunAccount& run) const {
  if (by_ == StatsBy::kGpu) return run.gpus;
  if (by_ == StatsBy::kDayOfEnd) return {base::FormatIso8601(run.ended).substr(0, kDayLetters)};
  return {by_ == StatsBy::kUser ? run.user : by_ == StatsBy::kName ? run.name : run.project};
}

void Stats::Add(const jobs::RunAccount& run) {
  if (user_ && run.user != *user_) return;
  Count(total_, run, 1);
  auto rows = RowsOf(run);
  const double part =
      by_ == StatsBy::kGpu ? 1.0 / static_cast<double>(std::max<std::size_t>(rows.size(), 1)) : 1;
  for (const auto& row : rows) Count(sums_[row], run, part);
  last_[run.job] = {run.outcome, std::move(rows)};
}

void Stats::Add(const jobs::Job& job) {
  if (user_ && job.owner->user != *user_) return;
  open_.insert(job.id);
  Count(total_, job);
  if (by_ == StatsBy::kUser) Count(sums_[job.owner->user], job);
  if (by_ == StatsBy::kProject) Count(sums_[job.spec->project.value_or("")], job);
  if (by_ == StatsBy::kName) Count(sums_[jobs::AccountName(job)], job);
  if (by_ == StatsBy::kGpu)
    for (const auto& gpu : job.gpus) Count(sums_[gpu], job);
}

void Stats::Count(Sums& sums, const jobs::RunAccount& run, double part) {
  auto& row = sums.row;
  ++row.runs;
  row.gpu_hours += part * run.GpuSeconds() / kSecondsPerHour;
  row.gpu_byte_hours += part * run.GpuByteSeconds() / kSecondsPerHour;
  if (const auto unused = run.UnusedGpuByteSeconds()) {
    const auto add = [part](std::optional<double>& to, double seconds) {
      to = to.value_or(0) + part * seconds / kSecondsPerHour;
    };
    add(row.gpu_byte_hours_known, run.GpuByteSeconds());
    add(row.gpu_byte_hours_unused, *unused);
  }
  if (run.energy) row.energy = row.energy.value_or(0) + part * *run.energy;
  sums.waited_ms += static_cast<double>(run.waited.count());
  sums.ran_ms += static_cast<double>(run.ran.count());
  if (run.peak) sums.peaks.push_back(*run.peak);
  if (run.outcome == kFinished) sums.times.push_back(run.ran);
  if (run.utilization) sums.utilizations.push_back(*run.utilization);
}

void Stats::Count(api::StatsRow& row, const std::string& outcome) {
  ++row.jobs;
  row.finished += outcome == kFinished;
  row.failed += outcome == "failed";
  row.cancelled += outcome == "cancelled";
  row.timeout += outcome == "timeout";
  row.killed += outcome == "killed";
}

void Stats::Count(Sums& sums, const jobs::Job& job) {
  if (jobs::IsWaiting(job))
    ++sums.row.queued;
  else if (!jobs::IsEnded(job))
    ++sums.row.running;
}

api::StatsRow Stats::Finished(Sums sums) const {
  api::StatsRow row = sums.row;
  row.cost = energy::CostOf(prices_, row.gpu_hours, row.energy);
  row.peak = StatisticsOf<api::PeakStats>(std::move(sums.peaks));
  row.run_time = StatisticsOf<api::RunTimeStats>(std::move(sums.times));
  row.utilization = StatisticsOf<api::UtilizationStats>(std::move(sums.utilizations));
  const auto mean = [&](double sum) {
    return base::Millis(static_cast<std::int64_t>(sum / static_cast<double>(row.runs)));
  };
  if (row.runs > 0) {
    row.wait_mean = mean(sums.waited_ms);
    row.run_mean = mean(sums.ran_ms);
  }
  // A cancelled job has neither succeeded nor failed.
  if (const auto judged = row.jobs - row.cancelled; judged > 0)
    row.success = static_cast<double>(row.finished) / static_cast<double>(judged);
  return row;
}

api::StatsView Stats::View() const {
  api::StatsView view;
  view.by = WordOf(by_);
  auto sums_of_rows = sums_;
  Sums total = total_;
  for (const auto& [job, last] : last_) {
    if (open_.contains(job)) continue;
    Count(total.row, last.outcome);
    for (const auto& row : last.rows) Count(sums_of_rows[row].row, last.outcome);
  }
  for (auto& [name, sums] : sums_of_rows) {
    view.rows.push_back(Finished(std::move(sums)));
    view.rows.back().name = name;
  }
  view.total = Finished(std::move(total));
  view.total.name = "total";
  if (prices_.IsSet()) view.currency = prices_.currency;
  return view;
}

}  // namespace gpuman::daemon
