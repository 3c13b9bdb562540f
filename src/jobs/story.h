// What became of a job: why it waits, runs or ended, and how that came, in sentences with times. Pure.
//
// The cause is one word for each way in which jobs end (docs/why.md has all of them). It follows from the
// job's record, and where the record has only an exit status or a signal, from what happened just before:
// a GPU that failed, or memory that the job was refused.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/words.h"
#include "jobs/accounting.h"
#include "jobs/event.h"
#include "jobs/job.h"

namespace gpuman::jobs {

enum class StoryCause {
  kWaits,
  kRuns,
  kSuspended,
  kFinished,
  kMemoryRefused,   // it ended soon after an allocation that it did not get
  kMemoryLimit,     // the guard ended it: it used more than its limit
  kDevicePressure,  // the guard ended it: its GPU had no memory left
  kHostMemory,      // the machine, or its cgroup, had no memory left
  kTimeLimit,
  kExitStatus,
  kSignal,
  kGpuFault,    // it ended soon after its GPU became unhealthy or was lost
  kCancelled,   // by a user
  kDependency,  // what it waited for cannot happen any more
  kMachineRestarted,
  kKeeperLost,    // nobody saw its end
  kNeverStarted,  // its command could not be executed
  kOther          // gpuman ended it; the reason word of the job says why
};
constexpr auto WordsOf(StoryCause) {
  using enum StoryCause;
  return base::Words<StoryCause, 18>{{{kWaits, "waits"},
                                      {kRuns, "runs"},
                                      {kSuspended, "suspended"},
                                      {kFinished, "finished"},
                                      {kMemoryRefused, "memory_refused"},
                                      {kMemoryLimit, "memory_limit"},
                                      {kDevicePressure, "device_pressure"},
                                      {kHostMemory, "host_memory"},
                                      {kTimeLimit, "time_limit"},
                                      {kExitStatus, "exit_status"},
                                      {kSignal, "signal"},
                                      {kGpuFault, "gpu_fault"},
                                      {kCancelled, "cancelled"},
                                      {kDependency, "dependency"},
                                      {kMachineRestarted, "machine_restarted"},
                                      {kKeeperLost, "keeper_lost"},
                                      {kNeverStarted, "never_started"},
                                      {kOther, "other"}}};
}
constexpr std::string_view ToString(StoryCause cause) { return base::WordOf(WordsOf(cause), cause); }

// One thing that happened, or the same thing several times in a row; in a long story, also several things of
// one kind, by the first of them.
struct StoryLine {
  base::WallTime at{};
  std::string text;
  int times = 1;
  base::WallTime last{};  // the last of these times
  friend bool operator==(const StoryLine&, const StoryLine&) = default;
};

struct JobStory {
  StoryCause cause = StoryCause::kRuns;
  std::string because;           // a sentence with the numbers
  std::vector<StoryLine> lines;  // the oldest first
  int left_out = 0;              // so many lines are not there, after the first `left_out_after`
  int left_out_after = 0;
  std::vector<std::string> advice;  // what the user can do, a sentence each
};

// A job or process that holds a GPU which a waiting job may get.
struct StoryGpuHolder {
  std::string gpu;                        // UUID
  std::string who;                        // "job 5 'train' (ann)"
  std::optional<base::WallTime> since{};  // of a job its start
};

// A running job that waits on GPUs that it shares.
struct SharedGpuWait {
  std::vector<std::string> gpus;  // UUIDs
  std::string word;               // as share::TenantStatus::waits_for has it
  base::WallTime since{};
  std::vector<std::string> others;  // the jobs there meanwhile: "job 5 'train' (ann)"
};

struct StoryFacts {
  base::WallTime now{};
  std::string name{};                   // how commands name the job; empty: by its tag
  JobState state = JobState::kRunning;  // as users see it
  std::string reason, reason_detail;    // the same; empty: there is none
  std::vector<Event> events;            // of the job, and of its GPUs during its last run, by id
  // Runs of other jobs that ended just before this one started, by their end.
  std::vector<RunAccount> holders;
  std::vector<StoryGpuHolder> in_the_way;  // of a job that waits for a GPU, in the order of the GPUs
  std::vector<std::string> in_front;  // jobs that start before it: "job 5 'train' (ann)", the next one first
  std::optional<SharedGpuWait> wait;
  std::optional<base::Bytes> peak;                               // the most that it has used of a GPU so far
  std::optional<base::MemoryParts> peak_parts;                   // what that was; absent: not known
  std::optional<RefusedAllocation> refusal;                      // the last one of the current or last run
  std::string refusal_text;                                      // and its sentence
  std::function<std::string(const std::string& uuid)> gpu_name;  // "GPU 1"
};

JobStory StoryOf(const Job& job, const StoryFacts& facts);

}  // namespace gpuman::jobs
