// What Kubernetes' containers were given.
#include "api/container_json.h"
#include "daemon/routes/routes.h"

namespace gpuman::daemon {
namespace {

// Some thousands of them are a lot of text.
void SendContainers(Service& service, const http::ExchangePtr& exchange) {
  const auto view = std::make_shared<api::ContainersView>(service.ContainersNow());
  const auto text = std::make_shared<std::string>();
  service.core().Aside(exchange->request().peer.uid,
                       {[view, text] { *text = api::Encode(*view); },
                        [exchange, text] { SendJson(exchange, std::move(*text)); }});
}

void SetContainers(Service& service, const http::ExchangePtr& exchange) {
  if (auto may = service.core().Check(exchange->request().peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  WithBody<api::ContainerTable>(service.core(), exchange,
                                [&service, exchange](const api::ContainerTable& table) {
                                  service.SetContainers(table.containers);
                                  service.core().LookNow();
                                  SendContainers(service, exchange);
                                });
}

}  // namespace

void AddContainerRoutes(http::Router& router, Service& service) {
  router.Add("GET", "/v1/containers",
             [&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
               SendContainers(service, exchange);
             });
  // Once the GPUs are known: nobody is to be taken for a stranger before.
  router.Add("PUT", "/v1/containers",
             [&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
               service.core().WhenReady([&service, exchange] { SetContainers(service, exchange); });
             });
}

}  // namespace gpuman::daemon
