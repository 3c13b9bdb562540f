// The queue as a capability of the daemon: jobs wait, and start when the dispatcher has GPUs for them. The
// module also keeps the administrators' settings of the queue, and adds up statistics.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/queue/dispatcher.h"
#include "daemon/queue/memory_choice.h"
#include "daemon/queue/queue_admin_settings.h"
#include "daemon/queue/queue_admin_settings_writer.h"
#include "daemon/queue/stats.h"
#include "daemon/queue/unfit_gpu.h"

namespace gpuman::daemon {

class HealthModule;
class MigModule;
class NotifyModule;
class SuspensionModule;

class QueueModule final : public Module {
 public:
  QueueModule(Core& core, NotifyModule& notify, SuspensionModule& suspension, MigModule& mig,
              HealthModule& health);

  Core& core() { return core_; }
  Dispatcher& dispatcher() { return *dispatcher_; }
  const Dispatcher& dispatcher() const { return *dispatcher_; }
  const QueueAdminSettings& admin_settings() const { return admin_settings_; }
  // What the choice of `--memory auto` is based on. The result refers to parts of this module.
  MemoryChoiceContext memory_choice_context() { return {past_runs_, dispatcher_->updater()}; }
  // Makes administrators' changes of the queue, one after the other.
  QueueAdminSettingsWriter& writer() { return writer_; }
  api::QueueInfo Info();
  // Whether the GPU is drained or unhealthy, so that the queue starts nothing there.
  bool IsUnfit(const gpu::Gpu& gpu) const;
  // Notes about these GPUs for a user who puts a job there beside the queue. `gpus`: UUIDs; empty: all GPUs
  // that a program gets if it names none.
  std::vector<std::string> NotesOn(const std::vector<std::string>& gpus, GpuSelectionReason choice) const;
  spec::JobState StateOf(const jobs::Job& job) const;
  // The view of the job, with what the queue says about it. It costs a view of the queue
  // (Dispatcher::IsViewCheap).
  api::JobView View(const jobs::Job& job);
  // Calls `done` with the job as the queue sees it: at once, or when there is a view of the queue. The job
  // may be gone by then. `in_full`: also why a waiting job is ahead of others, and who is in its way.
  using Viewed = std::function<void(base::Result<api::JobView>, const queue::Blockers&)>;
  void WithView(const jobs::Job& job, bool in_full, const Viewed& done);
  // Adds the accounts of runs that ended in [since, until), and the jobs that have not ended, to `stats`. The
  // work counts for `who`, and stops once `*gone` is true.
  void AddUp(Stats stats, base::WallTime since, base::WallTime until, base::Party who,
             std::shared_ptr<bool> gone, std::function<void(base::Result<api::StatsView>)> done);

  void Restore(jobs::StoreContents& contents) override;
  void AddRoutes(http::Router& router) override;
  bool IsReady() const override { return knows_past_runs_; }
  void Reconfigure() override;
  void OnReady() override;
  void OnTick() override;
  bool Stop() override;
  void OnInventory() override;
  void AfterSamples(const std::set<std::string>& gpus) override;
  void OnJobChanged(const jobs::Job& job) override;
  void OnJobForgotten(base::JobId job) override;
  void OnRecorded(jobs::Job& job, const keeper::JournalRecord& record) override;
  void OnRunEnded(const jobs::Job& job, jobs::RunAccount& run) override;
  void AddMetrics(metrics::Snapshot& snapshot) override;

 private:
  DispatcherCallbacks Callbacks();
  void TellMemoryChosen(const jobs::Job& job, const std::string& note);
  // Who drained the GPU, or the GPU that it is a part of; empty: not known; nullopt: it is not drained.
  std::optional<std::string> DrainedBy(const gpu::Gpu& gpu) const;
  api::JobView ViewInQueue(const jobs::Job& job) const;  // has no value that only a view of the queue shows
  // Tells the dispatcher what the settings and the configuration say.
  void ApplyAdminSettings();
  void ChargePast();
  void ForgetOldAccounts();
  void BeginPastRuns();
  void ReadPastRuns(jobs::Store::RunCursor from);
  void AddAdminSettingsRoutes(http::Router& router);  // routes_admin_settings.cc
  void AddListRoutes(http::Router& router);           // routes_list.cc
  void AddMetricsOf(metrics::Device& device);

  Core& core_;
  NotifyModule& notify_;
  SuspensionModule& suspension_;
  HealthModule& health_;
  std::unique_ptr<Dispatcher> dispatcher_;
  QueueAdminSettings admin_settings_;
  QueueAdminSettingsWriter writer_;
  queue::PastRuns past_runs_;
  bool knows_past_runs_ = false;  // the runs of earlier daemons have been read
  const base::WallTime began_;
  base::MonoTime forget_at_{};
};

}  // namespace gpuman::daemon
