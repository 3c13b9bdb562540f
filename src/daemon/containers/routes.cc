// What Kubernetes' containers were given.
#include "api/container_json.h"
#include "daemon/containers/module.h"
#include "daemon/core/requests.h"

namespace gpuman::daemon {
namespace {

// Some thousands of them are a lot of text.
void SendContainers(ContainersModule& containers, const http::ExchangePtr& exchange) {
  const auto view = std::make_shared<api::ContainersView>(containers.View());
  const auto text = std::make_shared<std::string>();
  containers.core().Aside(exchange->request().peer.uid,
                          {[view, text] { *text = api::Encode(*view); },
                           [exchange, text] { SendJson(exchange, std::move(*text)); }});
}

void SetContainers(ContainersModule& containers, const http::ExchangePtr& exchange) {
  if (auto may = containers.core().Check(exchange->request().peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  WithBody<api::ContainerTable>(containers.core(), exchange,
                                [&containers, exchange](const api::ContainerTable& table) {
                                  containers.SetTable(table.containers);
                                  containers.core().LookNow();
                                  SendContainers(containers, exchange);
                                });
}

}  // namespace

void ContainersModule::AddRoutes(http::Router& router) {
  router.Add("GET", "/v1/containers", [this](const http::ExchangePtr& exchange, const http::PathParameters&) {
    SendContainers(*this, exchange);
  });
  // Once the GPUs are known: nobody is to be taken for a stranger before.
  router.Add("PUT", "/v1/containers", [this](const http::ExchangePtr& exchange, const http::PathParameters&) {
    core_.WhenReady([this, exchange] { SetContainers(*this, exchange); });
  });
}

}  // namespace gpuman::daemon
