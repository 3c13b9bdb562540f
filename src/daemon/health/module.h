// The health of GPUs as a capability of the daemon: keeps and tells the faults of GPUs, and makes jobs leave
// a GPU that is unhealthy.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/core/signal.h"
#include "daemon/health/monitors.h"

namespace gpuman::daemon {

class SuspensionModule;

class HealthModule final : public Module {
 public:
  HealthModule(Core& core, SuspensionModule& suspension);

  Core& core() { return core_; }
  HealthMonitors& monitors() { return monitors_; }
  // An instance of an unhealthy GPU is unhealthy, too.
  bool IsUnhealthy(const gpu::Gpu& gpu) const;
  // Why the GPU is unhealthy; nullopt: it is not.
  std::optional<std::string> WhyUnhealthy(const gpu::Gpu& gpu) const;
  // The known faults of a GPU have changed.
  Signal<> on_change;
  // Says whether an administrator keeps new jobs from the GPU. Registered once.
  void SetIsDrained(std::function<bool(const std::string& uuid)> is_drained) {
    is_drained_ = std::move(is_drained);
  }

  void Restore(jobs::StoreContents& contents) override;
  void AddRoutes(http::Router& router) override;
  void Reconfigure() override;
  void OnInventory() override;
  void OnSample(const gpu::GpuSample& sample) override;
  void Show(const guard::GpuStatus& status, api::GpuView& view) const override;
  void AddMetrics(metrics::Snapshot& snapshot) override;

 private:
  void Keep(jobs::SettingRows entries);
  void OnNotice(const std::string& gpu, const health::HealthNotice& notice);
  void ReadKernelLog();
  void Tell(const std::string& gpu, const health::HealthNotice& notice, const std::string& text);
  // The jobs on the GPU and on its instances. `status`: the guard's status of the GPU.
  std::vector<base::JobId> JobsOn(const guard::GpuStatus& status) const;
  void LeaveUnhealthy(const guard::GpuStatus& status, const std::string& why);
  void Leave(base::JobId job, const guard::GpuStatus& status, const std::string& why);
  std::optional<std::string> HealthyBeside(const gpu::Gpu& gpu) const;

  Core& core_;
  SuspensionModule& suspension_;
  HealthMonitors monitors_;
  std::function<bool(const std::string& uuid)> is_drained_;
  bool kernel_log_read_ = false;
};

}  // namespace gpuman::daemon
