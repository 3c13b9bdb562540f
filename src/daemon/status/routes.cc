// Version, status, GPUs, jobs.
#include <algorithm>
#include <functional>

#include "api/json.h"
#include "daemon/core/requests.h"
#include "daemon/status/module.h"
#include "gpu/inventory.h"

namespace gpuman::daemon {
namespace {

constexpr std::size_t kEndedShown = 20;      // without ?all=1
constexpr std::size_t kWaitingShown = 1000;  // likewise; the queue has views of its own

api::GpuList Gpus(Core& core) {
  api::GpuList list;
  for (const auto& gpu : core.inventory().gpus) {
    if (const auto* status = core.guard().Find(gpu.uuid)) list.gpus.push_back(core.View(*status));
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
ListAnswers::Source JobsSource(Core& core, const http::Request& request, const Page& page, std::string head,
                               std::string tail) {
  std::optional<std::vector<base::JobId>> usual;
  if (!FlagParameter(request, "all")) usual = UsualJobs(core.jobs());
  return [&core, usual = std::move(usual), at = page.after.value_or(base::JobId{}), left = page.limit,
          list = JsonList(std::move(head), std::move(tail))](std::string& text) mutable {
    const jobs::Job* job = nullptr;
    bool more = left > 0;
    if (more && usual) {
      const auto next = std::upper_bound(usual->begin(), usual->end(), at);
      more = next != usual->end();
      if (more) at = *next;
      if (more) job = core.jobs().Find(at);
    } else if (more) {
      job = core.jobs().After(at);
      more = job;
      if (job) at = job->id;
    }
    if (!more) {
      list.End(text);
      return false;
    }
    if (!job) return true;  // forgotten meanwhile
    list.Add(text, api::Encode(core.View(*job)));
    --left;
    return true;
  };
}

void ShowJobs(Core& core, const http::ExchangePtr& exchange) {
  const auto page = PageOf(exchange->request());
  if (!page) return SendError(exchange, page.error());
  core.lists().Answer(exchange, "application/json", [&core, exchange, page = *page](const auto& then) {
    then(JobsSource(core, exchange->request(), page, R"({"jobs":[)", "]}\n"));
  });
}

void ShowStatus(Core& core, const http::ExchangePtr& exchange) {
  const auto page = PageOf(exchange->request());
  if (!page) return SendError(exchange, page.error());
  core.lists().Answer(exchange, "application/json", [&core, exchange, page = *page](const auto& then) {
    api::StatusView status;
    status.gpus = Gpus(core).gpus;
    if (!core.inventory().problem.empty()) status.driver_error = core.inventory().problem;
    if (!FlagParameter(exchange->request(), "all")) {
      const auto& counts = core.jobs();
      status.waiting_left_out = LeftOut(counts.WaitingCount(), kWaitingShown);
      status.ended_left_out = LeftOut(counts.Ended().size(), kEndedShown);
    }
    // The jobs' place is the one list of that name that is empty: no text has such quotes.
    const std::string frame = api::Encode(status) + "\n";
    const std::string empty = R"("jobs":[])";
    const auto place = frame.find(empty) + empty.size() - 1;
    then(JobsSource(core, exchange->request(), page, frame.substr(0, place), frame.substr(place)));
  });
}

void ShowGpus(Core& core, const http::ExchangePtr& exchange) { SendJson(exchange, api::Encode(Gpus(core))); }

void ShowGpu(Core& core, const http::ExchangePtr& exchange, const std::string& reference) {
  const auto gpu = gpu::Select(core.inventory().gpus, reference);
  if (!gpu) return SendError(exchange, gpu.error());
  const auto* status = core.guard().Find(gpu->uuid);
  if (!status)
    return SendError(exchange, {base::ErrorCode::kNotFound, "GPU " + reference + " has just gone", {}});
  SendJson(exchange, api::Encode(core.View(*status)));
}

}  // namespace

void StatusModule::AddRoutes(http::Router& router) {
  const auto seen = [this](void (*show)(Core&, const http::ExchangePtr&)) {
    return WhenReady(core_, Act::kSee,
                     [this, show](const http::ExchangePtr& exchange) { show(core_, exchange); });
  };
  AddLiveRoute(router);
  router.Add("GET", "/v1/version", [this](const http::ExchangePtr& exchange, const http::PathParameters&) {
    api::VersionView version;
    version.version = core_.options().version;
    version.pid = ::getpid();
    version.user_mode = core_.options().user_mode;
    SendJson(exchange, api::Encode(version));
  });
  router.Add("GET", "/v1/status", seen(ShowStatus));
  router.Add("GET", "/v1/gpus", seen(ShowGpus));
  router.Add("GET", "/v1/gpus/{ref}",
             [this](const http::ExchangePtr& exchange, const http::PathParameters& parameters) {
               if (auto may = core_.Check(exchange->request().peer, Act::kSee); !may)
                 return SendError(exchange, may.error());
               core_.WhenReady([this, exchange, reference = parameters.at("ref")] {
                 ShowGpu(core_, exchange, reference);
               });
             });
  router.Add("GET", "/v1/jobs", seen(ShowJobs));
  AddEventRoutes(router);
}

}  // namespace gpuman::daemon
