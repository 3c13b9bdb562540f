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
  for (const auto& gpu : service.core().inventory().gpus) {
    if (const auto* status = service.core().guard().Find(gpu.uuid))
      list.gpus.push_back(service.core().View(*status));
  }
  return list;
}

// By when, not by number: one that was started again has an old one.
std::vector<base::JobId> LastToEnd(const jobs::JobManager& jobs) {
  std::vector<std::pair<base::WallTime, base::JobId>> ends;
  for (const auto id : jobs.Ended())
    if (const auto* const job = jobs.Find(id))
      ends.emplace_back(job->ended_at.value_or(base::WallTime{}), id);
  const std::size_t shown = std::min(ends.size(), kEndedShown);
  std::partial_sort(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(shown), ends.end(),
                    std::greater<>());
  std::vector<base::JobId> last;
  for (std::size_t i = 0; i < shown; ++i) last.push_back(ends[i].second);
  return last;
}

// Those that have not ended, and the last to end of those that have, by id.
std::vector<base::JobId> UsualJobs(const jobs::JobManager& jobs) {
  std::vector<base::JobId> ids;
  for (const auto* const job : jobs.Active()) ids.push_back(job->id);
  const auto ended = LastToEnd(jobs);
  ids.insert(ids.end(), ended.begin(), ended.end());
  std::size_t waiting = 0;
  for (const auto* job = jobs.Before({INT64_MAX}); job && waiting < kWaitingShown;
       job = jobs.Before(job->id)) {
    if (!jobs::IsWaiting(*job)) continue;
    ids.push_back(job->id);
    ++waiting;
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::int64_t LeftOut(std::size_t all, std::size_t shown) {
  return all > shown ? static_cast<std::int64_t>(all - shown) : 0;
}

// `head`: what stands before the first of them.
ListAnswers::Source JobsSource(Service& service, const http::Request& request, const Page& page,
                               std::string head, std::string tail) {
  std::optional<std::vector<base::JobId>> usual;
  if (!FlagParameter(request, "all")) usual = UsualJobs(service.core().jobs());
  return [&service, usual = std::move(usual), at = page.after.value_or(base::JobId{}), left = page.limit,
          list = JsonList(std::move(head), std::move(tail))](std::string& text) mutable {
    const jobs::Job* job = nullptr;
    bool more = left > 0;
    if (more && usual) {
      const auto next = std::upper_bound(usual->begin(), usual->end(), at);
      more = next != usual->end();
      if (more) at = *next;
      if (more) job = service.core().jobs().Find(at);
    } else if (more) {
      job = service.core().jobs().After(at);
      more = job;
      if (job) at = job->id;
    }
    if (!more) {
      list.End(text);
      return false;
    }
    if (!job) return true;  // forgotten meanwhile
    list.Add(text, api::Encode(service.core().View(*job)));
    --left;
    return true;
  };
}

void ShowJobs(Service& service, const http::ExchangePtr& exchange) {
  const auto page = PageOf(exchange->request());
  if (!page) return SendError(exchange, page.error());
  service.core().lists().Answer(
      exchange, "application/json", [&service, exchange, page = *page](const auto& then) {
        then(JobsSource(service, exchange->request(), page, R"({"jobs":[)", "]}\n"));
      });
}

void ShowStatus(Service& service, const http::ExchangePtr& exchange) {
  const auto page = PageOf(exchange->request());
  if (!page) return SendError(exchange, page.error());
  service.core().lists().Answer(
      exchange, "application/json", [&service, exchange, page = *page](const auto& then) {
        api::StatusView status;
        status.gpus = Gpus(service).gpus;
        if (!service.core().inventory().problem.empty())
          status.driver_error = service.core().inventory().problem;
        if (!FlagParameter(exchange->request(), "all")) {
          const auto& counts = service.core().jobs();
          status.waiting_left_out = LeftOut(counts.WaitingCount(), kWaitingShown);
          status.ended_left_out = LeftOut(counts.Ended().size(), kEndedShown);
        }
        // The jobs' place is the one list of that name that is empty: no text has such quotes.
        const std::string frame = api::Encode(status) + "\n";
        const std::string empty = R"("jobs":[])";
        const auto place = frame.find(empty) + empty.size() - 1;
        then(JobsSource(service, exchange->request(), page, frame.substr(0, place), frame.substr(place)));
      });
}

void ShowGpu(Service& service, const http::ExchangePtr& exchange, const std::string& reference) {
  const auto gpu = gpu::Select(service.core().inventory().gpus, reference);
  if (!gpu) return SendError(exchange, gpu.error());
  const auto* status = service.core().guard().Find(gpu->uuid);
  if (!status)
    return SendError(exchange, {base::ErrorCode::kNotFound, "GPU " + reference + " has just gone", {}});
  SendJson(exchange, api::Encode(service.core().View(*status)));
}

}  // namespace

void SendJob(Service& service, const http::ExchangePtr& exchange, const jobs::Job& job, unsigned status,
             bool in_full) {
  if (!job.queued || !jobs::IsWaiting(job) || (!in_full && service.queue().IsViewCheap()))
    return SendJson(exchange, api::Encode(service.ViewWithQueue(job)), status);
  service.queue().WithSnapshot([&service, exchange, id = job.id, status,
                                in_full](const std::shared_ptr<const QueueSnapshot>& snapshot) {
    const auto* const now = service.core().jobs().Find(id);
    if (!now) return SendError(exchange, {base::ErrorCode::kNotFound, "the job is gone", {}});
    SendJson(exchange, api::Encode(service.ViewBy(*snapshot, *now, in_full)), status);
  });
}

void AddViewRoutes(http::Router& router, Service& service) {
  // Everybody may see, where the daemon serves everybody.
  const auto seen = [&service](auto show) {
    return [&service, show](const http::ExchangePtr& exchange, const http::PathParameters& parameters) {
      if (auto may = service.core().Check(exchange->request().peer, Act::kSee); !may)
        return SendError(exchange, may.error());
      service.core().WhenReady([=] { show(exchange, parameters); });
    };
  };
  AddLiveRoute(router);
  router.Add("GET", "/v1/version",
             [&service](const http::ExchangePtr& exchange, const http::PathParameters&) {
               api::VersionView version;
               version.version = service.core().options().version;
               version.pid = ::getpid();
               version.user_mode = service.core().options().user_mode;
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
               ShowJobs(service, exchange);
             }));
}

void AddAllRoutes(http::Router& router, Service& service) {
  AddViewRoutes(router, service);
  AddJobRoutes(router, service);
  AddAttachRoutes(router, service);
  AddMetricsRoutes(router, service);
  AddSubmissionRoutes(router, service);
  AddRedoRoutes(router, service);
  AddQueueListRoutes(router, service);
  AddQueueRoutes(router, service);
  AddQueueBookRoutes(router, service);
  AddEventRoutes(router, service);
}

}  // namespace gpuman::daemon
