// Health: what is wrong with the GPUs, and an operator's word that it is known.
#include "api/json.h"
#include "daemon/health/views.h"
#include "daemon/routes/routes.h"

namespace gpuman::daemon {
namespace {

void ShowHealth(Service& service, const http::ExchangePtr& exchange) {
  SendJson(exchange, api::Encode(HealthReportOf(service.health(), service.core().guard().Statuses())));
}

// A GPU of the driver's list, or one that is missing from it.
base::Result<std::string> Choose(Service& service, const std::string& reference) {
  for (const auto& uuid : service.health().Missing())
    if (uuid == reference) return uuid;
  GPUMAN_ASSIGN(const auto gpu, gpu::Select(service.core().whole_gpus().gpus, reference));
  return gpu.uuid;
}

void Acknowledge(Service& service, const http::ExchangePtr& exchange) {
  const auto& request = exchange->request();
  if (auto may = service.core().Check(request.peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  const auto asked = api::Decode<api::HealthAcknowledgement>(request.body);
  if (!asked) return SendError(exchange, asked.error());
  const auto uuid = Choose(service, asked->gpu);
  if (!uuid) return SendError(exchange, uuid.error());
  const auto done = service.health().Acknowledge(*uuid, asked->code.value_or(""), UserName(request.peer.uid));
  if (!done) return SendError(exchange, done.error());
  ShowHealth(service, exchange);
}

}  // namespace

void AddHealthRoutes(http::Router& router, Service& service) {
  router.Add("GET", "/v1/health", [&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
    if (auto may = service.core().Check(exchange->request().peer, Act::kSee); !may)
      return SendError(exchange, may.error());
    service.core().WhenReady([=, &service] { ShowHealth(service, exchange); });
  });
  router.Add("POST", "/v1/health/acknowledge",
             [&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
               service.core().WhenReady([=, &service] { Acknowledge(service, exchange); });
             });
}

}  // namespace gpuman::daemon
