// Sharing as a capability of the daemon: jobs that do not fit on a GPU together take turns there, and a job
// that does not give up its place is taken off or ended.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/sharing/share_controller.h"

namespace gpuman::daemon {

class ShimsModule;
class SuspensionModule;

// The reason that is recorded when a job does not give up its place, and for the measures against it.
inline constexpr const char* kNotYielded = "share_not_yielded";

class SharingModule final : public Module {
 public:
  SharingModule(Core& core, ShimsModule& shims, SuspensionModule& suspension);

  Core& core() { return core_; }
  // nullptr: there is no shim.
  const ShareController* controller() const { return controller_.get(); }
  const share::SchedulerSettings& settings() const;
  // Call only where there is a controller. The settings hold until the next start or reload.
  void SetSettings(share::SchedulerSettings settings);

  // How jobs have their GPUs may have changed: ShareController::Turns.
  Signal<> on_turns;

  // Jobs that wait for their turn, or for room on a shared GPU.
  std::set<base::JobId> Waiting() const;

  // nullopt: the job waits for nothing.
  std::optional<share::TenantWait> WaitOf(base::JobId job) const;

  void AddRoutes(http::Router& router) override;
  void Reconfigure() override;
  bool Stop() override;
  void AfterSamples(const std::set<std::string>& gpus) override;
  void OnJobRuns(const jobs::Job& job) override;
  void OnJobLeft(base::JobId job, UnwatchReason why) override;
  void SetUpLaunch(jobs::LaunchSettings& settings) const override;
  void Show(const jobs::Job& job, api::JobView& view) const override;
  void AddMetrics(metrics::Snapshot& snapshot) override;

 private:
  void Begin(ShimChannel& channel, JobQuiescer& quiescer);
  void Reconcile();
  void TellUnchanged();
  bool TakesTurns(base::JobId job) const;

  // --- module_escalate.cc: a job does not give up its place ---
  void Escalate(const share::action::Escalate& order);
  void Preempt(base::JobId job, const share::action::Escalate& order);
  void End(base::JobId job, const std::string& detail);
  void EndStoppedAgain();

  Core& core_;
  SuspensionModule& suspension_;
  std::unique_ptr<ShareController> controller_;
  // Jobs that are being taken off by force: the deadline after which a job is ended if a process of it is
  // stopped again; and the reason.
  std::map<base::JobId, std::pair<base::MonoTime, std::string>> forced_off_;
};

}  // namespace gpuman::daemon
