// The queue's types in the API: submissions, requests and answers (docs/queue.md).
//
// Values, as in types.h: sizes in bytes, durations as seconds under names that end in _s, times ISO 8601 UTC,
// absent optionals null or left out. The codec is queue_json.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/queue_fields.h"
#include "api/types.h"
#include "base/json.h"

namespace gpuman::api {

// first, first+step, … up to last.
struct IndexRange {
  int first = 0;
  int last = 0;
  int step = 1;
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

inline constexpr int kMaxArrayTasks = 100'000;

// One job for each index; the tasks have consecutive ids, the first of which is the array's.
struct ArrayRequest {
  std::vector<IndexRange> indices;  // in order, without duplicates
  std::optional<int> limit;         // at most this many tasks run at once
  friend bool operator==(const ArrayRequest&, const ArrayRequest&) = default;
};

// The number of tasks.
std::int64_t CountTasks(const ArrayRequest& array);

// One job for the queue. It has a command or a script; all other fields may keep their defaults. `share`
// needs `memory` or `memory_auto`.
struct Submission : spec::JobRequest {
  std::optional<std::string> name;  // the tag; default: "job-ID"
  std::vector<std::string> command;
  // The text of a script; the program in its first line runs it ("#!/bin/bash"), else /bin/sh.
  std::optional<std::string> script;
  std::vector<std::string> arguments;  // of the script
  std::string directory;               // absolute; empty: that of the request
  // Absent: that of the request.
  std::optional<std::map<std::string, std::string>> environment;
  std::optional<std::uint32_t> umask;
  spec::GpuRequest gpus;
  std::optional<ArrayRequest> array;
};

// POST /v1/submissions: all jobs are accepted, or none.
struct SubmitRequest {
  std::vector<Submission> jobs;
  bool dry_run = false;  // tell what would happen, store nothing
  // Values that the jobs of one caller share.
  std::string directory;
  std::map<std::string, std::string> environment;
  std::uint32_t umask = 022;
  bool new_tags = false;  // refuse a name of a job that has not ended
};

struct SubmittedJob {
  std::int64_t id = 0;  // for an array its id; 0 in a dry run
  std::string tag;
  JobState state = JobState::kQueued;
  std::optional<std::string> reason;
  std::optional<std::string> reason_detail;
  std::optional<base::WallTime> estimated_start;
  bool estimate_presumed = false;   // as in JobQueueView
  std::vector<std::string> gpus;    // dry run: UUIDs that it would get now
  std::vector<std::int64_t> tasks;  // ids of an array's jobs, in order of their indices
};

struct SubmissionAnswer {
  std::vector<SubmittedJob> jobs;  // in the order of the request
  std::vector<std::string> notes;  // what the submitter should know, in sentences
};

// POST /v1/jobs/{ref}/restart: the options of spec::UpdateFields.
struct RunOptionsPatch : base::json::Patch<spec::RunOptions> {};

// The options of spec::RequestUpdateFields.
using OptionsPatch = base::json::Patch<spec::JobRequest>;

// `queue` of PATCH /v1/jobs/{ref} and of redo: absent fields stay, null removes a value that may be absent.
// For jobs that wait; time_limit, max_concurrent, array_limit and retries also while the job runs.
struct JobQueueUpdate {
  std::optional<std::string> name;
  std::optional<std::vector<std::string>> command;
  std::optional<std::string> script;
  std::optional<spec::GpuRequest> gpus;
  std::optional<int> array_limit;
  bool clear_array_limit = false;
  OptionsPatch options;  // their fields stand beside the others: "cpus", "time_limit_s", …

