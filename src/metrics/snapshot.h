// The input of an answer of /metrics. Values, except the samples: their owner must keep them while the answer
// is made.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/units.h"
#include "gpu/gpu_sample.h"
#include "gpu/inventory.h"
#include "metrics/event_counters.h"
#include "metrics/self.h"

namespace gpuman::metrics {

// The processes of one user on a GPU that belong to no job.
struct UnmanagedMemory {
  base::Bytes memory{};
  base::Bytes idle{};  // of processes that left the GPU idle for longer than queue.hoarder_idle
};

struct Device {
  gpu::Gpu gpu{};
  const gpu::GpuSample* sample = nullptr;  // never null in a snapshot
  std::string health = "unknown";          // healthy, degraded, unhealthy, unknown
  std::vector<std::string> faults{};       // codes of faults that are not acknowledged
  bool drained = false;
  base::Bytes reserve{};
  // Joules that were split since the account of its energy began: of jobs, idle, others; empty: no counter.
  std::map<std::string, double> energy_parts{};
  std::map<std::string, UnmanagedMemory> unmanaged{};  // by user
  base::Bytes movers{};                                // of gpuman's own processes
};

// A job's use and limits of one GPU.
struct JobPart {
  std::string gpu{};  // "0"; for an instance "0:1"
  std::string uuid{};
  std::optional<base::Bytes> used{}, limit{}, soft{};
  std::optional<std::uint64_t> refused{};  // allocations of the present run; absent: no process counts there
};

// A job that has started and has not ended.
struct Job {
  std::int64_t id = 0;
  std::string tag{}, user{}, project{}, state{};
  std::string name_space{}, pod{}, container{};  // of Kubernetes; empty: not a container
  std::optional<base::Bytes> peak{};
  base::Bytes host{};
  int restarts = 0;
  std::optional<double> energy{};  // joules of the present run
  std::vector<JobPart> parts{};
};

// What a job that shares a GPU asked for and had of its time.
struct JobTime {
  std::int64_t job = 0;
  std::string tag{}, user{};
  std::optional<double> asked{};  // 0 to 1
  std::optional<double> part{};   // 0 to 1, while turns go by shares: what became of that beside the others
  std::optional<double> had{};    // of the last ten seconds
  std::optional<double> held_others{};  // its work goes first: for how many seconds others stood still for it
  std::optional<double>
      longest_unit{};  // seconds for which its work stayed on the GPU when its turn was over
};

struct SharedGpu {
  unsigned gpu = 0;
  std::string uuid{};
  std::size_t in_run_set = 0, waiting = 0;  // jobs
  bool contended = false;
  base::Bytes moved_out{}, moved_in{};
  base::Bytes copied_out{}, copied_in{};  // of these
  base::Histogram hand_overs{{}};
  double moving_ratio = 0, moving_seconds = 0;
  std::vector<JobTime> times{};
};

// Attempts to bring jobs to rest since the daemon began.
struct JobRestStats {
  std::string processes{};                          // of these jobs: "one", "several"
  base::Histogram seconds{{}};                      // of the attempts that did
  std::map<std::string, std::uint64_t> attempts{};  // by result
  std::uint64_t steps = 0;                          // calls that were let through
};

// What stays on a GPU of jobs that are suspended.
struct LeftMemory {
  std::string gpu{}, uuid{};
  base::Bytes bytes{};
};

struct Queue {
  std::map<std::string, std::size_t> waiting{};  // by reason
  std::optional<double> oldest_seconds{};
  bool paused = false;
};

struct Snapshot {
  std::string host{}, version{}, driver_version{};
  std::vector<Device> devices{};
  std::vector<Job> jobs{};
  std::vector<SharedGpu> shared{};
  std::vector<JobRestStats> rests{};
  std::vector<LeftMemory> left{};
  std::size_t idle_on_gpu = 0, idle_away = 0;
  base::Bytes kept{};  // host memory: copies of what is on a GPU again
  Queue queue{};
  std::optional<double> gpu_hour_price{}, kwh_price{};
  std::string currency{};
  std::size_t notifications_pending = 0, notifications_failed = 0;
  EventCounters counters{};
  base::Histogram rounds{{}};  // of the sampler
  SelfCost self{};
  std::uint64_t scrapes = 0;
  double scrape_seconds = 0;
};

}  // namespace gpuman::metrics
