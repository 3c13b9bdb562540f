// Health: the faults of the GPUs, and their acknowledgement by an operator.
#include "api/json.h"
#include "daemon/core/requests.h"
#include "daemon/health/module.h"
#include "daemon/health/views.h"

namespace gpuman::daemon {
namespace {

api::HealthReport ReportOf(HealthModule& health) {
  return HealthReportOf(health.monitors(), health.core().guard().Statuses());
}

// A GPU of the driver's list, or one that is missing from it.
base::Result<std::string> Choose(HealthModule& health, const std::string& reference) {
  for (const auto& uuid : health.monitors().Missing())
    if (uuid == reference) return uuid;
  GPUMAN_ASSIGN(const auto gpu, gpu::Select(health.core().whole_gpus().gpus, reference));
  return gpu.uuid;
}

base::Result<api::HealthReport> Acknowledge(HealthModule& health,
                                            const Call<api::HealthAcknowledgement, api::HealthReport>& call) {
  GPUMAN_ASSIGN(const auto uuid, Choose(health, call.body().gpu));
  GPUMAN_TRY(health.monitors().Acknowledge(uuid, call.body().code.value_or(""), UserName(call.peer().uid)));
  return ReportOf(health);
}

}  // namespace

void HealthModule::AddRoutes(http::Router& router) {
  const auto serve = RouteRegistrar(*this, router);
  serve(api::routes::kHealth, ReportOf);
  serve(api::routes::kAcknowledgeHealth, Acknowledge);
}

}  // namespace gpuman::daemon
