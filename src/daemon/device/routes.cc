// Devices: their present and wanted settings, changes of settings, profiles.
#include "daemon/core/requests.h"
#include "daemon/device/module.h"
#include "daemon/device/tasks.h"

namespace gpuman::daemon {
namespace {

// All GPUs if the caller names none.
base::Result<std::vector<gpu::Gpu>> Chosen(DeviceModule& device, const std::vector<std::string>& references) {
  const auto& inventory = device.core().whole_gpus();
  if (inventory.gpus.empty())
    return base::Fail(base::ErrorCode::kUnavailable,
                      inventory.problem.empty() ? std::string("there are no GPUs") : inventory.problem);
  if (references.empty()) return inventory.gpus;
  return gpu::SelectAll(inventory.gpus, references);
}

base::Result<> ShowSettings(DeviceModule& device, const Call<api::NoBody, api::DeviceList>& call) {
  std::vector<std::string> references;
  if (const auto one = call.request().Query("gpu")) references.emplace_back(*one);
  GPUMAN_ASSIGN(auto gpus, Chosen(device, references));
  device.devices().Query(std::move(gpus), [call](const std::vector<DeviceSettingsState>& states) {
    api::DeviceList list;
    for (const auto& state : states) list.devices.push_back(ViewOf(state));
    call.Send(list);
  });
  return {};
}

api::DeviceProfileList Profiles(DeviceModule& device) {
  api::DeviceProfileList list;
  for (const auto& profile : device.devices().Profiles()) list.profiles.push_back(ViewOf(profile));
  return list;
}

// Everybody may ask for a dry run.
base::Result<> MayRun(DeviceModule& device, const http::Peer& peer, bool dry_run) {
  return device.core().Check(peer, dry_run ? api::Right::kSee : api::Right::kManage);
}

template <typename Body>
void RunTask(DeviceModule& device, const Call<Body, api::DeviceSettingsResult>& call, DeviceTask&& task) {
  const bool dry_run = task.dry_run;
  device.devices().Run(std::move(task), call.After([&device, call, dry_run](const DeviceTaskResult& done) {
    if (!dry_run) device.TellChange(done, device.core().NameOf(call.peer().uid));
    return ViewOf(done);
  }));
}

base::Result<> Change(DeviceModule& device,
                      const Call<api::DeviceSettingsRequest, api::DeviceSettingsResult>& call) {
  const api::DeviceSettingsRequest& asked = call.body();
  GPUMAN_TRY(MayRun(device, call.peer(), asked.dry_run));
  GPUMAN_ASSIGN(auto gpus, Chosen(device, asked.gpus));
  GPUMAN_ASSIGN(auto task, TaskOf(asked, std::move(gpus), device.core().clock().Wall()));
  RunTask(device, call, std::move(task));
  return {};
}

base::Result<> ChangeProfile(DeviceModule& device,
                             const Call<api::DeviceProfileRequest, api::DeviceSettingsResult>& call) {
  const api::DeviceProfileRequest& asked = call.body();
  GPUMAN_TRY(MayRun(device, call.peer(), asked.dry_run));
  GPUMAN_ASSIGN(auto gpus, Chosen(device, asked.gpus));
  const auto& devices = device.devices();
  if (asked.name) GPUMAN_TRY(devices.CheckProfile(*asked.name));
  const auto until =
      asked.duration ? std::optional(device.core().clock().Wall() + *asked.duration) : std::nullopt;
  const auto* const profile = asked.name ? devices.FindProfile(*asked.name) : nullptr;
  RunTask(device, call, TaskOf(profile, until, std::move(gpus), asked.dry_run));
  return {};
}

}  // namespace

void DeviceModule::AddRoutes(http::Router& router) {
  const auto serve = RouteRegistrar(*this, router);
  serve(api::routes::kDevices, ShowSettings);
  serve(api::routes::kDeviceProfiles, Profiles);
  serve(api::routes::kChangeDevices, Change);
  serve(api::routes::kChangeDeviceProfile, ChangeProfile);
}

}  // namespace gpuman::daemon
