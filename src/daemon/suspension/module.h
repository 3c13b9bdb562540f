// Suspension as a capability of the daemon: jobs leave their GPUs and come back, because a user asks, because
// the guard needs their memory, or because another job needs their place.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/suspension/cgroup_limit_writer.h"
#include "daemon/suspension/idle_job_controller.h"
#include "daemon/suspension/own_movers.h"
#include "daemon/suspension/stopped_job_controller.h"
#include "daemon/suspension/suspend_controller.h"
#include "suspend/would_stay.h"

namespace gpuman::daemon {

class ShimsModule;

class SuspensionModule final : public Module {
 public:
  using Done = SuspendController::Done;

  SuspensionModule(Core& core, ShimsModule& shims);
  ~SuspensionModule() override;

  SuspendController& controller() { return *controller_; }
  const SuspendController& controller() const { return *controller_; }
  StoppedJobController& stopped() { return *stopped_; }
  IdleJobController& idle() { return *idle_; }

  // For a job that runs or is suspended. kConflict: the job does neither; kNotSupported: the job is in an
  // instance (MIG).
  base::Result<SuspendController*> ControllerFor(const jobs::Job& job);
  base::Result<SuspendController*> ControllerFor(base::JobId job);
  // The job's state; kSuspended where the job is off its GPU.
  spec::JobState StateOf(const jobs::Job& job) const;
  // What stays on the GPUs of a suspended job; for a job that runs, or is on its way: what would stay, as far
  // as that was known at the last sample.
  const suspend::BytesByGpu& LeftOf(base::JobId job) const;
  // Each calls `done` when the job is there, or with the reason why it is not. Suspend lets stopped processes
  // run until then.
  void Suspend(base::JobId job, suspend::event::SuspendAsked asked, Done done);
  void Resume(base::JobId job, std::optional<std::string> gpu, Done done);
  void MoveTo(base::JobId job, const std::string& gpu, Done done);

  // gpuman's own processes on GPUs (OwnMovers).
  std::set<pid_t> OwnPids();
  // Calls `then` once movers that have nothing to do have left their GPUs, or after some seconds.
  void WhenIdleMoversLeft(std::function<void()> then);

  void Restore(jobs::StoreContents& contents) override;
  void Reconfigure() override;
  bool Stop() override;
  void BeforeSample(const gpu::GpuSample& sample) override;
  void AfterSamples(const std::set<std::string>& gpus) override;
  void OnJobRuns(const jobs::Job& job) override;
  void OnJobLeft(base::JobId job, UnwatchReason why) override;
  void Show(const jobs::Job& job, api::JobView& view) const override;
  void AddMetrics(metrics::Snapshot& snapshot) override;

 private:
  void SuspendForGuard(base::JobId job, suspend::event::SuspendAsked asked);
  void OnPhase(base::JobId job, suspend::SuspensionPhase phase);
  void ReadLeft(base::JobId job);
  void LiftHostLimit(const jobs::Job& job, suspend::SuspensionPhase phase);
  void WhenEnded(std::set<pid_t> processes, std::function<void()> then, int polls);

  void KeepOwnMovers();

  Core& core_;
  OwnMovers own_movers_;
  CgroupLimitWriter memory_limits_;
  std::unique_ptr<SuspendController> controller_;
  std::unique_ptr<StoppedJobController> stopped_;
  std::unique_ptr<IdleJobController> idle_;
  std::map<base::JobId, int> runs_;  // of jobs whose suspension is known; a new run is on its GPU
  std::map<base::JobId, suspend::BytesByGpu> left_;  // by LeftOf; no entry is empty
  std::map<base::JobId, suspend::SteadyResidualEstimator> estimates_;
};

}  // namespace gpuman::daemon
