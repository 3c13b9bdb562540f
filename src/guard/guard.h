// The guard as the daemon holds it: samples and jobs in, signals, events and sampling periods out.
//
// The instances of a GPU that is split are judged like GPUs, each by its own size; the GPU itself is not, and
// what runs in them is listed with them alone.
//
// Puts attribution, policy, cadence and enforcer together and keeps the latest view of every GPU, which
// `status` reads too. Not thread-safe: lives on the event loop; the daemon drives time:
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
#include "gpu/attribution.h"
#include "gpu/inventory.h"
#include "gpu/sample.h"
#include "guard/cadence.h"
#include "guard/enforcer.h"
#include "guard/policy.h"

namespace gpuman::guard {

// A job that runs, or is about to. Percentages are resolved per GPU as GPUs are known.
struct GuardedJob {
  JobId id;
  std::string tag;
  std::uint64_t run = 1;        // grows with every start of the command
  base::MonoTime started_at{};  // of this run
  int priority = 128;
  bool shares = false;  // --share
  std::optional<base::SizeSpec> hard{};
  std::optional<base::SizeSpec> soft{};
  std::vector<std::string> gpus{};  // UUIDs the limits hold on; empty: every GPU
  std::optional<base::Millis> grace{};
  std::optional<base::MonoTime> ending_since{};  // a stop was ordered by somebody else
  gpu::JobRoot root{};                           // .job is `id`
};

struct GuardSettings {
  PolicySettings policy;
  CadenceSettings cadence;
  std::optional<base::SizeSpec> reserve{};              // of every GPU
  std::map<std::string, base::SizeSpec> gpu_reserve{};  // by UUID, instead
};

struct GpuStatus {
  gpu::Gpu gpu;
  gpu::Sample sample;                        // the latest, failed or not
  std::vector<gpu::OwnedProcess> processes;  // the latest that the driver told
};

// Sums of what the driver tells; a process whose memory it does not tell is not in them.
struct JobUsage {
  std::optional<base::Bytes> used;  // largest of its GPUs; nullopt: nothing known yet
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
  // Adds the job or replaces what is known of it: a changed limit holds from the next sample on; poke the
  // sampler to make that now.
  void SetJob(const GuardedJob& job);
  void RemoveJob(JobId job);
  // gpuman's own processes, that now live: not touched, and nobody's. From the next sample on.
  void SetOurs(std::set<pid_t> ours) { attribution_.SetOurs(std::move(ours)); }
  // What the job's processes on the GPU count themselves; nullopt: not all of them do.
  void SetCounted(JobId job, const std::string& uuid, std::optional<base::Bytes> counted);
  // Managed memory on the GPU, by those who count it. It gives way to whatever else needs the room, so what
  // of it is there is as good as free. From the next sample on.
  void SetManaged(const std::string& uuid, base::Bytes bytes) { managed_[uuid] = bytes; }
  // Where the job is, whenever that changes; it is on its GPU until something else is said.
  void SetResidency(JobId job, Residency residency);
  // It was not suspended, though Actuator::SuspendJob asked for it.
  void SetRefusal(JobId job, std::string why);

  // Samples in two steps: what each says, then what follows from those that came since the last judgement.
  // Between them belongs what is read together with them (SetCounted): a job is not judged by its new usage
  // and its old count.
  void OnSample(const gpu::Sample& sample);
  void Judge();
  void OnTime();
  std::optional<base::MonoTime> NextDeadline() const;

  const gpu::Inventory& inventory() const { return inventory_; }
  // nullptr: no such GPU. A GPU that was never sampled has a default `taken_at`.
  const GpuStatus* Find(const std::string& uuid) const;
  const std::map<std::string, GpuStatus>& Statuses() const { return gpus_; }  // by UUID
  JobUsage UsageOf(JobId job) const;
  // What is kept free on the GPU; 0: nothing, or no such GPU.
  base::Bytes ReserveOf(const std::string& uuid) const {
    const auto* status = Find(uuid);
    return status ? SnapshotOf(*status).reserve : base::Bytes{};
  }
  // What others could take, that reserve included; 0: nothing, or not known.
  base::Bytes FreeOf(const std::string& uuid) const {
    const auto* status = Find(uuid);
    return status ? SnapshotOf(*status).free : base::Bytes{};
  }
  // Of any process, on a GPU or not.
  gpu::Finding JobOf(pid_t pid) const { return attribution_.JobOf(pid); }

 private:
  void Act();
  void Attribute(GpuStatus& status);
  GpuSnapshot* SnapshotFor(const std::string& uuid);
  void Refresh(const GpuStatus& status);
  void RefreshJobs();
  GpuSnapshot SnapshotOf(const GpuStatus& status) const;
  JobSnapshot SnapshotOf(const GuardedJob& job) const;
  base::Bytes ManagedOn(const GpuStatus& status) const;
  void TellStateChange(const gpu::Gpu& gpu, const gpu::Sample& before, const gpu::Sample& now);
  void NotePeaks(const GpuStatus& status);
  void UpdatePeriod(const std::string& uuid);

  GuardSettings settings_;
  const base::Clock& clock_;
  Actuator& actuator_;
  SetPeriod set_period_;
  gpu::Attribution attribution_;
  Enforcer enforcer_;
  gpu::Inventory inventory_;
  std::map<std::string, GpuStatus> gpus_;
  std::map<std::string, base::Bytes> managed_;  // by GPU
  std::map<JobId, GuardedJob> jobs_;
  std::map<JobId, base::Bytes> peaks_;                           // of the present run
  std::map<JobId, std::map<std::string, base::Bytes>> counted_;  // by GPU
  std::set<std::string> unjudged_;                               // GPUs with a new sample
  struct Suspension {
    Residency residency = Residency::kOnGpu;
    base::MonoTime since{};
    std::optional<Refusal> refusal{};
  };
  std::map<JobId, Suspension> suspensions_;
  std::map<std::string, base::Millis> periods_;
  Snapshot snapshot_;  // of all the above, kept up to date so that resting costs no copies
  State state_;
  CadenceState cadence_;
};

}  // namespace gpuman::guard
