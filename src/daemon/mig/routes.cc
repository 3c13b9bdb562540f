// MIG: how the GPUs are split, plans, changes.
#include "api/json.h"
#include "daemon/core/requests.h"
#include "daemon/mig/module.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

void ShowMig(MigModule& mig, const Call<api::NoBody, api::MigReport>& call) {
  const auto& inventory = mig.core().whole_gpus();
  auto gpus = inventory.gpus;
  if (const auto wanted = call.request().Query("gpu")) {
    const auto gpu = gpu::Select(inventory.gpus, *wanted);
    if (!gpu) return call.Refuse(gpu.error());
    gpus = {*gpu};
  }
  mig.manager().Read(std::move(gpus), [&mig, call](const std::vector<MigReading>& readings) {
    api::MigReport report;
    for (const auto& reading : readings)
      report.gpus.push_back(
          MigGpuOf(reading, mig.manager().WantedOf(reading.gpu.uuid), mig.core().inventory(), mig.Own()));
    call.Send(report);
  });
}

using MigCall = Call<api::MigRequest, api::MigChanges>;

void Plan(MigModule& mig, const MigCall& call) {
  auto orders = OrdersOf(call.body(), mig.core().whole_gpus());
  if (!orders) return call.Refuse(orders.error());
  mig.manager().Plan(std::move(*orders), [&mig, call](base::Result<std::vector<MigOutcome>> outcomes) {
    if (!outcomes) return call.Refuse(outcomes.error());
    if (const auto why = WhyNothing(*outcomes)) return call.Refuse(*why);
    call.Send(MigChangesOf(*outcomes, mig.Own()));
  });
}

void Apply(MigModule& mig, const MigCall& call) {
  auto orders = OrdersOf(call.body(), mig.core().whole_gpus());
  if (!orders) return call.Refuse(orders.error());
  auto answer = [&mig, call](base::Result<std::vector<MigOutcome>> outcomes) {
    if (!outcomes) return call.Refuse(outcomes.error());
    if (const auto why = WhyNothing(*outcomes)) return call.Refuse(*why);
    // The answer waits so that the next request finds the new instances.
    mig.WhenDivided(DivisionsAfter(*outcomes),
                    [call, changes = MigChangesOf(*outcomes, mig.Own())] { call.Send(changes); });
  };
  // gpuman's own processes on the GPUs would prevent the change.
  mig.suspension().WhenIdleMoversLeft(
      [&mig, orders = std::move(*orders), forget = call.body().forget, answer = std::move(answer)]() mutable {
        mig.manager().Apply(std::move(orders), mig.Holders(), forget, std::move(answer));
      });
}

}  // namespace

void MigModule::AddRoutes(http::Router& router) {
  const auto serve = ServeBy(*this, router);
  serve(api::routes::kMig, ShowMig);
  serve(api::routes::kPlanMig, Plan);
  serve(api::routes::kApplyMig, Apply);
}

}  // namespace gpuman::daemon
