// MIG: what the GPUs are split into, plans, changes.
#include "api/json.h"
#include "daemon/core/requests.h"
#include "daemon/mig/module.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

void ShowMig(MigModule& mig, const http::ExchangePtr& exchange) {
  const auto& inventory = mig.core().whole_gpus();
  auto gpus = inventory.gpus;
  if (const auto wanted = exchange->request().Query("gpu")) {
    const auto gpu = gpu::Select(inventory.gpus, *wanted);
    if (!gpu) return SendError(exchange, gpu.error());
    gpus = {*gpu};
  }
  mig.manager().Read(std::move(gpus), [&mig, exchange](const std::vector<MigReading>& readings) {
    api::MigReport report;
    for (const auto& reading : readings)
      report.gpus.push_back(
          MigGpuOf(reading, mig.manager().WantedOf(reading.gpu.uuid), mig.core().inventory(), mig.Own()));
    SendJson(exchange, api::Encode(report));
  });
}

base::Result<std::vector<MigOrder>> ReadOrders(MigModule& mig, const http::ExchangePtr& exchange,
                                               bool& forget) {
  GPUMAN_ASSIGN(const auto request, api::Decode<api::MigRequest>(exchange->request().body));
  forget = request.forget;
  return OrdersOf(request, mig.core().whole_gpus());
}

void Plan(MigModule& mig, const http::ExchangePtr& exchange) {
  bool forget = false;
  auto orders = ReadOrders(mig, exchange, forget);
  if (!orders) return SendError(exchange, orders.error());
  mig.manager().Plan(std::move(*orders), [&mig, exchange](base::Result<std::vector<MigOutcome>> outcomes) {
    if (!outcomes) return SendError(exchange, outcomes.error());
    if (const auto why = WhyNothing(*outcomes)) return SendError(exchange, *why);
    SendJson(exchange, api::Encode(MigChangesOf(*outcomes, mig.Own())));
  });
}

void Apply(MigModule& mig, const http::ExchangePtr& exchange) {
  bool forget = false;
  auto orders = ReadOrders(mig, exchange, forget);
  if (!orders) return SendError(exchange, orders.error());
  auto answer = [&mig, exchange](base::Result<std::vector<MigOutcome>> outcomes) {
    if (!outcomes) return SendError(exchange, outcomes.error());
    if (const auto why = WhyNothing(*outcomes)) return SendError(exchange, *why);
    // Whoever asks for an instance next finds it.
    auto json = api::Encode(MigChangesOf(*outcomes, mig.Own()));
    mig.WhenDivided(DivisionsAfter(*outcomes),
                    [exchange, json = std::move(json)] { SendJson(exchange, json); });
  };
  // What gpuman itself has there would be in the way.
  mig.suspension().WhenIdleMoversLeft(
      [&mig, orders = std::move(*orders), forget, answer = std::move(answer)]() mutable {
        mig.manager().Apply(std::move(orders), mig.Holders(), forget, std::move(answer));
      });
}

}  // namespace

void MigModule::AddRoutes(http::Router& router) {
  const auto those_who = [this](Act act, void (*handle)(MigModule&, const http::ExchangePtr&)) {
    return WhenReady(core_, act,
                     [this, handle](const http::ExchangePtr& exchange) { handle(*this, exchange); });
  };
  router.Add("GET", "/v1/mig", those_who(Act::kSee, ShowMig));
  router.Add("POST", "/v1/mig/plan", those_who(Act::kSee, Plan));
  router.Add("POST", "/v1/mig/apply", those_who(Act::kManage, Apply));
}

}  // namespace gpuman::daemon
