// Why a job waits, runs or ended: its record as the queue sees it, its events, and the runs that it waited
// for.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "daemon/jobs/routes.h"
#include "daemon/sharing/module.h"
#include "daemon/shims/module.h"
#include "energy/cost.h"
#include "jobs/story.h"

namespace gpuman::daemon {
namespace {

constexpr std::size_t kMaxEvents = 2000, kMaxOfGpu = 200;
// Runs that ended so soon before the job started had its GPUs until then.
constexpr base::Millis kJustBefore{3'000};
constexpr std::size_t kMaxRuns = 1000;

using StoryCall = Call<api::NoBody, api::JobStory>;

struct StoryRequest {
  jobs::Job job;
  std::vector<std::string> gpus;  // UUIDs
  jobs::StoryFacts facts;
  std::vector<api::MemoryPeakView> peaks;
  std::optional<std::string> used;
  base::Result<> read{};  // whether the store could be read
};

void TakeView(const api::JobView& view, jobs::StoryFacts& facts) {
  facts.state = view.state;
  facts.reason = view.reason.value_or("");
  facts.reason_detail = view.reason_detail.value_or("");
  facts.peak = view.memory.peak;
  facts.peak_parts = view.memory.peak_parts;
  if (!view.refusal) return;
  const api::RefusedAllocationView& refusal = *view.refusal;
  facts.refusal = {refusal.gpu, refusal.asked, refusal.used, refusal.limit, refusal.by, refusal.at};
  facts.refusal_text = refusal.message;
}

// "job 5 'train' (ann)".
std::string NameOf(const jobs::Job& job) {
  return fmt::format("job {} '{}' ({})", job.id.value, job.tag, job.owner->user);
}

void TakeBlockers(const jobs::JobManager& jobs, const queue::Blockers& in_the_way, jobs::StoryFacts& facts) {
  for (const auto& held : in_the_way.holders) {
    if (const jobs::Job* const holder = jobs.Find(held.job))
      facts.in_the_way.push_back({held.gpu, NameOf(*holder), holder->started_at});
    else if (!held.process.empty())
      facts.in_the_way.push_back({held.gpu, held.process + ", no job of gpuman", std::nullopt});
  }
  for (const base::JobId id : in_the_way.in_front)
    if (const jobs::Job* const other = jobs.Find(id)) facts.in_front.push_back(NameOf(*other));
}

void TakeWait(JobsModule& jobs, const jobs::Job& job, jobs::StoryFacts& facts) {
  const auto wait = jobs.sharing().WaitOf(job.id);
  if (!wait || facts.state != spec::JobState::kRunning) return;
  const auto waiting = std::chrono::duration_cast<base::Millis>(wait->waiting);
  facts.wait = jobs::SharedGpuWait{wait->gpus, wait->for_what, jobs.core().clock().Wall() - waiting, {}};
  for (const base::JobId id : wait->others)
    if (const jobs::Job* const other = jobs.core().jobs().Find(id))
      facts.wait->others.push_back(NameOf(*other));
}

base::Result<> ReadFacts(jobs::Store& store, StoryRequest& request) {
  const jobs::Job& job = request.job;
  std::vector<jobs::Event>& events = request.facts.events;
  GPUMAN_ASSIGN(events, store.EventsOf(job.id, kMaxEvents));
  const base::WallTime until = job.ended_at.value_or(base::WallTime::max());
  for (const std::string& gpu : job.started_at ? request.gpus : std::vector<std::string>{}) {
    GPUMAN_ASSIGN(const auto its, store.EventsOfGpu(gpu, *job.started_at, until, kMaxOfGpu));
    events.insert(events.end(), its.begin(), its.end());
  }
  std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  if (!job.queued || !job.started_at) return {};
  jobs::Store::RunCursor from{std::max(job.waiting_since, *job.started_at - kJustBefore)};
  return store.SomeRuns(from, *job.started_at + base::Millis{1}, kMaxRuns, [&](const jobs::RunAccount& run) {
    if (run.ran.count() > 0) request.facts.holders.push_back(run);
  });
}

api::JobStory ViewOf(const StoryRequest& request, const jobs::JobStory& story) {
  api::JobStory view{request.job.id.value, request.job.tag,
                     request.facts.state,  std::string(ToString(story.cause)),
                     story.because,        {},
                     story.left_out,       story.left_out_after,
                     story.advice,         request.peaks,
                     request.used};
  for (const jobs::StoryLine& line : story.lines)
    view.story.push_back({line.at, line.text, line.times, line.last});
  return view;
}

std::vector<api::MemoryPeakView> PeaksOf(const std::vector<jobs::MemoryPeak>& peaks,
                                         const gpu::Inventory& inventory) {
  std::vector<api::MemoryPeakView> views;
  for (const jobs::MemoryPeak& peak : peaks) {
    const gpu::Gpu* const gpu = gpu::FindGpu(inventory, peak.gpu);
    auto& view = views.emplace_back();
    view = {peak.gpu, {}, peak.pid, {}, peak.bytes, peak.parts};
    if (gpu != nullptr) view.number = gpu::NumberOf(*gpu);
    if (!peak.program.empty()) view.program = peak.program;
  }
  return views;
}

// The UUIDs under which events of the job's GPUs are told: of an instance, that of its GPU.
std::vector<std::string> GpusOf(const jobs::Job& job, const gpu::Inventory& inventory) {
  std::vector<std::string> uuids;
  for (const std::string& uuid : job.gpus) {
    const gpu::Gpu* const gpu = gpu::FindGpu(inventory, uuid);
    uuids.push_back(gpu != nullptr ? gpu::WholeGpuOf(*gpu) : uuid);
  }
  return uuids;
}

void Tell(Core& core, const StoryCall& call, StoryRequest& request) {
  if (!request.read) return call.Refuse(request.read.error());
  request.facts.gpu_name = [&core](const std::string& uuid) { return gpu::NameOf(core.inventory(), uuid); };
  request.facts.now = core.clock().Wall();
  call.Send(ViewOf(request, jobs::StoryOf(request.job, request.facts)));
}

base::Result<> Why(JobsModule& jobs, const StoryCall& call, const jobs::Job& job) {
  Core& core = jobs.core();
  const auto request = std::make_shared<StoryRequest>();  // shared by the loop and the store's thread
  jobs.queue().WithView(
      job, /*in_full=*/true,
      [&jobs, &core, call, request](const base::Result<api::JobView>& view,
                                    const queue::Blockers& in_the_way) {
        if (call.exchange()->Gone()) return;
        if (!view) return call.Refuse(view.error());
        // The view may have come later than the request, and the job may have gone on.
        const auto now = StillThere(core, {view->id});
        if (!now) return call.Refuse(now.error());
        request->job = **now;
        request->gpus = GpusOf(request->job, core.inventory());
        request->facts.name = core.jobs().index().NameOf(request->job);
        request->peaks = PeaksOf(jobs.shims().PeaksOf(request->job), core.inventory());
        TakeView(*view, request->facts);
        request->used =
            energy::UseText(view->energy, view->cost, core.config().cost, !spec::IsEnded(view->state));
        TakeBlockers(core.jobs(), in_the_way, request->facts);
        TakeWait(jobs, request->job, request->facts);
        const auto waits = core.ReadStore(
            call.request().party,
            {.read = [request](jobs::Store& store) { request->read = ReadFacts(store, *request); },
             .then = [&core, call, request] { Tell(core, call, *request); },
             .is_cancelled = [exchange = call.exchange()] { return exchange->Gone(); }});
        if (!waits) call.Refuse(waits.error());
      });
  return {};
}

}  // namespace

void JobsModule::AddStoryRoutes(http::Router& router) { ServeJob(*this, router, api::routes::kWhyJob, Why); }

}  // namespace gpuman::daemon
