// Which jobs take turns on which GPU, and the settings of sharing.
#include "api/json.h"
#include "daemon/core/requests.h"
#include "daemon/sharing/module.h"
#include "daemon/sharing/share_views.h"

namespace gpuman::daemon {
namespace {

const base::Error kNoShim{base::ErrorCode::kNotSupported, "there is no shim: GPUs cannot be shared",
                          "gpumand looks for libgpuman.so beside itself; its log says what was wrong"};

base::Result<api::ShareView> ViewOf(SharingModule& sharing) {
  auto& core = sharing.core();
  const ShareController* const controller = sharing.controller();
  if (!controller) return base::Fail(kNoShim);
  const ShareViewSources sources{[&](base::JobId id) { return core.TagOf(id).value_or(""); },
                                 [&](base::JobId id) { return controller->ProgressOf(id); }};
  return ShareViewOf(controller->View(), controller->settings(), core.inventory(), sources);
}

base::Result<api::ShareView> Set(SharingModule& sharing, const Call<api::ShareUpdate, api::ShareView>& call) {
  if (!sharing.controller()) return base::Fail(kNoShim);
  GPUMAN_ASSIGN(auto settings, Changed(sharing.settings(), call.body()));
  sharing.SetSettings(std::move(settings));
  return ViewOf(sharing);
}

}  // namespace

void SharingModule::AddRoutes(http::Router& router) {
  const auto serve = RouteRegistrar(*this, router);
  serve(api::routes::kShare, ViewOf);
  serve(api::routes::kSetShare, Set);
}

}  // namespace gpuman::daemon
