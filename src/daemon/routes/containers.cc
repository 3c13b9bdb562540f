// What Kubernetes' containers were given.
#include "api/container_json.h"
#include "daemon/routes/routes.h"

namespace gpuman::daemon {
namespace {

void SetContainers(Service& service, const http::ExchangePtr& exchange) {
  if (auto may = service.Check(exchange->request().peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  auto table = api::Decode<api::ContainerTable>(exchange->request().body);
  if (!table) return SendError(exchange, table.error());
  service.SetContainers(std::move(table->containers));
  service.LookNow();
  SendJson(exchange, api::Encode(service.ContainersNow()));
}

}  // namespace

void AddContainerRoutes(http::Router& router, Service& service) {
  router.Add("GET", "/v1/containers",
             [&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
               SendJson(exchange, api::Encode(service.ContainersNow()));
             });
  // Once the GPUs are known: nobody is to be taken for a stranger before.
  router.Add("PUT", "/v1/containers",
             [&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
               service.WhenReady([&service, exchange] { SetContainers(service, exchange); });
             });
}

}  // namespace gpuman::daemon
