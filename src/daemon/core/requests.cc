#include "daemon/core/requests.h"

#include <fmt/format.h>

#include "base/parse_number.h"

namespace gpuman::daemon {

void AddRoute(http::Router& router, Core& core, std::string_view method, std::string_view path,
              api::Right right, api::StartupWaitPolicy wait, http::RouteHandler handle) {
  const bool concerns_a_job = right == api::Right::kControlJob || right == api::Right::kReadLog;
  const bool is_checked = right != api::Right::kAnybody && !concerns_a_job;
  router.Add(method, path,
             [&core, right, wait, is_checked, handle = std::move(handle)](
                 const http::ExchangePtr& exchange, const http::PathParameters& parameters) {
               if (is_checked)
                 if (auto may = core.Check(exchange->request().peer, right); !may)
                   return SendError(exchange, may.error());
               if (wait == api::StartupWaitPolicy::kNever) return handle(exchange, parameters);
               core.WhenReady([handle, exchange, parameters] { handle(exchange, parameters); },
                              [exchange] { return exchange->Gone(); });
             });
}

void AddLiveRoute(http::Router& router, Core& core) {
  Serve(router, core, api::routes::kHealthz, [](const auto& call) {
    call.exchange()->Send({200, "ok\n", "text/plain"});
  });
}

base::Result<std::uint64_t> NumberParameter(const http::Request& request, std::string_view name,
                                            std::uint64_t otherwise) {
  const auto text = request.Query(name);
  if (!text) return otherwise;
  const auto number = base::ParseNumber<std::uint64_t>(*text);
  if (!number || *number > INT64_MAX)
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      std::string(name) + "=" + std::string(*text) + " is not a whole number");
  return *number;
}

base::Result<std::optional<base::WallTime>> MomentParameter(const http::Request& request,
                                                            std::string_view name, base::WallTime now) {
  const auto text = request.Query(name);
  if (!text) return std::optional<base::WallTime>{};
  if (const auto time = base::ParseIso8601(*text)) return std::optional(*time);
  const auto ago = base::ParseDuration(*text);
  if (!ago || *ago > now.time_since_epoch())
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      fmt::format("{}: '{}' is neither a time nor a duration", name, *text),
                      "write 2026-11-27T10:00:00Z, or how long ago: 2h");
  return std::optional(now - *ago);
}

bool FlagParameter(const http::Request& request, std::string_view name) {
  const auto text = request.Query(name);
  return text && *text != "0" && *text != "false";
}

base::Result<Pagination> PageOf(const http::Request& request) {
  Pagination page;
  GPUMAN_ASSIGN(const auto limit, NumberParameter(request, "limit", 0));
  GPUMAN_ASSIGN(const auto after, NumberParameter(request, "after", 0));
  if (limit > 0) page.limit = limit;
  if (request.Query("after")) page.after = {static_cast<std::int64_t>(after)};
  return page;
}

void SendJson(const http::ExchangePtr& exchange, std::string json, unsigned status) {
  json += '\n';
  exchange->Send({status, std::move(json), "application/json"});
}

std::string UserOf(const http::ExchangePtr& exchange) { return UserName(exchange->request().peer.uid); }

void SendError(const http::ExchangePtr& exchange, const base::Error& error) {
  exchange->Send(http::ErrorResponse(error));
}

}  // namespace gpuman::daemon
