#include <algorithm>
#include <charconv>
#include <functional>

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

struct Listed {
  std::vector<api::JobView> jobs;  // by id
  std::size_t waiting_left_out = 0, ended_left_out = 0;
};

// When the last of so many that ended last has ended; earlier ones are left out.
base::WallTime OldestShown(const std::vector<const jobs::Job*>& jobs) {
  std::vector<base::WallTime> ends;
  for (const auto* const job : jobs)
    if (jobs::IsEnded(*job)) ends.push_back(job->ended_at.value_or(base::WallTime{}));
  if (ends.size() <= kEndedShown) return base::WallTime::min();
  const auto last = ends.begin() + kEndedShown - 1;
  std::nth_element(ends.begin(), last, ends.end(), std::greater<>());
  return *last;
}

Listed Jobs(Service& service, bool all) {
  Listed listed;
  const auto jobs = service.jobs().All();
  const auto oldest = all ? base::WallTime::min() : OldestShown(jobs);
  std::size_t ended = 0, waiting = 0;
  for (auto it = jobs.rbegin(); it != jobs.rend(); ++it) {
    const auto& job = **it;
    const bool old = jobs::IsEnded(job) && (job.ended_at.value_or(base::WallTime{}) < oldest ||
                                            (!all && ++ended > kEndedShown));
    const bool far = !all && jobs::IsWaiting(job) && ++waiting > kWaitingShown;
    listed.ended_left_out += old;
    listed.waiting_left_out += far;
    if (!old && !far) listed.jobs.push_back(service.View(job));
  }
  std::reverse(listed.jobs.begin(), listed.jobs.end());
  return listed;
}

void ShowStatus(Service& service, const http::ExchangePtr& exchange) {
  api::StatusView status;
  status.gpus = Gpus(service).gpus;
  auto listed = Jobs(service, FlagParameter(exchange->request(), "all"));
  status.jobs = std::move(listed.jobs);
  status.waiting_left_out = static_cast<std::int64_t>(listed.waiting_left_out);
  status.ended_left_out = static_cast<std::int64_t>(listed.ended_left_out);
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
                        api::Encode(api::JobList{Jobs(service, FlagParameter(exchange->request(), "all")).jobs}));
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
