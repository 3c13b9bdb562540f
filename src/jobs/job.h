// A job as gpuman keeps it: what was asked for, and how far it has got.
//
// This is the stored record (store.h) and the subject of the state machine (lifecycle.h). Plain values;
// thread-compatible. Wall times are for people; nothing is decided by them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/process.h"
#include "base/units.h"
#include "jobs/environment.h"
#include "keeper/spec.h"

namespace gpuman::jobs {

// Finished: status 0. Failed: any other end nobody ordered, or none at all. Killed: gpuman ended it, by a
// limit, under pressure or because it was asked to.
enum class JobState { kStarting, kRunning, kStopping, kFinished, kFailed, kKilled };

std::string_view ToString(JobState state);
std::optional<JobState> JobStateFromString(std::string_view word);
constexpr bool IsEnded(JobState state) {
  return state == JobState::kFinished || state == JobState::kFailed || state == JobState::kKilled;
}

using keeper::RestartMode;

using base::JobId;

// Who a command runs as: the credentials of the caller who submitted it.
struct Owner {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups{};
  std::string user{};
  friend bool operator==(const Owner&, const Owner&) = default;
};

// RLIMIT_… number to soft and hard value.
using ResourceLimits = std::map<int, std::pair<std::uint64_t, std::uint64_t>>;

struct Job {
  // What was asked for.
  JobId id;
  std::string tag;
  Owner owner;
  std::vector<std::string> command;
  std::string directory;
  Environment environment;
  std::uint32_t umask = 022;
  ResourceLimits resource_limits;
  std::optional<base::SizeSpec> memory;  // hard limit on each of its GPUs
  std::optional<base::SizeSpec> soft;
  std::vector<std::string> gpus;  // UUIDs; empty: every GPU, those that appear later too
  int priority = 128;
  RestartMode restart = RestartMode::kNo;
  std::optional<base::Millis> grace;
  bool preload = true;
  bool share = false;          // its memory may leave the GPU and come back, while it runs
  double weight = 1;           // of its turns on a shared GPU, against the others' there
  bool oversubscribe = false;  // managed memory, of which one process may have more than its GPU

  // How far it got.
  JobState state = JobState::kStarting;
  std::optional<std::string> reason;
  std::optional<std::string> reason_detail;
  std::optional<base::ProcessId> process;  // main process of the current or last run
  std::optional<base::ProcessId> keeper;
  std::string cgroup;   // the job's own; empty: none
  std::string boot_id;  // of the keeper: process ids mean something only within one boot
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::optional<JobState> verdict;  // what the last end makes of the job, unless it runs again
  std::optional<base::Bytes> peak;
  base::WallTime submitted_at{};
  std::optional<base::WallTime> started_at;  // of the current or last run
  std::optional<base::WallTime> ended_at;
  std::string suspension;  // how far it is off the GPU, as suspend/record.h writes it; empty: it is not
  int runs = 0;            // commands executed
  int restarts = 0;        // runs after the first, whoever asked for them

  // Bookkeeping between daemon and keeper.
  int incarnation = 1;            // a restart of an ended job starts a new journal
  std::uint64_t journal_seq = 0;  // records of this incarnation's journal that this record reflects
  bool stop_wanted =
      false;  // asked for by somebody; until the keeper has it in its journal it is asked again
  bool remove_when_ended = false;
  bool updated = false;  // settings differ from those the keeper was started with
};

inline bool IsEnded(const Job& job) { return IsEnded(job.state); }

}  // namespace gpuman::jobs
