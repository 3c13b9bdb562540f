// Health: what is wrong with the GPUs, and an operator's word that it is known.
#include "api/json.h"
#include "daemon/core/requests.h"
#include "daemon/health/module.h"
#include "daemon/health/views.h"

namespace gpuman::daemon {
namespace {

void ShowHealth(HealthModule& health, const http::ExchangePtr& exchange) {
  SendJson(exchange, api::Encode(HealthReportOf(health.monitors(), health.core().guard().Statuses())));
}

// A GPU of the driver's list, or one that is missing from it.
base::Result<std::string> Choose(HealthModule& health, const std::string& reference) {
  for (const auto& uuid : health.monitors().Missing())
    if (uuid == reference) return uuid;
  GPUMAN_ASSIGN(const auto gpu, gpu::Select(health.core().whole_gpus().gpus, reference));
  return gpu.uuid;
}

void Acknowledge(HealthModule& health, const http::ExchangePtr& exchange) {
  const auto& request = exchange->request();
  if (auto may = health.core().Check(request.peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  const auto asked = api::Decode<api::HealthAcknowledgement>(request.body);
  if (!asked) return SendError(exchange, asked.error());
  const auto uuid = Choose(health, asked->gpu);
  if (!uuid) return SendError(exchange, uuid.error());
  const auto done =
      health.monitors().Acknowledge(*uuid, asked->code.value_or(""), UserName(request.peer.uid));
  if (!done) return SendError(exchange, done.error());
  ShowHealth(health, exchange);
}

}  // namespace

void HealthModule::AddRoutes(http::Router& router) {
  router.Add("GET", "/v1/health", WhenReady(core_, Act::kSee, [this](const http::ExchangePtr& exchange) {
               ShowHealth(*this, exchange);
             }));
  router.Add("POST", "/v1/health/acknowledge",
             [this](const http::ExchangePtr& exchange, const http::PathParameters&) {
               core_.WhenReady([this, exchange] { Acknowledge(*this, exchange); });
             });
}

}  // namespace gpuman::daemon
