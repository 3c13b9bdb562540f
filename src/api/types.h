// The types that gpuman's programs exchange: the data transfer types of the HTTP API (docs/api/openapi.yaml).
//
// Plain values. An absent optional is JSON `null`: unknown or not supported, never 0. Sizes are bytes, times
// are wall-clock ISO 8601 UTC in JSON, durations are seconds as numbers. The codec is api/json.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/container_types.h"
#include "api/instance_types.h"
#include "api/queue_fields.h"
#include "base/clock.h"
#include "base/memory_parts.h"
#include "base/units.h"
#include "spec/job_options.h"
#include "spec/job_state.h"

namespace gpuman::api {

// Version of this API. A daemon answers the versions that it knows under /v1; fields are only ever added.
inline constexpr int kApiVersion = 1;

// The header of an answer with a job's log: the offset in the log, in bytes, at which the answer begins.
inline constexpr const char* kLogOffsetHeader = "Gpuman-Log-Offset";

// The header of an answer with a sentence for the person who asked; there may be several.
inline constexpr const char* kNoteHeader = "Gpuman-Note";

using spec::JobState;

// POST /v1/jobs: run a command at once.
struct RunRequest : spec::RunOptions {
  std::string tag;                   // unique among the jobs that have not ended
  std::vector<std::string> command;  // argv; found by PATH of `environment`
  std::string directory;             // absolute
  std::map<std::string, std::string> environment;
  std::uint32_t umask = 022;
  std::vector<std::string> gpus;  // index, UUID or UUID prefix; empty: every GPU
};

// POST /v1/jobs/ID/resume and /move: the job's next GPU; absent (only for resume): the GPU where it was.
struct ResumeOrMoveRequest {
  std::optional<std::string> gpu;  // index, UUID or UUID prefix
};

struct JobMemory {
  std::optional<base::Bytes> limit;
  std::optional<base::Bytes> soft;
  std::optional<base::Bytes> used;  // on the GPU where it uses most; null: no sample yet
  std::optional<base::Bytes> peak;
  std::optional<base::Bytes> host;  // for a suspended job: its GPU memory that is in the host's memory
  // For a suspended job: what stays on its GPUs, by UUID.
  std::optional<std::map<std::string, base::Bytes>> left{};
  std::optional<base::MemoryParts> peak_parts{};  // of `peak`; null: not known
  // Whether NVIDIA's driver holds `limit` on all of its GPUs; null: it is not asked to, or cannot.
  std::optional<bool> held_by_driver{};
};

// The first of a run's refused allocations on one GPU.
struct FirstRefusedAllocationView {
  base::Bytes asked;
  base::Bytes used;
  std::optional<base::Bytes> limit;
  base::WallTime at{};
  // As RefusedAllocationView has them; null: not known.
  std::optional<base::MemoryParts> parts{};
  std::optional<base::Bytes> pools_unused{};
  std::optional<base::Bytes> device_free{};
};

// The last allocation that was refused to a program of the job.
struct RefusedAllocationView {
  std::string gpu;  // UUID
  base::Bytes asked;
  base::Bytes used;                  // by the job on that GPU, at that time
  std::optional<base::Bytes> limit;  // at that time
  std::string by;                    // limit, sharing (no room came on a shared GPU), device (it was full)
  base::WallTime at{};
  std::string message;   // the refusal as a sentence, with what can be done
  bool context = false;  // the allocation was a context; `asked` is 0 where its cost there was not known
  // null: not known.
  std::optional<std::int64_t> count{};                // of the run's refusals on that GPU, with this one
  std::optional<FirstRefusedAllocationView> first{};  // of these
  std::optional<base::MemoryParts> parts{};           // of `used`
  std::optional<base::Bytes> pools_unused{};  // the part of the process's pools that no allocation had
  std::optional<base::Bytes> device_free{};   // on the whole GPU
};

struct JobView {
  std::int64_t id = 0;
  std::string tag;
  std::string user;
  std::optional<ContainerName> kubernetes;  // null: it is no container
  JobState state = JobState::kStarting;
  std::optional<std::string> reason;         // a word: memory_limit, device_pressure, …
  std::optional<std::string> reason_detail;  // a sentence with the numbers in it
  std::optional<int> pid;
  std::vector<std::string> gpus;  // UUIDs
  std::vector<std::string> command;
  std::string directory;
  // As asked for, but `idle_suspend` is the daemon's setting where the job has none of its own. Its limits
  // are in `memory`.
  spec::RunOptions options;
  JobMemory memory;
  std::optional<int> exit_code;
  std::optional<int> signal;
  base::WallTime submitted_at{};
  std::optional<base::WallTime> started_at;
  std::optional<base::WallTime> ended_at;
  int restarts = 0;
  std::string log_path;
  std::optional<std::string> trace_path;  // the directory of its traces of allocations; null: it has none
  // Processes on a GPU that do not count their memory, so that only the guard holds the limit; null: no
  // process of the job has to count its memory.
  std::optional<std::vector<int>> unshimmed;
  std::vector<std::string> notes;  // of its current or last run, as sentences: what gpuman could not do
  std::optional<RefusedAllocationView> refusal;  // of its current or last run; null: none is known
  std::optional<JobQueueView> queue;             // null: it never was in the queue
  std::optional<double> energy{};                // joules, of its current or last run; null: not measured
  std::optional<double> cost{};  // of that run, in `currency`; null: no price is set, or it is not known
  std::optional<std::string> currency{};
  // Only in lists: some long text or sequence of the job is not whole here
  // (daemon/core/list_shortening.h). The view of the one job has all of it.
  bool cut = false;
};

// GET /v1/jobs/{ref}/why: why the job waits, runs or ended, and what led to that.
struct StoryLine {
  base::WallTime at{};
  std::string text;
  int times = 1;  // in a row
  base::WallTime last{};
};

// The most memory that a job, or one process of it, has used of one GPU at a time.
struct MemoryPeakView {
  std::string gpu;                     // UUID
  std::optional<std::string> number;   // of that GPU, as GpuView::number; null: it is not there any more
  std::optional<int> pid;              // null: the whole job
  std::optional<std::string> program;  // of the process; null: not known
  base::Bytes bytes;
  std::optional<base::MemoryParts> parts;  // of `bytes`; null: not known
};

struct JobStory {
  std::int64_t id = 0;
  std::string tag;
  JobState state = JobState::kStarting;
  std::string cause;    // a word: memory_refused, time_limit, … (docs/why.md)
  std::string because;  // a sentence with the numbers in it
  std::vector<StoryLine> story;
  int left_out = 0;  // how many lines `story` leaves out, after its first `left_out_after` lines
  int left_out_after = 0;
  std::vector<std::string> advice;  // each is a sentence that says what to do
  // Since the job started last: the job on each GPU, then the processes that had most, the largest first.
  std::vector<MemoryPeakView> peaks;
  std::optional<std::string> used;  // a sentence: its energy and its cost; null: neither is known
};

struct MemoryView {
  base::Bytes total, used, free, reserved;
};

struct ProcessView {
  int pid = 0;
  std::optional<std::string> user;
  std::optional<std::string> name;
  std::optional<base::Bytes> memory;
  std::optional<std::int64_t> job;  // null: gpuman does not manage it
  std::optional<std::string> tag;
  std::vector<std::string> command;
  bool gpuman = false;  // a part of gpuman, which ends when it is not needed
  // Percent of the time in which it ran something on the GPU; a detail, as those of GpuView.
  std::optional<unsigned> gpu_percent{};
  bool cut = false;  // `command` is longer than what is shown
};

struct HealthView {
  std::string state = "healthy";  // healthy degraded unhealthy unknown
  std::vector<std::string> reasons;
};

// A GPU, or an instance of one that is split (MIG): instances come after their GPU, and are parts of it.
struct GpuView {
  std::optional<int> index;           // null: an instance
  std::optional<std::string> number;  // "0", "0:1"
  std::string uuid;
  std::string name;
  std::optional<MemoryView> memory;    // null: lost or not answering
  std::optional<int> utilization_gpu;  // percent
  std::optional<int> utilization_memory;
  std::optional<int> temperature_c;
  std::optional<double> power_w;
  // Read while somebody asks for them, one after the other, a second apart (GET /v1/status?details=1).
  std::optional<unsigned> fan_percent{};
  std::optional<unsigned> sm_clock_mhz{}, memory_clock_mhz{};
  std::optional<std::uint64_t> pcie_sent{}, pcie_received{};  // bytes a second
  std::optional<double> power_limit_w{};                      // that the driver holds now
  std::optional<unsigned> performance_state{};                // 0 is the fastest
  std::optional<unsigned> encoder_percent{}, decoder_percent{};
  std::optional<unsigned> pcie_generation{}, pcie_lanes{};  // of the link at this moment; always read
  HealthView health;
  std::vector<ProcessView> processes;  // empty for a split GPU: its instances list them
  bool split = false;                  // no program gets it as a whole
  std::optional<InstancePart> mig;     // null: a whole GPU
};

struct StatusView {
  std::vector<GpuView> gpus;
  std::vector<JobView> jobs;
  std::optional<std::string> driver_error;      // why no GPUs are shown
  std::optional<std::string> driver_version{};  // "580.159.04"; null: there is no driver
  std::optional<std::string> cuda_version{};    // the newest that the driver serves: "13.0"
  // How many waiting and ended jobs `jobs` leaves out; 0 if the request had `all`.
  std::int64_t waiting_left_out = 0, ended_left_out = 0;
};

struct EventView {
  std::int64_t id = 0;  // grows; never reused
  base::WallTime at{};
  std::string kind;  // job_started, soft_limit, hard_limit, device_pressure, …
  std::optional<std::int64_t> job;
  std::optional<std::string> tag;
  std::optional<std::string> gpu;  // UUID
  std::string message;
  std::map<std::string, std::int64_t> data;  // the numbers of the message: bytes, pids, nanoseconds
};

// The answers of collections: {"jobs":[…]}, {"gpus":[…]}, {"events":[…]}.
struct JobList {
  std::vector<JobView> jobs;
};
struct GpuList {
  std::vector<GpuView> gpus;
};
struct EventList {
  std::vector<EventView> events;
};

struct VersionView {
  std::string version;
  int api = kApiVersion;
  int pid = 0;
  bool user_mode = false;
};

// The page of this machine that everybody may see.
struct WebPageView {
  std::optional<std::string> url;  // with its secret; null: there is none
};

}  // namespace gpuman::api
