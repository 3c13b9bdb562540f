// What an administrator can set about the queue. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace gpuman::queue {

// Which of the GPUs that would do: the lowest indices, any (seeded by the job's id), or those with the best
// connections among each other.
enum class Choice : std::uint8_t { kSequential, kRandom, kTopology };

struct SchedulingSettings {
  Choice choice = Choice::kSequential;
  std::uint64_t seed = 1;  // of kRandom

  // The order, in waiting time (priority.h): what each of these is worth. docs/scheduler.md says why so much.
  base::Millis priority_step{std::chrono::minutes(15)};  // one step of priority, 0 to 255
  base::Millis fair_share{std::chrono::hours(4)};        // between who used nothing and who used far too much
  base::Millis short_job{std::chrono::hours(24)};        // between a job of no time and one of many hours
  base::Millis short_scale{std::chrono::hours(4)};       // the time limit at which half of that is left
  base::Millis unlimited_as{std::chrono::hours(4)};  // a job without a limit is in the order like one of this
  base::Millis half_life{std::chrono::hours(24 * 7)};  // of what was used
  double memory_weight = 0.5;  // of GPU-byte-seconds in what was used, the rest GPU-seconds; 0 to 1

  // Taken for the length of a job without a time limit where an estimate needs one.
  base::Millis presumed{std::chrono::hours(24)};
  // The first job that does not fit has waited so long when GPUs are kept for it. 0: at once.
  base::Millis patience{std::chrono::hours(48)};
  // Or, before that, so many times as long as it still would wait then. 0: not before.
  std::uint32_t keep_ratio = 24;
  // Where nobody knows when it will fit, jobs with a time limit up to this still start on those GPUs.
  base::Millis slack{std::chrono::hours(4)};
  // Preemptible jobs leave for jobs of higher priority, and for others that have waited so long.
  base::Millis preempt_wait{std::chrono::hours(48)};
  base::Millis preempt_after{std::chrono::minutes(1)};  // each keeps its GPU so long at least
  bool preempt = true;
  bool move = true;
  bool share_unmanaged = false;  // shared jobs may have what is free on a GPU with foreign processes
  int attempts = 8;              // jobs for which a pass looks for room by moves and preemption
  friend bool operator==(const SchedulingSettings&, const SchedulingSettings&) = default;
};

// kInvalidArgument with the name of the setting and what it may be.
base::Result<> Validate(const SchedulingSettings& settings);

// "sequential", "random", "topology".
std::string_view ToString(Choice choice);
base::Result<Choice> ParseChoice(std::string_view word);

}  // namespace gpuman::queue
