// The options of a job that are the same in a request, in the store and on their way to the keeper. If you
// add an option here, to a struct and to one of its lists of fields (base/json.h), the API accepts it, the
// store keeps it, the keeper gets it, an update changes it, and the API shows it as it was asked for.
//
// Plain values; thread-compatible. An absent optional: not asked for.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "base/words.h"
#include "spec/compute_share.h"
#include "spec/signal.h"

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

// The name of a duration says whether the format has seconds (_s) or milliseconds (_ms).
template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, Retries>
void Fields(V& v, T& x) {
  v("count", x.count);
  v(v.in_seconds() ? "delay_s" : "delay_ms", x.delay);
  v("on_exit_codes", x.on_exit_codes);
}

enum class NotifyOn : std::uint8_t {
  kStarted,
  kFinished,
  kFailed,
  kTimeout,
  kCancelled,
  kRequeued,
  kKilled,
  kSuspended,
  kAll  // each of the others
};
constexpr auto WordsOf(NotifyOn) {
  using enum NotifyOn;
  return base::Words<NotifyOn, 9>{{
      {kStarted, "started"},
      {kFinished, "finished"},
      {kFailed, "failed"},
      {kTimeout, "timeout"},
      {kCancelled, "cancelled"},
      {kRequeued, "requeued"},
      {kKilled, "killed"},
      {kSuspended, "suspended"},
      {kAll, "all"},
  }};
}
std::string_view ToString(NotifyOn event);

// Which receivers get messages, and about what. An answer has the URLs without what may be secret.
struct NotificationOptions {
  std::vector<std::string> webhooks{};  // http and https URLs
  std::vector<std::string> mails{};
  std::vector<NotifyOn> on{};  // empty: each end
  friend bool operator==(const NotificationOptions&, const NotificationOptions&) = default;
};
template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, NotificationOptions>
void Fields(V& v, T& x) {
  v.Changed("webhooks", x.webhooks);
  v.Changed("mails", x.mails);
  v.Changed("on", x.on);
}

// Options of each job, also of one that another program has started (api/attach_types.h).
struct AttachOptions {
  std::optional<base::SizeSpec> memory{};  // hard limit on each of its GPUs
  std::optional<base::SizeSpec> soft{};
  bool preload = true;                    // false: only the guard holds the limit
  bool share = false;                     // its memory may leave the GPU and come back, and it takes turns
  std::optional<ComputeShare> compute{};  // of the time of each GPU that it shares
  bool latency = false;  // while it has work, other jobs on a GPU that it shares are held back
  friend bool operator==(const AttachOptions&, const AttachOptions&) = default;
};

// Options of each job that gpuman starts, whether at once or from the queue.
struct RunOptions : AttachOptions {
  int priority = kUsualPriority;  // 0 to 255, higher is more important
  std::optional<Millis> grace{};  // between SIGTERM and SIGKILL; absent: the daemon's setting
  double weight = 1;              // of its turns, 0.001 to 1000
  bool interactive = false;       // it works in short bursts, for each of which somebody waits
  // Without a call for so long it leaves its GPU, and its next call brings it back; absent: the daemon's
  // setting.
  std::optional<Millis> idle_suspend{};
  bool oversubscribe = false;  // one process may have more memory than its GPU, in managed memory
  std::optional<std::string> device_profile{};  // in force while it has its GPUs alone
  bool mps = false;                             // its programs are clients of its GPU's MPS server
  std::optional<double> mps_threads{};          // percent of the GPU's threads, for each of them
  bool trace_allocations = false;               // the shim writes down who allocates (docs/allocations.md)
  RestartMode restart = RestartMode::kNo;       // not of a job of the queue, which has retries
  friend bool operator==(const RunOptions&, const RunOptions&) = default;
};

// The lists of fields below are put together of shorter ones, by when an update may change an option. `x`:
// RunOptions or JobOptions, or a struct that has them.

template <typename V, typename T>
void MemoryLimitFields(V& v, T& x) {
  v.Option("memory", x.memory);
  v.Option("soft", x.soft);
}

// What attached jobs have of RunningFields and of StartFields.
template <typename V, typename T>
void AttachRunningFields(V& v, T& x) {
  v.Option("compute", x.compute);
  v.Changed("latency", x.latency);
}
template <typename V, typename T>
void AttachStartFields(V& v, T& x) {
  v.Changed("preload", x.preload, true);
  v.Changed("share", x.share);
}

template <typename V, typename T>
void AttachOptionFields(V& v, T& x) {
  MemoryLimitFields(v, x);
  AttachStartFields(v, x);
  AttachRunningFields(v, x);
}

// Options that an update changes also while the job runs, without those of its memory.
template <typename V, typename T>
void RunningFields(V& v, T& x) {
  v.Changed("priority", x.priority, kUsualPriority);
  v.Option(v.in_seconds() ? "grace" : "grace_ms", x.grace);
  v.Changed("weight", x.weight, 1);
  v.Changed("interactive", x.interactive);
  AttachRunningFields(v, x);
  v.Option(v.in_seconds() ? "idle_suspend_s" : "idle_suspend_ms", x.idle_suspend);
}

