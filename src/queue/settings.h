// The settings of the queue that an administrator can change. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "base/words.h"

namespace gpuman::queue {

// Which of the suitable GPUs a job gets: the lowest indices, any (seeded by the job's id), or those with the
// best links among each other.
enum class GpuPickPolicy : std::uint8_t { kSequential, kRandom, kTopology };
constexpr auto WordsOf(GpuPickPolicy) {
  using enum GpuPickPolicy;
  return base::Words<GpuPickPolicy, 3>{{
      {kSequential, "sequential"},
      {kRandom, "random"},
      {kTopology, "topology"},
  }};
}

struct SchedulingSettings {
  GpuPickPolicy choice = GpuPickPolicy::kSequential;
  std::uint64_t seed = 1;  // of kRandom

  // How much waiting time each advantage in the order is worth (priority.h). docs/scheduler.md has the
  // reasons.
  base::Millis priority_step{std::chrono::minutes(15)};  // one step of priority, 0 to 255
  base::Millis fair_share{std::chrono::hours(4)};        // between users with no use and with far too much
  base::Millis short_job{std::chrono::hours(24)};        // between a job of no time and one of many hours
  base::Millis short_scale{std::chrono::hours(4)};       // the time limit at which half of that is left
  base::Millis unlimited_as{std::chrono::hours(4)};      // the limit that a job without one has in the order
  base::Millis half_life{std::chrono::hours(24 * 7)};    // of past use
  double memory_weight = 0.5;  // of GPU-byte-seconds in the use, the rest is GPU-seconds; 0 to 1

  // The assumed length of a job without a time limit where an estimate needs one.
  base::Millis presumed{std::chrono::hours(24)};
  // A pass keeps GPUs for the first job that does not fit, once that job has waited for this long. 0: at
  // once.
  base::Millis patience{std::chrono::hours(48)};
  // A pass keeps GPUs earlier if the job has waited this many times as long as it still has to wait. 0: not
  // earlier.
  std::uint32_t keep_ratio = 24;
  // If the pass cannot tell when that job will fit, other jobs with a time limit up to this still start on
  // those GPUs.
  base::Millis slack{std::chrono::hours(4)};
  // Preemptible jobs leave for jobs of higher priority, and for other jobs that have waited for this long.
  base::Millis preempt_wait{std::chrono::hours(48)};
  base::Millis preempt_after{std::chrono::minutes(1)};  // each keeps its GPU for at least this long
  bool preempt = true;
  bool move = true;
  bool share_unmanaged = false;  // shared jobs may have what is free on a GPU with foreign processes
  int attempts = 8;              // jobs for which a pass looks for room by moves and preemption
  friend bool operator==(const SchedulingSettings&, const SchedulingSettings&) = default;
};

// kInvalidArgument with the name of the setting and its allowed values.
base::Result<> Validate(const SchedulingSettings& settings);

// "sequential", "random", "topology".
std::string_view ToString(GpuPickPolicy choice);
base::Result<GpuPickPolicy> ParseGpuPick(std::string_view word);

}  // namespace gpuman::queue
