#include "api/json.h"
#include "daemon/routes/routes.h"
#include "daemon/sharing/share_controller.h"
#include "daemon/sharing/share_views.h"

namespace gpuman::daemon {
namespace {

const base::Error kNoShim{base::ErrorCode::kNotSupported, "there is no shim: GPUs cannot be shared",
                          "gpumand looks for libgpuman.so beside itself; its log says what was wrong"};

void ShowShare(Service& service, const http::ExchangePtr& exchange) {
  if (auto may = service.core().Check(exchange->request().peer, Act::kSee); !may)
    return SendError(exchange, may.error());
  const ShareController* const share_controller = service.share_controller();
  if (!share_controller) return SendError(exchange, kNoShim);
  const auto tag_of = [&](base::JobId id) {
    const auto* const job = service.core().jobs().Find(id);
    return job ? job->tag : std::string();
  };
  SendJson(exchange, api::Encode(ShareViewOf(share_controller->View(), share_controller->settings(),
                                             service.core().inventory(), tag_of)));
}

void Set(Service& service, const http::ExchangePtr& exchange) {
  if (auto may = service.core().Check(exchange->request().peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  const ShareController* const share_controller = service.share_controller();
  if (!share_controller) return SendError(exchange, kNoShim);
  const auto update = api::Decode<api::ShareUpdate>(exchange->request().body);
  if (!update) return SendError(exchange, update.error());
  auto settings = Changed(share_controller->settings(), *update);
  if (!settings) return SendError(exchange, settings.error());
  service.SetShare(std::move(*settings));
  ShowShare(service, exchange);
}

}  // namespace

void AddShareRoutes(http::Router& router, Service& service) {
  router.Add("GET", "/v1/share", [&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
    service.core().WhenReady([=, &service] { ShowShare(service, exchange); });
  });
  router.Add("PUT", "/v1/share", [&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
    Set(service, exchange);
  });
}

}  // namespace gpuman::daemon