// What an update changes of a job, whether it is of the queue or not.
template <typename V, typename T>
void UpdateFields(V& v, T& x) {
  MemoryLimitFields(v, x);
  RunningFields(v, x);
  v.Changed("restart", x.restart);
}

// Options that an update changes while the job waits in the queue.
template <typename V, typename T>
void StartFields(V& v, T& x) {
  AttachStartFields(v, x);
  v.Changed("oversubscribe", x.oversubscribe);
  v.Option("device_profile", x.device_profile);
  v.Changed("trace_allocations", x.trace_allocations);
}

template <typename V, typename T>
void RunOptionFieldsWithoutMemory(V& v, T& x) {
  RunningFields(v, x);
  StartFields(v, x);
  v.Changed("mps", x.mps);
  v.Option("mps_threads", x.mps_threads);
}

template <typename V, typename T>
void RunOptionFields(V& v, T& x) {
  MemoryLimitFields(v, x);
  RunOptionFieldsWithoutMemory(v, x);
}

// Options of a job of the queue.
struct JobOptions : RunOptions {
  std::optional<std::string> project{};
  std::optional<std::string> conda_env{};
  // Absolute, or relative to the directory. %j: the job's id, %A: the array's, %a: the task's index, %x: the
  // name, %%: a percent sign. Absent: no input; output goes to the job's log, errors where the output goes.
  std::optional<std::string> stdin_file{}, stdout_file{}, stderr_file{};
  std::optional<base::Bytes> host_memory{};  // for all its processes together
  std::optional<int> cpus{};
  std::optional<Millis> time_limit{};  // for a run, without the time it is suspended
  std::optional<WallTime> begin{};     // the job does not start before this time
  bool hold = false;                   // as submitted; later the job's state tells whether it is held
  bool preemptible = false;
  // The daemon chooses `memory` by what past runs of the same user and name used; once it is chosen, `memory`
  // has it. It stays absent where no run is known.
  bool memory_auto = false;
  Retries retries{};
  bool auto_cancel = true;  // it is cancelled when its dependencies can never be met; false: it waits
  // Of the jobs of one user that name the same group at most `max_concurrent` run at a time; the last
  // submission sets that limit. A request may name a group alone: then it is 1. The store has both or none.
  std::optional<std::string> group{};
  std::optional<int> max_concurrent{};
  // The job gets the signal so long before its time limit. A request may have one of them alone
  // (daemon/queue/submission.h has the usual values); the store has both or none.
  std::optional<Signal> warn_signal{};
  std::optional<Millis> warn_before{};
  NotificationOptions notify{};
  friend bool operator==(const JobOptions&, const JobOptions&) = default;
};

// Options that only a job of the queue has and that an update changes.
template <typename V, typename T>
void QueueOptionFields(V& v, T& x) {
  v.Option("project", x.project);
  v.Option("conda_env", x.conda_env);
  v.Option("stdin", x.stdin_file);
  v.Option("stdout", x.stdout_file);
  v.Option("stderr", x.stderr_file);
  v.Option("host_memory", x.host_memory);
  v.Option("cpus", x.cpus);
  v.Option(v.in_seconds() ? "time_limit_s" : "time_limit_ms", x.time_limit);
  v.Option("begin", x.begin);
  v.Changed("preemptible", x.preemptible);
  v.Changed("memory_auto", x.memory_auto);
  v.Changed("retries", x.retries);
  v.Changed("auto_cancel", x.auto_cancel, true);
  v.Option("group", x.group);
  v.Option("max_concurrent", x.max_concurrent);
  v.Option("warn_signal", x.warn_signal);
  v.Option(v.in_seconds() ? "warn_before_s" : "warn_before_ms", x.warn_before);
  v.Part("notify", x.notify);  // a client cannot give back the URLs that it was not shown
}

// What an update changes of a job of the queue beyond UpdateFields.
template <typename V, typename T>
void QueueUpdateFields(V& v, T& x) {
  StartFields(v, x);
  QueueOptionFields(v, x);
}

template <typename V, typename T>
void OptionFields(V& v, T& x) {
  RunOptionFields(v, x);
  QueueOptionFields(v, x);
  v.Changed("hold", x.hold);
}

// Visits a list of fields and finds the texts in it.
template <typename F>
struct TextVisitor {
  static bool in_seconds() { return false; }
  void Option(const char*, std::optional<std::string>& text) const {
    if (text) each(*text);
  }
  void Option(const char*, const std::optional<std::string>& text) const {
    if (text) each(*text);
  }
  template <typename T>
  void Option(const char*, T&) const {}
  template <typename T, typename... Usual>
  void Changed(const char*, T&, const Usual&...) const {}
  template <typename T>
  void Part(const char*, T&) const {}
  F& each;
};

// Calls each(std::string&) for each text among the options that is set; `options` may be const.
template <typename Options, typename F>
void ForEachText(Options& options, F each) {
  TextVisitor<F> texts{each};
  OptionFields(texts, options);
}

}  // namespace gpuman::spec
