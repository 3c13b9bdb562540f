// MIG: how the GPUs are split, plans, changes.
#include "api/json.h"
#include "daemon/core/requests.h"
#include "daemon/mig/module.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

base::Result<> ShowMig(MigModule& mig, const Call<api::NoBody, api::MigReport>& call) {
  const auto& inventory = mig.core().whole_gpus();
  auto gpus = inventory.gpus;
  if (const auto wanted = call.request().Query("gpu")) {
    GPUMAN_ASSIGN(const auto gpu, gpu::Select(inventory.gpus, *wanted));
    gpus = {gpu};
  }
  mig.manager().Read(
      std::move(gpus),
      [&mig, call](const std::vector<MigReading>& readings) {
        api::MigReport report;
        for (const auto& reading : readings)
          report.gpus.push_back(
              MigGpuOf(reading, mig.manager().WantedOf(reading.gpu.uuid), mig.core().inventory(), mig.Own()));
        call.Send(report);
      },
      [exchange = call.exchange()] { return exchange->Gone(); });
  return {};
}

using MigCall = Call<api::MigRequest, api::MigChanges>;

base::Result<> Plan(MigModule& mig, const MigCall& call) {
  GPUMAN_ASSIGN(auto orders, OrdersOf(call.body(), mig.core().whole_gpus()));
  mig.manager().Plan(
      std::move(orders),
      call.After([&mig](const std::vector<MigOutcome>& outcomes) -> base::Result<api::MigChanges> {
        if (const auto why = WhyNothing(outcomes)) return base::Fail(*why);
        return MigChangesOf(outcomes, mig.Own());
      }),
      [exchange = call.exchange()] { return exchange->Gone(); });
  return {};
}

base::Result<> Apply(MigModule& mig, const MigCall& call) {
  GPUMAN_ASSIGN(auto orders, OrdersOf(call.body(), mig.core().whole_gpus()));
  auto answer = call.After([&mig, call](const std::vector<MigOutcome>& outcomes) -> base::Result<> {
    if (const auto why = WhyNothing(outcomes)) return base::Fail(*why);
    // The answer waits so that the next request finds the new instances.
    mig.WhenDivided(DivisionsAfter(outcomes),
                    [call, changes = MigChangesOf(outcomes, mig.Own())] { call.Send(changes); });
    return {};
  });
  // gpuman's own processes on the GPUs would prevent the change.
  mig.suspension().WhenIdleMoversLeft(
      [&mig, orders = std::move(orders), forget = call.body().forget, answer = std::move(answer)]() mutable {
        mig.manager().Apply(std::move(orders), mig.Holders(), forget, std::move(answer));
      });
  return {};
}

}  // namespace

void MigModule::AddRoutes(http::Router& router) {
  const auto serve = RouteRegistrar(*this, router);
  serve(api::routes::kMig, ShowMig);
  serve(api::routes::kPlanMig, Plan);
  serve(api::routes::kApplyMig, Apply);
}

}  // namespace gpuman::daemon
