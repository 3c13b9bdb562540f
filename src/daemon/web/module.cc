#include "daemon/web/module.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "daemon/core/listen.h"
#include "daemon/core/requests.h"
#include "web/answers.h"
#include "web/assets.h"
#include "web/secret.h"

namespace gpuman::daemon {
namespace {

// The secret outlives the daemon, so that links do.
constexpr const char* kSecretKey = "web/secret";
constexpr std::string_view kApi = "/v1/";
constexpr std::size_t kLongestBody = 1024;  // no request that is answered has one

web::RequestSource SenderOf(const http::Request& request) {
  return {std::nullopt, request.host, request.origin, request.fetch_site, request.authorization};
}

http::Response ResponseOf(const web::Refusal& refusal) {
  return {static_cast<unsigned>(refusal.status), web::BodyOf(refusal)};
}

http::Response FileFor(const http::Request& request) {
  const auto file = web::AssetFor(request.method, request.path);
  if (!file) return ResponseOf(file.error());
  return {200, std::string(file->bytes), std::string(file->content_type), {{"Content-Encoding", "gzip"}}};
}

api::WebPageView ShowWeb(WebModule& web) { return web.View(); }

}  // namespace

api::WebPageView WebModule::View() const {
  if (!server_) return {};
  return {web::LinkTo(core_.config().web.listen->text, owner_.secret)};
}

void WebModule::Restore(jobs::StoreContents& contents) {
  if (!core_.config().web.listen) return;
  const auto stored = contents.settings.find(kSecretKey);
  if (stored != contents.settings.end() && stored->second) {
    owner_.secret = *stored->second;
    return;
  }
  auto secret = web::NewSecret();
  if (!secret) return spdlog::error("the page for everybody is not served: {}", secret.error().message);
  owner_.secret = std::move(*secret);
  core_.Keep({{kSecretKey, owner_.secret}}, [](const base::Result<>& kept) {
    if (!kept)
      spdlog::warn("the link of the page for everybody will not outlast gpumand: {}", kept.error().message);
  });
}

void WebModule::AddRoutes(http::Router& router) {
  RouteRegistrar(*this, router)(api::routes::kWeb, ShowWeb);
  if (!owner_.secret.empty()) Serve(router);
}

bool WebModule::Stop() {
  server_.reset();
  return true;
}

// A missing page must not stop the daemon.
void WebModule::Serve(const http::Router& router) {
  const auto& config = core_.config();
  if (core_.options().user_mode)
    return spdlog::error(
        "the page for everybody is not served: this daemon serves one user alone; use gpuman web");
  auto listener = Listen(*config.web.listen);
  if (!listener) return spdlog::error("the page for everybody is not served: {}", listener.error().message);
  http::ServerLimits limits;
  limits.body_bytes = kLongestBody;
  limits.connections = config.http.connections;
  limits.request = config.http.request_timeout;
  limits.idle = config.http.idle_timeout;
  server_ = std::make_unique<http::Server>(
      core_.loop(), std::move(*listener), limits,
      [this, &router](const http::ExchangePtr& exchange) { Answer(exchange, router); }, web::CommonHeaders());
  spdlog::info("the page for everybody is on {}; gpuman web --everybody prints its link",
               config.web.listen->text);
}

void WebModule::Answer(const http::ExchangePtr& exchange, const http::Router& router) const {
  const http::Request& request = exchange->request();
  const bool is_call = request.path.starts_with(kApi);
  const web::RequestSource sender = SenderOf(request);
  if (const auto refusal = is_call ? web::RefusalOfCall(sender, owner_) : web::RefusalOf(sender, owner_))
    return exchange->Send(ResponseOf(*refusal));
  if (is_call) return router.Route(exchange);
  exchange->Send(FileFor(request));
}

}  // namespace gpuman::daemon
