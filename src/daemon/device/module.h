// Settings of GPUs as a capability of the daemon: carries out changes of settings, keeps the wanted settings
// in force, and gives jobs the device profile that they ask for.
#pragma once

#include <set>
#include <string>

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/device/device_profile_assigner.h"
#include "daemon/device/device_settings_manager.h"
#include "driver/nvml_executor.h"

namespace gpuman::daemon {

class SuspensionModule;

class DeviceModule final : public Module {
 public:
  DeviceModule(Core& core, SuspensionModule& suspension);

  Core& core() { return core_; }
  DeviceSettingsManager& devices() { return devices_; }
  // Tells an event for each GPU that the report says was changed; `by`: the user who changed it.
  void TellChange(const DeviceTaskResult& report, const std::string& by);

  void Restore(jobs::StoreContents& contents) override;
  void AddRoutes(http::Router& router) override;
  void Reconfigure() override;
  void OnTick() override;
  bool Stop() override;
  void OnInventory() override;
  void OnSample(const gpu::GpuSample& sample) override;
  void OnJobLeft(base::JobId job, UnwatchReason why) override;
  void Show(const jobs::Job& job, api::JobView& view) const override;

 private:
  DeviceCallbacks Callbacks();
  void TellProfileRefused(base::JobId job, const std::string& gpu, const std::string& why);
  std::string UsersOf(const std::string& gpu) const;
  void FollowJobProfiles();
  void TellProfileNotGiven(base::JobId id, const std::string& why);

  Core& core_;
  SuspensionModule& suspension_;
  driver::NvmlExecutor executor_;
  DeviceSettingsManager devices_;
  DeviceProfileAssigner job_profiles_;
  std::set<std::string> away_;  // GPUs that the driver could not reach
};

}  // namespace gpuman::daemon
