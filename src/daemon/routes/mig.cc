// MIG: what the GPUs are split into, plans, changes.
#include "api/json.h"
#include "daemon/mig/views.h"
#include "daemon/routes/routes.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

void ShowMig(Service& service, const http::ExchangePtr& exchange) {
  const auto& inventory = service.core().whole_gpus();
  auto gpus = inventory.gpus;
  if (const auto wanted = exchange->request().Query("gpu")) {
    const auto gpu = gpu::Select(inventory.gpus, *wanted);
    if (!gpu) return SendError(exchange, gpu.error());
    gpus = {*gpu};
  }
  service.mig().Read(std::move(gpus), [&service, exchange](const std::vector<MigReading>& readings) {
    api::MigReport report;
    for (const auto& reading : readings)
      report.gpus.push_back(MigGpuOf(reading, service.mig().WantedOf(reading.gpu.uuid),
                                     service.core().inventory(), service.OwnProcessesNow()));
    SendJson(exchange, api::Encode(report));
  });
}

base::Result<std::vector<MigOrder>> ReadOrders(Service& service, const http::ExchangePtr& exchange,
                                               bool& forget) {
  GPUMAN_ASSIGN(const auto request, api::Decode<api::MigRequest>(exchange->request().body));
  forget = request.forget;
  return OrdersOf(request, service.core().whole_gpus());
}

void Plan(Service& service, const http::ExchangePtr& exchange) {
  bool forget = false;
  auto orders = ReadOrders(service, exchange, forget);
  if (!orders) return SendError(exchange, orders.error());
  service.mig().Plan(std::move(*orders),
                     [&service, exchange](base::Result<std::vector<MigOutcome>> outcomes) {
                       if (!outcomes) return SendError(exchange, outcomes.error());
                       if (const auto why = WhyNothing(*outcomes)) return SendError(exchange, *why);
                       SendJson(exchange, api::Encode(MigChangesOf(*outcomes, service.OwnProcessesNow())));
                     });
}

void Apply(Service& service, const http::ExchangePtr& exchange) {
  bool forget = false;
  auto orders = ReadOrders(service, exchange, forget);
  if (!orders) return SendError(exchange, orders.error());
  auto answer = [&service, exchange](base::Result<std::vector<MigOutcome>> outcomes) {
    if (!outcomes) return SendError(exchange, outcomes.error());
    if (const auto why = WhyNothing(*outcomes)) return SendError(exchange, *why);
    // Whoever asks for an instance next finds it.
    auto json = api::Encode(MigChangesOf(*outcomes, service.OwnProcessesNow()));
    service.WhenDivided(DivisionsAfter(*outcomes),
                        [exchange, json = std::move(json)] { SendJson(exchange, json); });
  };
  // What gpuman itself has there would be in the way.
  service.suspension().WhenIdleMoversLeft(
      [&service, orders = std::move(*orders), forget, answer = std::move(answer)]() mutable {
        service.mig().Apply(std::move(orders), service.MigHoldersNow(), forget, std::move(answer));
      });
}

http::RouteHandler Guarded(Service& service, Act act, void (*handle)(Service&, const http::ExchangePtr&)) {
  return [&service, act, handle](const http::ExchangePtr& exchange, const http::PathParameters&) {
    if (auto may = service.core().Check(exchange->request().peer, act); !may)
      return SendError(exchange, may.error());
    service.core().WhenReady([=, &service] { handle(service, exchange); });
  };
}

}  // namespace

void AddMigRoutes(http::Router& router, Service& service) {
  router.Add("GET", "/v1/mig", Guarded(service, Act::kSee, ShowMig));
  router.Add("POST", "/v1/mig/plan", Guarded(service, Act::kSee, Plan));
  router.Add("POST", "/v1/mig/apply", Guarded(service, Act::kManage, Apply));
}

}  // namespace gpuman::daemon
