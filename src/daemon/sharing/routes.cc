// Who takes turns on which GPU, and the settings of it.
#include "api/json.h"
#include "daemon/core/requests.h"
#include "daemon/sharing/module.h"
#include "daemon/sharing/share_views.h"

namespace gpuman::daemon {
namespace {

const base::Error kNoShim{base::ErrorCode::kNotSupported, "there is no shim: GPUs cannot be shared",
                          "gpumand looks for libgpuman.so beside itself; its log says what was wrong"};

void ShowShare(SharingModule& sharing, const http::ExchangePtr& exchange) {
  auto& core = sharing.core();
  const ShareController* const controller = sharing.controller();
  if (!controller) return SendError(exchange, kNoShim);
  const auto tag_of = [&](base::JobId id) { return core.TagOf(id).value_or(""); };
  SendJson(exchange,
           api::Encode(ShareViewOf(controller->View(), controller->settings(), core.inventory(), tag_of)));
}

void Set(SharingModule& sharing, const http::ExchangePtr& exchange) {
  if (auto may = sharing.core().Check(exchange->request().peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  if (!sharing.controller()) return SendError(exchange, kNoShim);
  const auto update = api::Decode<api::ShareUpdate>(exchange->request().body);
  if (!update) return SendError(exchange, update.error());
  auto settings = Changed(sharing.settings(), *update);
  if (!settings) return SendError(exchange, settings.error());
  sharing.SetSettings(std::move(*settings));
  ShowShare(sharing, exchange);
}

}  // namespace

void SharingModule::AddRoutes(http::Router& router) {
  router.Add("GET", "/v1/share", WhenReady(core_, Act::kSee, [this](const http::ExchangePtr& exchange) {
               ShowShare(*this, exchange);
             }));
  router.Add("PUT", "/v1/share", [this](const http::ExchangePtr& exchange, const http::PathParameters&) {
    Set(*this, exchange);
  });
}

}  // namespace gpuman::daemon
