#include "cli/top/plot_history.h"

#include <algorithm>

namespace gpuman::cli::top {
namespace {

std::optional<double> Number(const std::optional<base::Bytes>& bytes) {
  return bytes ? std::optional(static_cast<double>(bytes->count)) : std::nullopt;
}

template <typename Map, typename NewestOf>
void Forget(Map& map, Point now, const NewestOf& newest_of) {
  std::erase_if(map, [&](const auto& entry) { return newest_of(entry.second) + kPointsKept < now; });
}

// `before`: values of the points up to kPointsKept.
TimeSeries Joined(const std::vector<std::optional<double>>& before, const TimeSeries& live) {
  TimeSeries joined;
  Point point = kPointsKept - before.size();
  for (const auto& value : before) joined.Put(++point, value);
  if (live.newest() > kPointsKept)
    for (const auto& value : live.Last(live.newest() - kPointsKept, live.newest()))
      joined.Put(++point, value);
  return joined;
}

// The values of a history at kPointsKept points, the last of which is its end.
template <typename T>
std::vector<std::optional<double>> PointsOf(const api::HistoryView& history,
                                            const std::vector<std::optional<T>>& values,
                                            base::Millis interval, double unit) {
  std::vector<std::optional<double>> points(kPointsKept);
  if (history.step.count() <= 0) return points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto at = history.until - interval * static_cast<std::int64_t>(kPointsKept - i) + interval / 2;
    if (at < history.since) continue;
    const auto bucket = static_cast<std::size_t>((at - history.since) / history.step);
    if (bucket < values.size() && values[bucket]) points[i] = static_cast<double>(*values[bucket]) / unit;
  }
  return points;
}

std::vector<std::optional<double>> StatesOf(const api::HistoryView& history, base::Millis interval) {
  std::vector<std::optional<double>> states;
  if (!history.states) return states;
  states = PointsOf(history, history.states->suspended, interval, 1);
  for (auto& state : states)
    if (state)
      state = static_cast<double>(*state >= 0.5 ? spec::JobState::kSuspended : spec::JobState::kRunning);
  return states;
}

}  // namespace

void PlotHistory::AddBefore(const api::HistoryView& history, base::Millis interval) {
  constexpr double kPercent = 100;
  if (history.job) {
    const auto job = jobs_.find(*history.job);
    if (job == jobs_.end()) return;
    job->second.memory = Joined(PointsOf(history, history.memory.mean, interval, 1), job->second.memory);
    job->second.state = Joined(StatesOf(history, interval), job->second.state);
  } else if (history.gpu) {
    const auto gpu = gpus_.find(*history.gpu);
    if (gpu == gpus_.end()) return;
    if (const auto size = history.memory_limit; size && size->count > 0)
      gpu->second.memory =
          Joined(PointsOf(history, history.memory.mean, interval, static_cast<double>(size->count)),
                 gpu->second.memory);
    gpu->second.utilization =
        Joined(PointsOf(history, history.utilization.mean, interval, kPercent), gpu->second.utilization);
  }
}

std::optional<double> UsedPart(const api::GpuView& gpu) {
  if (!gpu.memory || gpu.memory->total.count == 0) return std::nullopt;
  return static_cast<double>(gpu.memory->used.count) / static_cast<double>(gpu.memory->total.count);
}

void TimeSeries::Put(Point point, std::optional<double> value) {
  if (newest_ == 0) first_ = point;
  // The points that were left out are not known.
  if (newest_ != 0 && point > newest_ + kPointsKept) newest_ = point - kPointsKept;
  for (Point next = newest_ == 0 ? point : newest_ + 1; next <= point; ++next) {
    const auto at = static_cast<std::size_t>((next - first_) % kPointsKept);
    if (at >= ring_.size()) ring_.resize(at + 1);
    ring_[at] = next == point ? value : std::nullopt;
  }
  newest_ = point;
}

std::vector<std::optional<double>> TimeSeries::Last(std::size_t count, Point last) const {
  std::vector<std::optional<double>> values(count);
  if (newest_ == 0) return values;
  for (std::size_t i = 0; i < count && i < last; ++i) {
    const Point point = last - i;
    if (point < first_ || point > newest_ || point + kPointsKept <= newest_) continue;
    values[count - 1 - i] = ring_[static_cast<std::size_t>((point - first_) % kPointsKept)];
  }
  return values;
}

void PlotHistory::Add(const api::StatusView& status, const std::optional<api::ShareView>& share,
                      base::WallTime at) {
  ++now_;
  for (const auto& gpu : status.gpus) {
    auto& series = gpus_[gpu.uuid];
    series.memory.Put(now_, UsedPart(gpu));
    series.utilization.Put(now_,
                           gpu.utilization_gpu ? std::optional(*gpu.utilization_gpu / 100.0) : std::nullopt);
  }
  for (const auto& job : status.jobs) {
    const auto known = jobs_.find(job.id);
    // A job that waits, or had ended before, has nothing to plot.
    if (known == jobs_.end() && (spec::IsWaiting(job.state) || spec::IsEnded(job.state))) continue;
    auto& series = known == jobs_.end() ? jobs_[job.id] : known->second;
    series.memory.Put(now_, Number(job.memory.used));
    series.state.Put(now_, static_cast<double>(job.state));
  }
  if (share) AddShare(*share, at);
  Forget(gpus_, now_, [](const GpuSeries& series) { return series.memory.newest(); });
  Forget(jobs_, now_, [](const JobSeries& series) { return series.state.newest(); });
  Forget(turns_, now_, [](const TurnSeries& series) { return series.turns.newest(); });
}

void PlotHistory::AddShare(const api::ShareView& share, base::WallTime at) {
  const auto elapsed = at - share_at_;
  for (const auto& gpu : share.gpus) {
    for (const auto& job : gpu.jobs) {
      const auto [entry, fresh] = turns_.try_emplace({gpu.uuid, job.id});
      auto& series = entry->second;
      double part = job.in_run_set ? 1 : 0;
      const bool follows = !fresh && series.turns.newest() + 1 == now_ && elapsed.count() > 0;
      if (follows && job.had_turn >= series.had)  // it begins anew with the daemon
        part = std::min(1.0, static_cast<double>((job.had_turn - series.had).count()) /
                                 static_cast<double>(elapsed.count()));
      series.turns.Put(now_, part);
      series.had = job.had_turn;
    }
  }
  share_at_ = at;
}

const GpuSeries* PlotHistory::Gpu(const std::string& uuid) const {
  const auto it = gpus_.find(uuid);
  return it == gpus_.end() ? nullptr : &it->second;
}

const JobSeries* PlotHistory::Job(std::int64_t id) const {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &it->second;
}

const TimeSeries* PlotHistory::Turns(const std::string& gpu, std::int64_t job) const {
  const auto it = turns_.find({gpu, job});
  return it == turns_.end() ? nullptr : &it->second.turns;
}

}  // namespace gpuman::cli::top
