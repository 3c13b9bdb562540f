// Devices: their settings as they are and as they are wanted, changes of them, profiles.
#include "api/device_json.h"
#include "daemon/core/requests.h"
#include "daemon/device/module.h"
#include "daemon/device/tasks.h"

namespace gpuman::daemon {
namespace {

// None named: all of them.
base::Result<std::vector<gpu::Gpu>> Chosen(DeviceModule& device, const std::vector<std::string>& references) {
  const auto& inventory = device.core().whole_gpus();
  if (inventory.gpus.empty())
    return base::Fail(base::ErrorCode::kUnavailable,
                      inventory.problem.empty() ? std::string("there are no GPUs") : inventory.problem);
  if (references.empty()) return inventory.gpus;
  return gpu::SelectAll(inventory.gpus, references);
}

void ShowSettings(DeviceModule& device, const http::ExchangePtr& exchange) {
  std::vector<std::string> references;
  if (const auto one = exchange->request().Query("gpu")) references.emplace_back(*one);
  auto gpus = Chosen(device, references);
  if (!gpus) return SendError(exchange, gpus.error());
  device.devices().Query(std::move(*gpus), [exchange](const std::vector<DeviceState>& states) {
    api::DeviceList list;
    for (const auto& state : states) list.devices.push_back(ViewOf(state));
    SendJson(exchange, api::Encode(list));
  });
}

void ShowProfiles(DeviceModule& device, const http::ExchangePtr& exchange) {
  api::DeviceProfileList list;
  for (const auto& profile : device.devices().Profiles()) list.profiles.push_back(ViewOf(profile));
  SendJson(exchange, api::Encode(list));
}

void Run(DeviceModule& device, const http::ExchangePtr& exchange, DeviceTask task) {
  const bool dry_run = task.dry_run;
  device.devices().Run(std::move(task), [&device, exchange, dry_run](const base::Result<DeviceReport>& done) {
    if (!done) return SendError(exchange, done.error());
    if (!dry_run) device.TellChange(*done, device.core().NameOf(exchange->request().peer.uid));
    SendJson(exchange, api::Encode(ViewOf(*done)));
  });
}

// What would be set is for everybody to see.
bool MayRun(DeviceModule& device, const http::ExchangePtr& exchange, bool dry_run) {
  auto may = device.core().Check(exchange->request().peer, dry_run ? Act::kSee : Act::kManage);
  if (!may) SendError(exchange, may.error());
  return may.has_value();
}

void Change(DeviceModule& device, const http::ExchangePtr& exchange) {
  const auto asked = api::Decode<api::DeviceChange>(exchange->request().body);
  if (!asked) return SendError(exchange, asked.error());
  if (!MayRun(device, exchange, asked->dry_run)) return;
  auto gpus = Chosen(device, asked->gpus);
  if (!gpus) return SendError(exchange, gpus.error());
  auto task = TaskOf(*asked, std::move(*gpus), device.core().clock().Wall());
  if (!task) return SendError(exchange, task.error());
  Run(device, exchange, std::move(*task));
}

void ChangeProfile(DeviceModule& device, const http::ExchangePtr& exchange) {
  const auto asked = api::Decode<api::DeviceProfileChange>(exchange->request().body);
  if (!asked) return SendError(exchange, asked.error());
  if (!MayRun(device, exchange, asked->dry_run)) return;
  auto gpus = Chosen(device, asked->gpus);
  if (!gpus) return SendError(exchange, gpus.error());
  const auto& devices = device.devices();
  if (asked->name)
    if (auto known = devices.CheckProfile(*asked->name); !known) return SendError(exchange, known.error());
  const auto until =
      asked->duration ? std::optional(device.core().clock().Wall() + *asked->duration) : std::nullopt;
  const auto* const profile = asked->name ? devices.FindProfile(*asked->name) : nullptr;
  Run(device, exchange, TaskOf(profile, until, std::move(*gpus), asked->dry_run));
}

}  // namespace

void DeviceModule::AddRoutes(http::Router& router) {
  const auto seen = [this](void (*handle)(DeviceModule&, const http::ExchangePtr&)) {
    return WhenReady(core_, Act::kSee,
                     [this, handle](const http::ExchangePtr& exchange) { handle(*this, exchange); });
  };
  router.Add("GET", "/v1/devices", seen(ShowSettings));
  router.Add("GET", "/v1/devices/profiles", seen(ShowProfiles));
  router.Add("POST", "/v1/devices/settings", seen(Change));
  router.Add("POST", "/v1/devices/profile", seen(ChangeProfile));
}

}  // namespace gpuman::daemon
