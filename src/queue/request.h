// What a user asked of the queue: the part of a submission that the job's own record does not have.
//
// It is kept with the job as text (record.h) and turned into a row of the snapshot (book.h). Command,
// directory, environment, umask, tag and soft limit are in the job's record. `memory`, `share` and `priority`
// are in both: the queue decides by these, and code that changes one changes the other.
//
// Plain values; thread-compatible. Points in time are wall time, since people name them ("begin at six");
// durations are in milliseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"

namespace gpuman::queue {

using base::JobId;
using base::Millis;
using base::WallTime;

inline constexpr int kLowestPriority = 0;
inline constexpr int kUsualPriority = 128;
inline constexpr int kHighestPriority = 255;

// How many GPUs and which. Exact devices are all taken, and `count` is their number; otherwise any `count`
// GPUs of the model with so much memory free. 0: no GPU.
struct GpuRequest {
  int count = 0;
  std::vector<std::string> devices{};        // UUIDs
  std::string model{};                       // a part of the GPU's name, in either case; empty: any
  std::optional<base::Bytes> free_memory{};  // at least, when the job starts
  friend bool operator==(const GpuRequest&, const GpuRequest&) = default;
};

// kAfterOk: the job finished with status 0. kAfterNotOk: it ended in another way. kAfterAny: it ended.
// kAfter: it began, or ended without having begun.
enum class DependencyKind : std::uint8_t { kAfterOk, kAfterNotOk, kAfterAny, kAfter };
enum class DependencyMode : std::uint8_t { kAll, kAny };

struct Dependency {
  DependencyKind kind = DependencyKind::kAfterOk;
  JobId job;  // each task of an array has an entry
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

struct Dependencies {
  DependencyMode mode = DependencyMode::kAll;
  std::vector<Dependency> list{};
  bool auto_cancel = true;  // cancelled when they can never be met; else the job waits for an update
  friend bool operator==(const Dependencies&, const Dependencies&) = default;
};

// Which task of which array a job is. The array's id is that of its first task.
struct ArrayTask {
  JobId array;
  std::int64_t task = 0;
  int limit = 0;  // at most so many tasks run at a time; 0: any number
  friend bool operator==(const ArrayTask&, const ArrayTask&) = default;
};

// At most `limit` jobs of one user that name the same group run at a time; the last submission sets the
// limit.
struct Group {
  std::string name{};
  int limit = 0;  // 0: no group
  friend bool operator==(const Group&, const Group&) = default;
};

struct Retries {
  int count = 0;  // runs after the first
  Millis delay{0};
  std::vector<int> on_exit_codes{};  // empty: after any failure
  friend bool operator==(const Retries&, const Retries&) = default;
};

enum class NotifyOn : std::uint8_t {
  kStarted,
  kFinished,
  kFailed,
  kTimeout,
  kCancelled,
  kRequeued,
  kKilled,
  kSuspended
};

struct Notify {
  std::vector<std::string> webhooks{};
  std::vector<std::string> mails{};
  std::vector<NotifyOn> on{};  // empty: each end
  friend bool operator==(const Notify&, const Notify&) = default;
};

struct Request {
  std::string project{};
  std::string script{};  // the text of a script, instead of a command
  std::string standard_input{}, standard_output{}, standard_error{};  // files; empty: none, and the job's log
  std::string conda_env{};
  std::string device_profile{};

  GpuRequest gpus{};
  bool share = false;                   // its GPUs may be shared with other jobs that allow it
  std::optional<base::Bytes> memory{};  // on each of its GPUs; `share` needs it
  std::optional<base::Bytes> host_memory{};
  int cpus = 0;  // 0: not asked for, not counted

  std::optional<Millis> time_limit{};
  int warn_signal = 0;  // sent `warn_before` ahead of the time limit; 0: none
  Millis warn_before{0};
  std::optional<WallTime> begin{};  // the job does not start before
  int priority = kUsualPriority;
  bool hold = false;  // as submitted; afterwards the job's state tells it
  bool preemptible = false;

  Dependencies depends{};
  std::optional<ArrayTask> array{};
  Group group{};
  Retries retries{};
  Notify notify{};
  friend bool operator==(const Request&, const Request&) = default;
};

// Checks for errors on any machine; kInvalidArgument names the field. Whether this machine could run the job
// is checked in admission.h.
base::Result<> Validate(const Request& request);

// "afterok", "afternotok", "afterany", "after"; "all", "any"; "started", "finished", "failed", "timeout",
// "cancelled", "requeued", "killed", "suspended". nullopt for other words.
std::string_view ToString(DependencyKind kind);
std::string_view ToString(DependencyMode mode);
std::string_view ToString(NotifyOn event);
std::optional<DependencyKind> DependencyKindFromString(std::string_view word);
std::optional<DependencyMode> DependencyModeFromString(std::string_view word);
std::optional<NotifyOn> NotifyOnFromString(std::string_view word);

}  // namespace gpuman::queue
