// What `gpuman top` has seen since it was opened, and what the daemon recorded before, for its plots: a ring
// of points for each GPU, job, and job on a shared GPU. Values; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/history_types.h"
#include "api/share_types.h"
#include "api/types.h"
#include "base/clock.h"

namespace gpuman::cli::top {

// The number of an answer of the daemon; a question without an answer has a number as well, so plots have a
// gap there. They are counted from kPointsKept + 1: the points before are of the time before `top` was
// opened.
using Point = std::uint64_t;

inline constexpr std::size_t kPointsKept = 600;  // ten minutes at one a second

// The last kPointsKept values by their points.
class TimeSeries {
 public:
  // `point` is later than that of every earlier call.
  void Put(Point point, std::optional<double> value);
  // The values of the `count` points that end with `last`; nullopt: not known.
  std::vector<std::optional<double>> Last(std::size_t count, Point last) const;
  Point newest() const { return newest_; }

 private:
  std::vector<std::optional<double>> ring_;  // grows up to kPointsKept
  Point first_ = 0;                          // the point of the oldest value that was put
  Point newest_ = 0;
};

// The part of its memory that is in use, 0 to 1; nullopt: not known.
std::optional<double> UsedPart(const api::GpuView& gpu);

struct GpuSeries {
  TimeSeries memory, utilization;  // parts of the whole, 0 to 1
};

struct JobSeries {
  TimeSeries memory;  // bytes, on the GPU where the job uses most
  TimeSeries state;   // the number of its spec::JobState
};

class PlotHistory {
 public:
  // The daemon's answer; `share` is absent where it was not asked. What neither has any more is forgotten.
  void Add(const api::StatusView& status, const std::optional<api::ShareView>& share, base::WallTime at);
  // The daemon did not answer.
  void AddGap() { ++now_; }
  // What the daemon recorded of a GPU or a job up to the first answer, where points are `interval` apart.
  // Once for each; what is not seen any more has none.
  void AddBefore(const api::HistoryView& history, base::Millis interval);

  Point now() const { return now_; }
  // nullptr: not seen.
  const GpuSeries* Gpu(const std::string& uuid) const;
  const JobSeries* Job(std::int64_t id) const;
  // The part of the time since the point before that the job had its turn on the GPU, 0 to 1.
  const TimeSeries* Turns(const std::string& gpu, std::int64_t job) const;

 private:
  struct TurnSeries {
    TimeSeries turns;
    base::Millis had{};  // ShareJob::had_turn of the last point
  };

  void AddShare(const api::ShareView& share, base::WallTime at);

  Point now_ = kPointsKept;
  base::WallTime share_at_{};
  std::map<std::string, GpuSeries> gpus_;
  std::map<std::int64_t, JobSeries> jobs_;
  std::map<std::pair<std::string, std::int64_t>, TurnSeries> turns_;
};

}  // namespace gpuman::cli::top
