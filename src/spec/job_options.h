// The options of a job that are the same in a request, in the store and on their way to the keeper. An option
// that is added here, and to OptionFields() in spec/fields.h, is taken by the API, kept and handed on.
//
// Plain values; thread-compatible. An absent optional: not asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "base/words.h"

namespace gpuman::spec {

using base::Millis;
using base::WallTime;

inline constexpr int kLowestPriority = 0;
inline constexpr int kUsualPriority = 128;
inline constexpr int kHighestPriority = 255;

enum class RestartMode : std::uint8_t {
  kNo,         // never
  kOnFailure,  // after a status other than 0, a signal, or an unknown status
  kAlways,     // after every end that was not ordered
};
constexpr auto WordsOf(RestartMode) {
  using enum RestartMode;
  return base::Words<RestartMode, 3>{{{kNo, "no"}, {kOnFailure, "on-failure"}, {kAlways, "always"}}};
}
std::string_view ToString(RestartMode mode);

struct Retries {
  int count = 0;  // runs after the first
  Millis delay{0};
  std::vector<int> on_exit_codes{};  // empty: after any failure
  friend bool operator==(const Retries&, const Retries&) = default;
};

// Of a job that starts at once, and of one that waits for its turn.
struct RunOptions {
  std::optional<base::SizeSpec> memory{};  // hard limit on each of its GPUs
  std::optional<base::SizeSpec> soft{};
  int priority = kUsualPriority;  // 0 to 255, higher is more important
  std::optional<Millis> grace{};  // between SIGTERM and SIGKILL; absent: the daemon's setting
  bool preload = true;            // false: only the guard
  bool share = false;             // its memory may leave the GPU and come back, and it takes turns
  double weight = 1;              // of its turns, 0.001 to 1000
  bool oversubscribe = false;     // one process may have more than its GPU, in managed memory
  std::optional<std::string> device_profile{};  // in force while it has its GPUs alone
  bool mps = false;                             // its programs are clients of its GPU's MPS server
  std::optional<double> mps_threads{};          // percent of the GPU's threads, for each of them
  friend bool operator==(const RunOptions&, const RunOptions&) = default;
};

// Of a job of the queue.
struct JobOptions : RunOptions {
  std::optional<std::string> project{};
  std::optional<std::string> conda_env{};
  // Absolute, or relative to the directory. %j: the job's id, %A: the array's, %a: the task's index, %x: the
  // name, %%: a percent sign. Absent: no input; output goes to the job's log, errors where the output goes.
  std::optional<std::string> stdin_file{}, stdout_file{}, stderr_file{};
  std::optional<base::Bytes> host_memory{};  // for all its processes together
  std::optional<int> cpus{};
  std::optional<Millis> time_limit{};  // for a run, without the time it is suspended
  std::optional<WallTime> begin{};     // it does not start before
  bool hold = false;                   // as submitted; afterwards the job's state tells it
  bool preemptible = false;
  Retries retries{};
  friend bool operator==(const JobOptions&, const JobOptions&) = default;
};

}  // namespace gpuman::spec
