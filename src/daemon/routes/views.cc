#include <charconv>

#include "api/json.h"
#include "daemon/routes/routes.h"
#include "gpu/inventory.h"

namespace gpuman::daemon {
namespace {

constexpr std::size_t kEndedShown = 20;      // without ?all=1
constexpr std::size_t kWaitingShown = 1000;  // likewise; the queue has views of its own

api::GpuList Gpus(Service& service) {
  api::GpuList list;
  for (const auto& gpu : service.inventory().gpus) {
    if (const auto* status = service.guard().Find(gpu.uuid)) list.gpus.push_back(service.View(*status));
  }
  return list;
}

std::vector<api::JobView> Jobs(Service& service, bool all) {
  std::vector<api::JobView> views;
  const auto jobs = service.jobs().All();
  std::size_t ended = 0, waiting = 0;
  for (auto it = jobs.rbegin(); it != jobs.rend(); ++it) {
    if (!all && jobs::IsEnded(**it) && ++ended > kEndedShown) continue;
    if (!all && jobs::IsWaiting(**it) && ++waiting > kWaitingShown) continue;
    views.push_back(service.View(**it));
  }
  return {views.rbegin(), views.rend()};
}

void ShowStatus(Service& service, const http::ExchangePtr& exchange) {
  api::StatusView status;
  status.gpus = Gpus(service).gpus;
  status.jobs = Jobs(service, FlagParameter(exchange->request(), "all"));
  if (!service.inventory().problem.empty()) status.driver_error = service.inventory().problem;
  SendJson(exchange, api::Encode(status));
}

void ShowGpu(Service& service, const http::ExchangePtr& exchange, const std::string& reference) {
  const auto gpu = gpu::Select(service.inventory().gpus, reference);
  if (!gpu) return SendError(exchange, gpu.error());
  const auto* status = service.guard().Find(gpu->uuid);
  if (!status)
    return SendError(exchange, {base::ErrorCode::kNotFound, "GPU " + reference + " has just gone", {}});
  SendJson(exchange, api::Encode(service.View(*status)));
}

}  // namespace

base::Result<std::uint64_t> NumberParameter(const http::Request& request, std::string_view name,
                                            std::uint64_t otherwise) {
  const auto text = request.Query(name);
  if (!text) return otherwise;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc{} || end != text->data() + text->size() || number > INT64_MAX)
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      std::string(name) + "=" + std::string(*text) + " is not a whole number");
  return number;
}

bool FlagParameter(const http::Request& request, std::string_view name) {
  const auto text = request.Query(name);
  return text && *text != "0" && *text != "false";
}

void SendJson(const http::ExchangePtr& exchange, std::string json, unsigned status) {
  json += '\n';
  exchange->Send({status, std::move(json), "application/json"});
}

std::string UserOf(const http::ExchangePtr& exchange) { return UserName(exchange->request().peer.uid); }

void SendError(const http::ExchangePtr& exchange, const base::Error& error) {
  exchange->Send(http::ErrorResponse(error));
}

void AddLiveRoute(http::Router& router) {
  router.Add("GET", "/healthz", [](const http::ExchangePtr& exchange, const http::PathParameters&) {
    exchange->Send({200, "ok\n", "text/plain"});
  });
}

void AddViewRoutes(http::Router& router, Service& service) {
  // Everybody may see, where the daemon serves everybody.
  const auto seen = [&service](auto show) {
    return [&service, show](const http::ExchangePtr& exchange, const http::PathParameters& parameters) {
      if (auto may = service.Check(exchange->request().peer, Act::kSee); !may)
        return SendError(exchange, may.error());
      service.WhenReady([=] { show(exchange, parameters); });
    };
  };
  AddLiveRoute(router);
  router.Add("GET", "/v1/version",
             [&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
               api::VersionView version;
               version.version = service.options().version;
               version.pid = ::getpid();
               version.user_mode = service.options().user_mode;
               SendJson(exchange, api::Encode(version));
             });
  router.Add("GET", "/v1/status",
             seen([&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
               ShowStatus(service, exchange);
             }));
  router.Add("GET", "/v1/gpus",
             seen([&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
               SendJson(exchange, api::Encode(Gpus(service)));
             }));
  router.Add("GET", "/v1/gpus/{ref}",
             seen([&service](const http::ExchangePtr& exchange, const http::PathParameters& parameters) {
               ShowGpu(service, exchange, parameters.at("ref"));
             }));
  router.Add("GET", "/v1/jobs",
             seen([&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
               SendJson(exchange,
                        api::Encode(api::JobList{Jobs(service, FlagParameter(exchange->request(), "all"))}));
             }));
}

void AddAllRoutes(http::Router& router, Service& service) {
  AddViewRoutes(router, service);
  AddJobRoutes(router, service);
  AddAttachRoutes(router, service);
  AddContainerRoutes(router, service);
  AddHealthRoutes(router, service);
  AddDeviceRoutes(router, service);
  AddMetricsRoutes(router, service);
  AddMigRoutes(router, service);
  AddMpsRoutes(router, service);
  AddShareRoutes(router, service);
  AddSubmissionRoutes(router, service);
  AddQueueRoutes(router, service);
  AddQueueBookRoutes(router, service);
  AddEventRoutes(router, service);
}

}  // namespace gpuman::daemon
