// Devices: their settings as they are and as they are wanted, changes of them, profiles.
#include "api/device_json.h"
#include "daemon/device/tasks.h"
#include "daemon/routes/routes.h"

namespace gpuman::daemon {
namespace {

// None named: all of them.
base::Result<std::vector<gpu::Gpu>> Chosen(Service& service, const std::vector<std::string>& references) {
  const auto& inventory = service.core().whole_gpus();
  if (inventory.gpus.empty())
    return base::Fail(base::ErrorCode::kUnavailable,
                      inventory.problem.empty() ? std::string("there are no GPUs") : inventory.problem);
  if (references.empty()) return inventory.gpus;
  return gpu::SelectAll(inventory.gpus, references);
}

void ShowSettings(Service& service, const http::ExchangePtr& exchange) {
  std::vector<std::string> references;
  if (const auto one = exchange->request().Query("gpu")) references.emplace_back(*one);
  auto gpus = Chosen(service, references);
  if (!gpus) return SendError(exchange, gpus.error());
  service.devices().Query(std::move(*gpus), [exchange](const std::vector<DeviceState>& states) {
    api::DeviceList list;
    for (const auto& state : states) list.devices.push_back(ViewOf(state));
    SendJson(exchange, api::Encode(list));
  });
}

void ShowProfiles(Service& service, const http::ExchangePtr& exchange) {
  api::DeviceProfileList list;
  for (const auto& profile : service.devices().Profiles()) list.profiles.push_back(ViewOf(profile));
  SendJson(exchange, api::Encode(list));
}

void Run(Service& service, const http::ExchangePtr& exchange, DeviceTask task) {
  const bool dry_run = task.dry_run;
  service.devices().Run(
      std::move(task), [&service, exchange, dry_run](const base::Result<DeviceReport>& done) {
        if (!done) return SendError(exchange, done.error());
        if (!dry_run) service.TellDeviceChange(*done, service.core().NameOf(exchange->request().peer.uid));
        SendJson(exchange, api::Encode(ViewOf(*done)));
      });
}

// What would be set is for everybody to see.
bool MayRun(Service& service, const http::ExchangePtr& exchange, bool dry_run) {
  auto may = service.core().Check(exchange->request().peer, dry_run ? Act::kSee : Act::kManage);
  if (!may) SendError(exchange, may.error());
  return may.has_value();
}

void Change(Service& service, const http::ExchangePtr& exchange) {
  const auto asked = api::Decode<api::DeviceChange>(exchange->request().body);
  if (!asked) return SendError(exchange, asked.error());
  if (!MayRun(service, exchange, asked->dry_run)) return;
  auto gpus = Chosen(service, asked->gpus);
  if (!gpus) return SendError(exchange, gpus.error());
  auto task = TaskOf(*asked, std::move(*gpus), service.core().clock().Wall());
  if (!task) return SendError(exchange, task.error());
  Run(service, exchange, std::move(*task));
}

void ChangeProfile(Service& service, const http::ExchangePtr& exchange) {
  const auto asked = api::Decode<api::DeviceProfileChange>(exchange->request().body);
  if (!asked) return SendError(exchange, asked.error());
  if (!MayRun(service, exchange, asked->dry_run)) return;
  auto gpus = Chosen(service, asked->gpus);
  if (!gpus) return SendError(exchange, gpus.error());
  const auto& devices = service.devices();
  if (asked->name)
    if (auto known = devices.CheckProfile(*asked->name); !known) return SendError(exchange, known.error());
  const auto until =
      asked->duration ? std::optional(service.core().clock().Wall() + *asked->duration) : std::nullopt;
  const auto* const profile = asked->name ? devices.FindProfile(*asked->name) : nullptr;
  Run(service, exchange, TaskOf(profile, until, std::move(*gpus), asked->dry_run));
}

// Once the GPUs are known, for those who may see them.
http::RouteHandler For(Service& service, void (*handle)(Service&, const http::ExchangePtr&)) {
  return [&service, handle](const http::ExchangePtr& exchange, const http::PathParameters&) {
    if (auto may = service.core().Check(exchange->request().peer, Act::kSee); !may)
      return SendError(exchange, may.error());
    service.core().WhenReady([&service, handle, exchange] { handle(service, exchange); });
  };
}

}  // namespace

void AddDeviceRoutes(http::Router& router, Service& service) {
  router.Add("GET", "/v1/devices", For(service, ShowSettings));
  router.Add("GET", "/v1/devices/profiles", For(service, ShowProfiles));
  router.Add("POST", "/v1/devices/settings", For(service, Change));
  router.Add("POST", "/v1/devices/profile", For(service, ChangeProfile));
}

}  // namespace gpuman::daemon
