// A capability of the daemon: what joins the core (core/core.h) to carry one thing out.
//
// A module gets the core and direct references to the modules that it uses, all of which are constructed
// before it and outlive it. So references go one way. What a module has to tell those above it, it offers as
// a signal (core/signal.h) or a callback that they register.
//
// All calls come on the event loop. Those about something that comes are made in the order of construction,
// those about something that goes in the reverse order. A module overrides what it has to do with.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "api/types.h"
#include "daemon/http/router.h"
#include "gpu/sample.h"
#include "guard/guard.h"
#include "jobs/job.h"
#include "jobs/launch_plan.h"
#include "jobs/store.h"
#include "metrics/snapshot.h"

namespace gpuman::daemon {

// Why a job is not watched any more: its run is over, or it runs on and is not gpuman's.
enum class Left { kEnded, kLetGo };

class Module {
 public:
  virtual ~Module() = default;

  // --- The daemon's life ---
  // What an earlier daemon stored, once, before anything happens. A module may take what is its own.
  virtual void Restore(jobs::StoreContents& /*contents*/) {}
  virtual void AddRoutes(http::Router& /*router*/) {}
  // The configuration has changed: Core::config() is the new one.
  virtual void Reconfigure() {}
  // What the module has to know of the GPUs before jobs may start is known; where that changes,
  // Sampling::BecomeReadyIfKnown is called.
  virtual bool IsReady() const { return true; }
  // Once: the GPUs are known and each was looked at, or that takes too long.
  virtual void OnReady() {}
  // At least once a second or so.
  virtual void OnTick() {}
  // Ends what works for the module; nothing is called afterwards. False: a thread of it is in the driver or
  // the kernel and cannot be joined.
  virtual bool Stop() { return true; }

  // --- GPUs ---
  // Core::inventory() is a new one, and the guard has it.
  virtual void OnInventory() {}
  // A GPU was read, and the guard does not know it yet: what the guard judges the sample with is told to it.
  virtual void BeforeSample(const gpu::Sample& /*sample*/) {}
  // The guard has the sample.
  virtual void OnSample(const gpu::Sample& /*sample*/) {}
  // The guard has judged all samples of one moment; `gpus`: the UUIDs of those that were read.
  virtual void AfterSamples(const std::set<std::string>& /*gpus*/) {}

  // --- Jobs ---
  // A job is new, or its record changed. Before OnJobRuns and OnJobLeft.
  virtual void OnJobChanged(const jobs::Job& /*job*/) {}
  // It has a keeper, and neither waits nor has ended; with each change of it. The guard knows it.
  virtual void OnJobRuns(const jobs::Job& /*job*/) {}
  // A job that ran is not watched any more. In the reverse order; the guard still knows it.
  virtual void OnJobLeft(base::JobId /*job*/, Left /*why*/) {}
  // It is not gpuman's any more: removed, forgotten or let go. Before OnJobLeft.
  virtual void OnJobForgotten(base::JobId /*job*/) {}
  // A keeper's record is about to be written into the job's, which may be completed.
  virtual void OnRecorded(jobs::Job& /*job*/, const keeper::JournalRecord& /*record*/) {}
  // A run has ended, and its account is about to be stored.
  virtual void OnRunEnded(const jobs::Job& /*job*/, const jobs::RunAccount& /*run*/) {}
  // What the processes of jobs are started with.
  virtual void SetUpLaunch(jobs::LaunchSettings& /*settings*/) const {}

  // --- What is shown; each module adds what it knows ---
  virtual void Show(const jobs::Job& /*job*/, api::JobView& /*view*/) const {}
  virtual void Show(const guard::GpuStatus& /*status*/, api::GpuView& /*view*/) const {}
  // Devices and jobs are in the snapshot already. No driver call is made for it.
  virtual void AddMetrics(metrics::Snapshot& /*snapshot*/) {}
};

}  // namespace gpuman::daemon
