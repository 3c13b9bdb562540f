// Metrics for Prometheus, over the socket and, where that is configured, over TCP.
#include "daemon/routes/routes.h"
#include "metrics/exposition.h"

namespace gpuman::daemon {
namespace {

void ShowMetrics(Service& service, const http::ExchangePtr& exchange) {
  const auto dcgm = exchange->request().Query("dcgm");
  const bool with_dcgm = !dcgm || (*dcgm != "0" && *dcgm != "false");
  exchange->Send({200, service.MetricsText(with_dcgm), std::string(metrics::kContentType)});
}

}  // namespace

void AddMetricsRoutes(http::Router& router, Service& service) {
  router.Add("GET", "/metrics", [&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
    if (auto may = service.core().Check(exchange->request().peer, Act::kSee); !may)
      return SendError(exchange, may.error());
    service.core().WhenReady([=, &service] { ShowMetrics(service, exchange); });
  });
}

void AddPublicRoutes(http::Router& router, Service& service) {
  AddLiveRoute(router);
  router.Add("GET", "/metrics", [&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
    service.core().WhenReady([=, &service] { ShowMetrics(service, exchange); });
  });
}

}  // namespace gpuman::daemon
