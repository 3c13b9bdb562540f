// The guard as the daemon uses it: it takes samples and jobs, and gives signals, events and sampling periods.
//
// The guard judges the instances of a split GPU like GPUs, each by its own size. It does not judge the split
// GPU itself, and processes in instances are listed with the instances only.
//
// Combines attribution, policy, cadence and enforcer, and keeps the latest view of every GPU, which `status`
// reads too. Not thread-safe: lives on the event loop. The daemon calls it:
//   on every sample      -> OnSample
//   at NextDeadline()    -> OnTime
//   when a job changes   -> SetJob / RemoveJob
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "gpu/gpu_sample.h"
#include "gpu/inventory.h"
#include "gpu/process_attributor.h"
#include "guard/cadence.h"
#include "guard/enforcer.h"
#include "guard/policy.h"

namespace gpuman::guard {

// A job that runs or is about to run. Percentages are resolved for each GPU when the GPU is known.
struct GuardedJob {
  JobId id;
  std::string tag;
  std::uint64_t run = 1;        // increases with every start of the command
  base::MonoTime started_at{};  // of this run
  int priority = 128;
  bool shares = false;  // --share
  std::optional<base::SizeSpec> hard{};
  std::optional<base::SizeSpec> soft{};
  std::vector<std::string> gpus{};  // UUIDs of the GPUs on which the limits hold; empty: every GPU
  std::optional<base::Millis> grace{};
  std::optional<base::MonoTime> ending_since{};  // set: another part than the guard has ordered the end
  gpu::JobRoot root{};                           // .job is `id`
};

struct GuardSettings {
  PolicySettings policy;
  CadenceSettings cadence;
  std::optional<base::SizeSpec> reserve{};              // for every GPU
  std::map<std::string, base::SizeSpec> gpu_reserve{};  // by UUID; takes precedence
};

struct GpuStatus {
  gpu::Gpu gpu;
  gpu::GpuSample sample;                          // the latest, failed or not
  std::vector<gpu::AttributedProcess> processes;  // the latest list from the driver
};

// Sums of the driver's figures, without processes whose memory the driver does not report.
struct JobUsage {
  std::optional<base::Bytes> used;  // the largest of its GPUs; nullopt: not known yet
  std::optional<base::Bytes> peak;  // of `used`, over this run
  std::map<std::string, base::Bytes> by_gpu;
};

class Guard {
 public:
  using SetPeriod = std::function<void(const std::string& uuid, base::Millis period)>;

  // `table`, `actuator`, `clock` must outlive this object.
  Guard(GuardSettings settings, const base::ProcessTable& table, Actuator& actuator, const base::Clock& clock,
        SetPeriod set_period);

  void SetSettings(GuardSettings settings);
  void SetInventory(const gpu::Inventory& inventory);
  // Adds the job or replaces its description. A changed limit holds from the next sample on; poke the sampler
  // to get that sample now.
  void SetJob(const GuardedJob& job);
  void RemoveJob(JobId job);
  // Sets the pids of gpuman's own processes that live now: the guard does not touch them, and they belong to
  // no job. From the next sample on.
  void SetOurs(std::set<pid_t> ours) { attribution_.SetOurs(std::move(ours)); }
  // The sum that the job's processes on the GPU count themselves; nullopt: not all of them count.
  void SetCounted(JobId job, const std::string& uuid, std::optional<base::Bytes> counted);
  // The managed memory on the GPU, as the processes that use it count it. It makes room for any other
  // allocation, so it counts as free. From the next sample on.
  void SetManaged(const std::string& uuid, base::Bytes bytes) { managed_[uuid] = bytes; }
  // Where the job's memory is; call it when that changes. A job is on its GPU until this says otherwise.
  void SetResidency(JobId job, JobResidency residency);
  // Whether the job makes no call, and may be suspended for that. Call it when that changes.
  void SetIdle(JobId job, bool idle);
  // What stays on each GPU while the job is suspended; for a running job, what is expected to stay. Call it
  // when that changes.
  void SetLeft(JobId job, std::map<std::string, base::Bytes> left);
  // The job was not suspended, though Actuator::SuspendJob asked for it.
  void SetRefusal(JobId job, std::string why);

  // Samples come in two steps: OnSample takes the figures, Judge decides by all samples since the last
  // judgement. Call SetCounted between them with the counts that were read together with the sample, so that
  // a job is not judged by its new usage and its old count.
  void OnSample(const gpu::GpuSample& sample);
  void Judge();
  void OnTime();
  std::optional<base::MonoTime> NextDeadline() const;

  const gpu::Inventory& inventory() const { return inventory_; }
  // nullptr: no such GPU. A GPU that was never sampled has a default `taken_at`.
  const GpuStatus* Find(const std::string& uuid) const;
  const std::map<std::string, GpuStatus>& Statuses() const { return gpus_; }  // by UUID
  JobUsage UsageOf(JobId job) const;
  // The reserve that is kept free on the GPU; 0: none, or no such GPU.
  base::Bytes ReserveOf(const std::string& uuid) const {
    const auto* status = Find(uuid);
    return status ? SnapshotOf(*status).reserve : base::Bytes{};
  }
  // The free memory, including that reserve; 0: none, or not known.
  base::Bytes FreeOf(const std::string& uuid) const {
    const auto* status = Find(uuid);
    return status ? SnapshotOf(*status).free : base::Bytes{};
  }
  // The job of any process, on a GPU or not.
  gpu::JobLookupResult JobOf(pid_t pid) const { return attribution_.JobOf(pid); }

 private:
  void Act();
  void Attribute(GpuStatus& status);
  GpuSnapshot* SnapshotFor(const std::string& uuid);
  void Refresh(const GpuStatus& status);
  void RefreshJobs();
  GpuSnapshot SnapshotOf(const GpuStatus& status) const;
  JobSnapshot SnapshotOf(const GuardedJob& job) const;
  base::Bytes ManagedOn(const GpuStatus& status) const;
  void TellStateChange(const gpu::Gpu& gpu, const gpu::GpuSample& before, const gpu::GpuSample& now);
  void NotePeaks(const GpuStatus& status);
  void UpdatePeriod(const std::string& uuid);

  GuardSettings settings_;
  const base::Clock& clock_;
  Actuator& actuator_;
  SetPeriod set_period_;
  gpu::ProcessAttributor attribution_;
  Enforcer enforcer_;
  gpu::Inventory inventory_;
  std::map<std::string, GpuStatus> gpus_;
  std::map<std::string, base::Bytes> managed_;  // by GPU
  std::map<JobId, GuardedJob> jobs_;
  std::map<JobId, base::Bytes> peaks_;                           // of the current run
  std::map<JobId, std::map<std::string, base::Bytes>> counted_;  // by GPU
  std::set<std::string> unjudged_;                               // GPUs with a sample that was not judged yet
  struct Suspension {
    JobResidency residency = JobResidency::kOnGpu;
    base::MonoTime since{};
    std::optional<SuspensionRefusal> refusal{};
    std::map<std::string, base::Bytes> left{};
    bool idle = false;
  };
  std::map<JobId, Suspension> suspensions_;
  std::map<std::string, base::Millis> periods_;
  Snapshot snapshot_;  // everything above; kept up to date so that nothing is copied at rest
  PolicyState state_;
  CadenceState cadence_;
};

}  // namespace gpuman::guard
