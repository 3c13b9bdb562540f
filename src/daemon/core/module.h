// A module joins a capability of the daemon to the core (core/core.h).
//
// A module gets the core and direct references to the modules that it uses, all of which are constructed
// before it and outlive it. So references go one way. To tell something to the modules above it, a module
// offers a signal (core/signal.h) or a callback, which those modules register for.
//
// All calls come on the event loop. Calls about something that begins are made in the order of construction,
// calls about something that ends in the reverse order. A module overrides the functions that concern it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "api/types.h"
#include "daemon/http/router.h"
#include "gpu/gpu_sample.h"
#include "guard/guard.h"
#include "jobs/job.h"
#include "jobs/launch_plan.h"
#include "jobs/store.h"
#include "metrics/snapshot.h"

namespace gpuman::daemon {

// Why the daemon stops watching a job: its run is over, or it runs on and does not belong to gpuman any more.
enum class UnwatchReason { kEnded, kLetGo };

class Module {
 public:
  virtual ~Module() = default;

  // --- The daemon's life ---
  // Called once, before anything else happens, with what an earlier daemon stored. A module may move its own
  // part out of it.
  virtual void Restore(jobs::StoreContents& /*contents*/) {}
  virtual void AddRoutes(http::Router& /*router*/) {}
  // The configuration has changed: Core::config() is the new one.
  virtual void Reconfigure() {}
  // Whether the module knows of the GPUs what it has to know before jobs may start. When the answer changes,
  // the module calls SampleForwarder::BecomeReadyIfKnown.
  virtual bool IsReady() const { return true; }
  // Called once: the GPUs are known and each was sampled, or that takes too long.
  virtual void OnReady() {}
  // At least once a second or so.
  virtual void OnTick() {}
  // Ends the module's threads and child processes; no function of the module is called afterwards. False: a
  // thread of the module is in the driver or the kernel and cannot be joined.
  virtual bool Stop() { return true; }

  // --- GPUs ---
  // Core::inventory() has changed, and the guard has the new one.
  virtual void OnInventory() {}
  // A GPU was sampled, and the guard does not have the sample yet. The module tells the guard now what the
  // guard needs to judge the sample.
  virtual void BeforeSample(const gpu::GpuSample& /*sample*/) {}
  // The guard has the sample.
  virtual void OnSample(const gpu::GpuSample& /*sample*/) {}
  // The guard has judged all samples of one moment; `gpus`: the UUIDs of the GPUs that were sampled.
  virtual void AfterSamples(const std::set<std::string>& /*gpus*/) {}

  // --- Jobs ---
  // A job is new, or its record has changed. Called before OnJobRuns and OnJobLeft.
  virtual void OnJobChanged(const jobs::Job& /*job*/) {}
  // The job has a keeper, and neither waits nor has ended. Called with each change of the job. The guard
  // knows the job.
  virtual void OnJobRuns(const jobs::Job& /*job*/) {}
  // A job ran, and the daemon stops watching it. Called in the reverse order; the guard still knows the job.
  virtual void OnJobLeft(base::JobId /*job*/, UnwatchReason /*why*/) {}
  // The job does not belong to gpuman any more: it was removed, forgotten or let go. Called before OnJobLeft.
  virtual void OnJobForgotten(base::JobId /*job*/) {}
  // A keeper's record is about to be written into the job's record. The module may add its own part to the
  // job.
  virtual void OnRecorded(jobs::Job& /*job*/, const keeper::JournalRecord& /*record*/) {}
  // A run has ended, and its account is about to be stored. The module may add its own part to it.
  virtual void OnRunEnded(const jobs::Job& /*job*/, jobs::RunAccount& /*run*/) {}
  // Adds the module's part to the settings with which the processes of jobs are started.
  virtual void SetUpLaunch(jobs::LaunchSettings& /*settings*/) const {}

  // --- What is shown; each module adds what it knows ---
  virtual void Show(const jobs::Job& /*job*/, api::JobView& /*view*/) const {}
  virtual void Show(const guard::GpuStatus& /*status*/, api::GpuView& /*view*/) const {}
  // The snapshot has devices and jobs already. The module makes no driver call for it.
  virtual void AddMetrics(metrics::Snapshot& /*snapshot*/) {}
};

}  // namespace gpuman::daemon
