// Metrics for Prometheus, over the socket and, where that is configured, over TCP.
#include "daemon/core/requests.h"
#include "daemon/metrics/module.h"
#include "metrics/exposition.h"

namespace gpuman::daemon {
namespace {

void ShowMetrics(MetricsModule& metrics, const http::ExchangePtr& exchange) {
  const auto dcgm = exchange->request().Query("dcgm");
  const bool with_dcgm = !dcgm || (*dcgm != "0" && *dcgm != "false");
  exchange->Send({200, metrics.Text(with_dcgm), std::string(metrics::kContentType)});
}

}  // namespace

void MetricsModule::AddRoutes(http::Router& router) {
  router.Add("GET", "/metrics", WhenReady(core_, Act::kSee, [this](const http::ExchangePtr& exchange) {
               ShowMetrics(*this, exchange);
             }));
}

// What is served to whoever gets there: metrics, and whether the daemon lives. Nothing is changed by it.
void MetricsModule::AddPublicRoutes() {
  AddLiveRoute(public_router_);
  public_router_.Add("GET", "/metrics",
                     [this](const http::ExchangePtr& exchange, const http::PathParameters&) {
                       core_.WhenReady([this, exchange] { ShowMetrics(*this, exchange); });
                     });
}

}  // namespace gpuman::daemon
