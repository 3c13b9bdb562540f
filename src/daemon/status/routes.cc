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

api::GpuList Gpus(StatusModule& module) {
  Core& core = module.core();
  api::GpuList list;
  for (const auto& gpu : core.inventory().gpus) {
    if (const auto* status = core.guard().Find(gpu.uuid)) list.gpus.push_back(core.View(*status));
  }
  return list;
}

// Sorted by the time of the end, not by id: a job that was started again has an old id.
std::vector<base::JobId> LastToEnd(const jobs::JobIndex& jobs) {
  std::vector<std::pair<base::WallTime, base::JobId>> ends;
  for (const auto id : jobs.ended_ids())
    if (const auto* const job = jobs.Find(id))
      ends.emplace_back(job->ended_at.value_or(base::WallTime{}), id);
  const std::size_t shown = std::min(ends.size(), kEndedShown);
  std::partial_sort(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(shown), ends.end(),
                    std::greater<>());
  std::vector<base::JobId> last;
  for (std::size_t i = 0; i < shown; ++i) last.push_back(ends[i].second);
  return last;
}

// The jobs that have not ended, and the ones that ended last, sorted by id.
std::vector<base::JobId> UsualJobs(const jobs::JobIndex& jobs) {
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

// `head`: the text before the first job.
ListAnswerStreamer::Source JobsSource(Core& core, const http::Request& request, const Pagination& page,
                                      std::string head, std::string tail) {
  std::optional<std::vector<base::JobId>> usual;
  if (!FlagParameter(request, "all")) usual = UsualJobs(core.jobs().index());
  return [&core, usual = std::move(usual), at = page.after.value_or(base::JobId{}), left = page.limit,
          list = JsonListWriter(std::move(head), std::move(tail))](std::string& text) mutable {
    const jobs::Job* job = nullptr;
    bool more = left > 0;
    if (more && usual) {
      const auto next = std::upper_bound(usual->begin(), usual->end(), at);
      more = next != usual->end();
      if (more) at = *next;
      if (more) job = core.jobs().Find(at);
    } else if (more) {
      job = core.jobs().index().After(at);
      more = job;
      if (job) at = job->id;
    }
    if (!more) {
      list.End(text);
      return false;
    }
    if (!job) return true;  // forgotten meanwhile
    list.Add(text, api::Encode(core.View(*job, JobDetail::kListed)));
    --left;
    return true;
  };
}

base::Result<> ShowJobs(StatusModule& module, const Call<api::NoBody, api::JobList>& call) {
  Core& core = module.core();
  GPUMAN_ASSIGN(const auto page, PageOf(call.request()));
  core.lists().Answer(call.exchange(), "application/json", [&core, call, page](const auto& then) {
    then(JobsSource(core, call.request(), page, R"({"jobs":[)", "]}\n"));
  });
  return {};
}

base::Result<> ShowStatus(StatusModule& module, const Call<api::NoBody, api::StatusView>& call) {
  Core& core = module.core();
  GPUMAN_ASSIGN(const auto page, PageOf(call.request()));
  if (FlagParameter(call.request(), "details")) core.sampling().WantDetails();
  core.lists().Answer(call.exchange(), "application/json", [&module, &core, call, page](const auto& then) {
    api::StatusView status;
    status.gpus = Gpus(module).gpus;
    const auto& inventory = core.inventory();
    if (!inventory.problem.empty()) status.driver_error = inventory.problem;
    if (!inventory.driver_version.empty()) status.driver_version = inventory.driver_version;
    if (!inventory.cuda_version.empty()) status.cuda_version = inventory.cuda_version;
    if (!FlagParameter(call.request(), "all")) {
      const auto& counts = core.jobs().index();
      status.waiting_left_out = LeftOut(counts.WaitingCount(), kWaitingShown);
      status.ended_left_out = LeftOut(counts.ended_ids().size(), kEndedShown);
    }
    // The only match is the empty list of jobs: inside a JSON text the quotes would be escaped.
    const std::string frame = api::Encode(status) + "\n";
    const std::string empty = R"("jobs":[])";
    const auto place = frame.find(empty) + empty.size() - 1;
    then(JobsSource(core, call.request(), page, frame.substr(0, place), frame.substr(place)));
  });
  return {};
}

base::Result<api::GpuView> ShowGpu(StatusModule& module, const Call<api::NoBody, api::GpuView>& call) {
  Core& core = module.core();
  const std::string& reference = call.Parameter("ref");
  GPUMAN_ASSIGN(const auto gpu, gpu::Select(core.inventory().gpus, reference));
  const auto* status = core.guard().Find(gpu.uuid);
  if (!status) return base::Fail(base::ErrorCode::kNotFound, "GPU " + reference + " has just gone");
  return core.View(*status);
}

api::VersionView Version(StatusModule& module) {
  const DaemonOptions& options = module.core().options();
  api::VersionView version;
  version.version = options.version;
  version.pid = ::getpid();
  version.user_mode = options.user_mode;
  return version;
}

}  // namespace

void StatusModule::AddRoutes(http::Router& router) {
  AddLiveRoute(router, core_);
  const auto serve = RouteRegistrar(*this, router);
  serve(api::routes::kVersion, Version);
  serve(api::routes::kStatus, ShowStatus);
  serve(api::routes::kGpus, Gpus);
  serve(api::routes::kGpu, ShowGpu);
  serve(api::routes::kJobs, ShowJobs);
  AddEventRoutes(router);
}

}  // namespace gpuman::daemon
