#include "cli/top/samples.h"

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

}  // namespace

std::optional<double> UsedPart(const api::GpuView& gpu) {
  if (!gpu.memory || gpu.memory->total.count == 0) return std::nullopt;
  return static_cast<double>(gpu.memory->used.count) / static_cast<double>(gpu.memory->total.count);
}

void Series::Put(Point point, std::optional<double> value) {
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

std::vector<std::optional<double>> Series::Last(std::size_t count, Point last) const {
  std::vector<std::optional<double>> values(count);
  if (newest_ == 0) return values;
  for (std::size_t i = 0; i < count && i < last; ++i) {
    const Point point = last - i;
    if (point < first_ || point > newest_ || point + kPointsKept <= newest_) continue;
    values[count - 1 - i] = ring_[static_cast<std::size_t>((point - first_) % kPointsKept)];
  }
  return values;
}

void Samples::Add(const api::StatusView& status, const std::optional<api::ShareView>& share,
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

void Samples::AddShare(const api::ShareView& share, base::WallTime at) {
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

const GpuSeries* Samples::Gpu(const std::string& uuid) const {
  const auto it = gpus_.find(uuid);
  return it == gpus_.end() ? nullptr : &it->second;
}

const JobSeries* Samples::Job(std::int64_t id) const {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &it->second;
}

const Series* Samples::Turns(const std::string& gpu, std::int64_t job) const {
  const auto it = turns_.find({gpu, job});
  return it == turns_.end() ? nullptr : &it->second.turns;
}

}  // namespace gpuman::cli::top
