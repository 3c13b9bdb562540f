// Limits of jobs that NVIDIA's driver itself holds, as a capability of the daemon. Drivers from 615 on hold
// limits of GPU memory for a cgroup v2, so a program that the shim cannot reach is refused memory there, in
// place of being ended by the guard. What is to be set is decided by driver_limits.h.
//
// Nothing is set without root, and nothing is asked of a driver that lacks the functions. A limit stays in
// the driver when the daemon ends; the next daemon reads it before it sets one.
#pragma once

#include <set>
#include <string>

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/driver_limits/driver_limits.h"
#include "driver/nvml_executor.h"

namespace gpuman::daemon {

class DriverLimitsModule final : public Module {
 public:
  explicit DriverLimitsModule(Core& core);

  void Reconfigure() override { FollowAll(); }
  bool Stop() override;
  void OnInventory() override;
  void OnJobRuns(const jobs::Job& job) override { Follow(job); }
  void OnJobLeft(base::JobId job, UnwatchReason why) override;
  void Show(const jobs::Job& job, api::JobView& view) const override;

 private:
  enum class DriverSupport { kUnknown, kBeingAsked, kHasLimits, kHasNone };
  struct Attempt;

  void AskDriver();
  void FollowAll();
  void Follow(const jobs::Job& job);
  void CarryOut(const DriverLimitOrder& order);
  void OnAttempt(const DriverLimitOrder& order, const Attempt& attempt);
  void TellRefused(const DriverLimitOrder& order, const std::string& why);

  Core& core_;
  const std::string tree_;  // where cgroups of version 2 begin; empty: there are none
  driver::NvmlExecutor executor_;
  DriverSupport driver_ = DriverSupport::kUnknown;
  DriverLimits limits_;
  std::set<std::string> without_;  // GPUs that have no such limits
  std::set<base::JobId> told_;     // jobs of which a refusal was told
};

}  // namespace gpuman::daemon
