// Metrics for Prometheus, over the socket and, where that is configured, over TCP.
#include "daemon/core/requests.h"
#include "daemon/metrics/module.h"
#include "metrics/exposition.h"

namespace gpuman::daemon {
namespace {

void ShowMetrics(MetricsModule& metrics, const Call<api::NoBody, api::Text>& call) {
  const auto dcgm = call.request().Query("dcgm");
  const bool with_dcgm = !dcgm || (*dcgm != "0" && *dcgm != "false");
  call.exchange()->Send({200, metrics.Text(with_dcgm), std::string(metrics::kContentType)});
}

}  // namespace

void MetricsModule::AddRoutes(http::Router& router) {
  RouteRegistrar(*this, router)(api::routes::kMetrics, ShowMetrics);
}

// Everybody who reaches the TCP address gets these: metrics, and whether the daemon lives. No request changes
// anything.
void MetricsModule::AddPublicRoutes() {
  AddLiveRoute(public_router_, core_);
  auto route = api::routes::kMetrics;
  route.right = api::Right::kAnybody;
  RouteRegistrar(*this, public_router_)(route, ShowMetrics);
}

}  // namespace gpuman::daemon