  friend bool operator==(const JobQueueUpdate&, const JobQueueUpdate&) = default;
};

// PATCH /v1/jobs/{ref} and POST /v1/jobs/{ref}/redo: the fields of RunOptionsPatch and a `queue`.
struct JobUpdate {
  RunOptionsPatch job;
  std::optional<JobQueueUpdate> queue;
};
struct RedoRequest {
  JobUpdate changes;
  bool cascade = false;  // also the jobs that were cancelled because this one did not finish
};

// POST /v1/cancellations: any number of jobs; each has its own result.
struct CancelRequest {
  std::vector<std::string> jobs;  // id, tag, "7_3"; an array's id means all of its tasks
  bool dry_run = false;           // cancel nothing; the answer has the states now, and the refusals
};
struct CancelResult {
  std::string job;  // as the request named it
  std::int64_t id = 0;
  std::optional<JobState> state;  // null: the job was not cancelled; `error` says why
  std::optional<std::string> error;
  std::optional<std::string> error_code;
  std::optional<std::string> error_hint;
};
// A job that waits for a cancelled job, or for one that is cancelled with it.
struct AffectedDependent {
  std::int64_t id = 0;
  std::string tag;
  JobState state = JobState::kQueued;  // before the cancellation
  std::int64_t depends_on = 0;
  bool cancelled = false;  // it can never start now, and is cancelled too
};
inline constexpr std::size_t kMaxCancelledDependents = 1000;
struct CancelAnswer {
  std::vector<CancelResult> jobs;
  std::vector<AffectedDependent> dependents;  // nearest first; at most kMaxCancelledDependents
};

// A process on a GPU, as the queue sees it.
struct QueueProcess {
  int pid = 0;
  std::optional<std::string> user;
  std::optional<std::string> name;
  std::optional<base::Bytes> memory;
  std::optional<base::Millis> age;   // since its start
  std::optional<base::Millis> idle;  // since it used the GPU; null: not known
  std::optional<std::int64_t> job;   // null: gpuman does not manage it
  bool ignored = false;              // a rule says that the GPU is handed out anyway
  bool hoarding = false;             // it seems to hold the GPU without use: idle for queue.hoarder_idle
  bool gpuman = false;               // a part of gpuman: it prevents nothing
};

// What stays of a suspended job on a GPU.
struct SuspendedJobGpuMemory {
  std::int64_t job = 0;
  std::string tag;
  base::Bytes bytes{};
};

struct QueueGpu {
  std::optional<int> index;           // null: an instance (types.h)
  std::optional<std::string> number;  // "0", "0:1"
  std::string uuid;
  std::string model;
  std::optional<MemoryView> memory;
  std::string state = "idle";  // idle allocated shared unmanaged restricted drained split
  // Why the queue starts nothing there: lost, unhealthy, drained (by hand). `state` calls all of it drained.
  std::vector<std::string> unfit{};
  std::vector<std::int64_t> jobs;
  std::vector<std::string> tags;            // of `jobs`, in their order
  std::vector<SuspendedJobGpuMemory> left;  // of suspended jobs; `memory` has it as used
  std::vector<QueueProcess> processes;      // other processes; those of jobs are in /v1/gpus
  // To each GPU of the list, in its order: nvlink switch host_bridge node system unknown; self.
  std::vector<std::string> links;
  std::optional<InstancePart> mig;  // null: a whole GPU
};

struct QueueSettings {
  std::string choice = "sequential";                // sequential random topology
  bool paused = false;                              // nothing new is started
  std::optional<std::vector<std::string>> allowed;  // UUIDs; null: every GPU
  std::vector<std::string> drained;                 // UUIDs: nothing new starts there
};
// PATCH /v1/queue/settings. For administrators.
struct QueueSettingsUpdate {
  std::optional<std::string> choice;
  std::optional<bool> paused;
  std::optional<std::vector<std::string>> allowed;  // index, UUID or UUID prefix
  bool clear_allowed = false;
  // Added to the allowed GPUs, and then removed from them, as all earlier changes left them. Index, number of
  // an instance, UUID or UUID prefix; a GPU stands for its instances as well.
  std::vector<std::string> allow, restrict_these;
  std::vector<std::string> drain, undrain;  // index, UUID or UUID prefix
};

struct QueueInfo {
  std::vector<QueueGpu> gpus;
  QueueSettings settings;
};

// GPUs kept for a user for a time: a number of GPUs, or exactly the GPUs of `devices`.
struct ReservationRequest {
  std::string user;
  int count = 0;
  std::vector<std::string> devices;  // index, UUID or UUID prefix
  base::WallTime start{};
  base::Millis duration{};
};
struct Reservation {
  std::int64_t id = 0;
  std::string user;
  int count = 0;
  std::vector<std::string> devices;  // UUIDs; empty: any `count` of them
  base::WallTime start{};
  base::WallTime end{};
  std::string state = "pending";  // pending active ended cancelled
  std::optional<std::string> created_by;
};
struct ReservationList {
  std::vector<Reservation> reservations;
};

// Limits of a user or a project. `name` "*": of each without limits of its own.
struct QuotaLimits {
  std::optional<int> running_jobs;
  std::optional<int> gpus;  // of running jobs
  std::optional<int> queued_jobs;
  std::optional<double> gpu_hours;  // used since the window began, see [queue] quota_window
  std::optional<double> shares{};   // of fair share, not a limit; null: 1 for a user, 0 for a project
};
// PUT: absent fields stay, null takes the limit away.
struct QuotaUpdate : base::json::Patch<QuotaLimits> {};
struct Quota {
  std::string subject;  // user, project
  std::string name;
  QuotaLimits limits;
  QuotaLimits used;
};
struct QuotaList {
  std::vector<Quota> quotas;
};

// A rule: these processes do not prevent the use of a GPU. A rule that names a pid ends with the process.
struct IgnoreRuleView {
  std::int64_t id = 0;              // 0 in a request
  std::optional<int> pid;           // this process,
  std::optional<std::string> user;  // or all processes of this user,
  std::optional<std::string> name;  // or all with this name
  std::optional<std::string> gpu;   // on this GPU; null: on every one
};
struct IgnoreRuleList {
  std::vector<IgnoreRuleView> ignored;
};

// Parts of the whole, 0 to 1. The factor is 1 if the user or project used nothing lately, 1/2 if it
// used exactly its part.
struct FairShare {
  double entitled = 0;
  double used = 0;
  std::optional<double> factor;  // null: a user of several projects has one in each
};

// How much of one GPU runs have used at most: statistics over the peaks of the runs.
struct PeakStats {
  std::int64_t runs = 0;  // those with a known peak
  base::Bytes median, p95, most;
};
// The same of how long finished runs took, without the time during which they were off the GPU.
struct RunTimeStats {
  std::int64_t runs = 0;
  base::Millis median{}, p95{}, most{};
};
// The same of how busy the GPUs of runs were, in percent: of each run the mean while it was on them.
struct UtilizationStats {
  std::int64_t runs = 0;  // those of which it was measured
  double median = 0, p95 = 0, most = 0;
};
struct StatsRow {
  std::string name;       // "": jobs without a project
  std::int64_t jobs = 0;  // jobs that ran, each once, by the result of its last run
  std::int64_t runs = 0;  // attempts, including restarts and preempted runs
  std::int64_t finished = 0, failed = 0, cancelled = 0, timeout = 0, killed = 0;
  std::int64_t running = 0, queued = 0;
  base::Millis wait_mean{}, run_mean{};
  double gpu_hours = 0;
  double gpu_byte_hours = 0;
  // The part of gpu_byte_hours of runs with a known peak, and what they never used of that part. Null: no
  // peak is known.
  std::optional<double> gpu_byte_hours_known{}, gpu_byte_hours_unused{};
  std::optional<double> success;           // part of the completed runs that finished, 0 to 1
  std::optional<double> energy;            // joules; null: not measured
  std::optional<double> cost{};            // in StatsView::currency; null: no price is set, or not known
  std::optional<PeakStats> peak{};         // null: not known of any run
  std::optional<RunTimeStats> run_time{};  // null: there was no run
  std::optional<UtilizationStats> utilization{};  // null: not known of any run
  std::optional<FairShare> fair_share{};  // as of now; null: a GPU, or a name that is not in the queue
};
// GET /v1/stats: one row for each user, project, name, GPU or day.
struct StatsView {
  std::string by = "user";
  std::vector<StatsRow> rows;
  StatsRow total;
  std::optional<std::string> currency{};  // null: no price is set
};

}  // namespace gpuman::api
