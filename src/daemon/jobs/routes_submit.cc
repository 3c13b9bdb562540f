// Routes by which jobs are submitted to the queue, or tried out.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "api/queue_json.h"
#include "daemon/device/module.h"
#include "daemon/job_requests/job_request.h"
#include "daemon/jobs/routes.h"
#include "daemon/mps/module.h"
#include "daemon/notify/module.h"
#include "daemon/queue/views.h"
#include "daemon/shims/module.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

using SubmitCall = Call<api::SubmitRequest, api::SubmissionAnswer>;

constexpr std::size_t kMaxJobsInFull = 16;  // jobs; the answer describes each of so few in full
constexpr std::size_t kAtOnce = 64;         // jobs; more are prepared in slices
constexpr std::size_t kJobsAtATime = 16;    // between two looks at the clock
constexpr std::size_t kMax = 1'000'000;

// The answer for the jobs that were stored, as the queue sees them a moment later.
api::SubmissionAnswer AnswerFor(JobsModule& jobs, const std::vector<std::size_t>& heads,
                                const std::vector<base::JobId>& ids) {
  api::SubmissionAnswer answer;
  // For many jobs no user reads the reasons, and a user who submits without a pause does not have to wait for
  // them.
  const bool viewed = heads.size() <= kMaxJobsInFull;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const std::size_t end = i + 1 < heads.size() ? heads[i + 1] : ids.size();
    auto one = SubmittedOf(jobs, ids[heads[i]], viewed);
    const auto* const job = jobs.core().jobs().Find(ids[heads[i]]);
    if (job && job->array.array.value != 0)
      for (std::size_t at = heads[i]; at < end; ++at) one.tasks.push_back(ids[at].value);
    answer.jobs.push_back(std::move(one));
  }
  return answer;
}

api::SubmissionAnswer AnswerFor(const Dispatcher::SubmissionForecast& forecast,
                                const std::vector<std::size_t>& heads, std::vector<std::string> notes) {
  api::SubmissionAnswer answer;
  answer.notes = std::move(notes);
  for (const std::size_t head : heads) {
    const auto& job = forecast.jobs[head];
    api::SubmittedJob one;
    one.tag = job.tag;
    one.gpus = forecast.gpus[head];
    const auto reason = forecast.verdicts[head].reason;
    const bool starts = reason == queue::WaitReason::kStarts && job.state == spec::JobState::kQueued;
    one.state = starts ? spec::JobState::kStarting : job.state;
    if (reason != queue::WaitReason::kStarts) {
      one.reason = ToString(reason);
      one.reason_detail = forecast.details[head];
    }
    if (forecast.starts[head] != queue::kNever) one.estimated_start = forecast.starts[head];
    one.estimate_presumed = forecast.presumed[head];
    answer.jobs.push_back(std::move(one));
  }
  return answer;
}

void SendAnswer(JobsModule& jobs, const SubmitCall& call, api::SubmissionAnswer answer, std::size_t count) {
  if (count <= kAtOnce) return call.Send(answer);
  call.SendAside(jobs.core(), std::move(answer));
}

void TryOut(JobsModule& jobs, const SubmitCall& call, PreparedSubmission prepared, Dispatcher::Claim claim) {
  jobs.queue().dispatcher().TryOut(
      std::move(prepared.jobs),
      call.After([&jobs, call, heads = std::move(prepared.heads),
                  notes = std::move(prepared.notes)](const Dispatcher::SubmissionForecast& forecast) {
        SendAnswer(jobs, call, AnswerFor(forecast, heads, notes), forecast.jobs.size());
      }),
      std::move(claim), [exchange = call.exchange()] { return exchange->Gone(); });
}

// A job that asks for MPS waits for one GPU, on which it runs.
base::Result<> BindToMps(JobsModule& jobs, jobs::Job& job, std::set<std::string>& gpus,
                         std::set<std::string>& with_shares) {
  if (!job.spec->mps) return {};
  if (job.spec->gpus.count != 1)
    return base::Fail(
        base::ErrorCode::kInvalidArgument,
        fmt::format("mps: a client of MPS works on one GPU, and {} are asked for", job.spec->gpus.count),
        "ask for --gpus 1");
  const auto is_unfit = [&](const gpu::Gpu& one) { return jobs.queue().IsUnfit(one); };
  GPUMAN_ASSIGN(auto gpu, jobs.mps().Choose(job.spec->gpus.devices, is_unfit));
  if (job.spec->compute) {
    GPUMAN_TRY(jobs.mps().MayHaveShares(gpu));
    with_shares.insert(gpu);
  }
  job.spec.Change([&](spec::JobSpec& spec) { spec.gpus.devices = {gpu}; });
  gpus.insert(std::move(gpu));
  return {};
}

// A submission on its way. If it has many jobs, it is prepared in slices, between which the loop answers
// other requests. It has its ids from the beginning, so that it can name its jobs. The ids of a refused
// submission are never used.
struct Incoming {
  api::SubmitRequest submitted;
  bool dry_run = false, new_tags = false;
  Caller caller{};
  gpu::Inventory inventory{};
  std::map<std::string, std::string> environment = DriverEnvironment();
  jobs::Shared<jobs::ResourceLimits> limits{};
  queue::ReferenceLookup lookup{};
  std::optional<MemoryChoiceContext> memory{};
  base::JobId first_id{};
  Dispatcher::Claim claim{};
  std::optional<SubmissionPreparer> preparation{};
  PreparedSubmission prepared{};
  std::size_t at = 0, head = 0;                        // the next job and the next head to bind
  std::set<std::string> notes{}, mps{}, mps_shares{};  // the last two: GPUs
};
using IncomingPtr = std::shared_ptr<Incoming>;  // shared by its slices

void Enqueue(JobsModule& jobs, const SubmitCall& call, const IncomingPtr& incoming) {
  jobs.queue().dispatcher().Submit(
      std::move(incoming->prepared.jobs),
      call.After([&jobs, call, heads = std::move(incoming->prepared.heads),
                  chosen = std::move(incoming->prepared.notes),
                  notes = std::move(incoming->notes)](const std::vector<base::JobId>& ids) {
        auto answer = AnswerFor(jobs, heads, ids);
        answer.notes = chosen;
        answer.notes.insert(answer.notes.end(), notes.begin(), notes.end());
        SendAnswer(jobs, call, std::move(answer), ids.size());
      }),
      std::move(incoming->claim));
}

// Submits the prepared jobs to the queue, or tries them out.
void Go(JobsModule& jobs, const SubmitCall& call, const IncomingPtr& incoming) {
  if (incoming->dry_run)
    return TryOut(jobs, call.WithStatus(200), std::move(incoming->prepared), std::move(incoming->claim));
  const auto& gpus = incoming->mps;
  if (gpus.empty()) return Enqueue(jobs, call, incoming);
  jobs.mps().WhenRunning({gpus.begin(), gpus.end()}, call.After([&jobs, call, incoming]() -> base::Result<> {
    for (const auto& gpu : incoming->mps_shares) GPUMAN_TRY(jobs.mps().MayHaveShares(gpu));
    Enqueue(jobs, call, incoming);
    return {};
  }));
}

// Checks what the jobs of one submission have in common once, with the first job.
base::Result<> CheckHead(JobsModule& jobs, const jobs::Job& head, std::set<std::string>& notes) {
  GPUMAN_TRY(jobs.notify().notifications().Check(head.spec->notify));
  if (const auto& profile = head.spec->device_profile)
    GPUMAN_TRY(jobs.device().devices().CheckProfile(*profile));
  if (auto note = jobs.notify().notifications().NoteOn(head.spec->notify); !note.empty())
    notes.insert(std::move(note));
  if (auto note = jobs.shims().TightLimitOf(head)) notes.insert(std::move(*note));
  return {};
}

// False: there are more.
base::Result<bool> BindSome(JobsModule& jobs, Incoming& incoming, const base::TimeSlice* turn) {
  auto& [prepared, heads, notes] = incoming.prepared;
  for (auto& at = incoming.at; at < prepared.size(); ++at) {
    if (turn && at % kJobsAtATime == 0 && turn->IsOver()) return false;
    if (incoming.head < heads.size() && heads[incoming.head] == at) {
      ++incoming.head;
      if (incoming.new_tags) GPUMAN_TRY(jobs.core().jobs().index().TagIsFree(prepared[at].tag));
      GPUMAN_TRY(CheckHead(jobs, prepared[at], incoming.notes));
    }
    GPUMAN_TRY(BindToMps(jobs, prepared[at], incoming.mps, incoming.mps_shares));
    if (incoming.first_id.value != 0)
      prepared[at].id = {incoming.first_id.value + static_cast<std::int64_t>(at)};
  }
  return true;
}

// False: there are more.
base::Result<bool> PrepareSome(JobsModule& jobs, Incoming& incoming, const base::TimeSlice& turn) {
  while (incoming.preparation) {
    if (turn.IsOver()) return false;
    GPUMAN_ASSIGN(const bool more, incoming.preparation->Continue(kJobsAtATime));
    if (more) continue;
    incoming.prepared = incoming.preparation->Take();
    incoming.preparation.reset();
    // To free a large request takes long, so a worker does it.
    const auto left = std::make_shared<api::SubmitRequest>(std::move(incoming.submitted));
    jobs.core().Aside(incoming.caller.uid, {[left] { left->jobs.clear(); }});
  }
  return BindSome(jobs, incoming, &turn);
}

base::Result<> TakeInSlices(JobsModule& jobs, const SubmitCall& call, const IncomingPtr& incoming,
                            std::size_t count) {
  const uid_t user = call.peer().uid;
  if (count > kMax)
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      fmt::format("{} jobs are too many for one request: at most {}", count, kMax),
                      "submit them in parts");
  incoming->first_id = jobs.core().jobs().Reserve(count);
  incoming->preparation.emplace(
      incoming->submitted,
      SubmissionContext{incoming->caller, incoming->inventory, incoming->environment, incoming->limits,
                        incoming->first_id, jobs.core().clock().Wall(), incoming->lookup, *incoming->memory});
  jobs.core().slices().Add(user, [&jobs, call, incoming](const base::TimeSlice& turn) {
    const auto ready = PrepareSome(jobs, *incoming, turn);
    if (!ready) {
      call.Refuse(ready.error());
      return false;
    }
    if (!*ready) return true;
    Go(jobs, call, incoming);
    return false;
  });
  return {};
}

base::Result<> Take(JobsModule& jobs, const SubmitCall& call) {
  const auto& peer = call.peer();
  const auto incoming = std::make_shared<Incoming>();
  incoming->submitted = call.TakeBody();
  incoming->dry_run = incoming->submitted.dry_run;
  incoming->new_tags = incoming->submitted.new_tags;
  incoming->caller = jobs.callers().Of(peer);
  incoming->inventory = jobs.core().inventory();
  GPUMAN_ASSIGN(auto limits, ResourceLimitsOf(peer, call.exchange()->Process()));
  incoming->limits = jobs::Shared<jobs::ResourceLimits>(std::move(limits));
  incoming->lookup = NotingLookup(jobs, call.exchange());
  incoming->memory.emplace(jobs.queue().memory_choice_context());
  const std::size_t count = CountJobs(incoming->submitted);
  // Claimed before so many jobs are made: jobs on their way count.
  const auto& caller = incoming->caller;
  GPUMAN_ASSIGN(incoming->claim,
                jobs.queue().dispatcher().claims().TakeForUser({caller.uid, caller.gid, {}, caller.user},
                                                               count, daemon::TextOf(incoming->submitted)));
  if (count > kAtOnce) return TakeInSlices(jobs, call, incoming, count);
  GPUMAN_ASSIGN(
      incoming->prepared,
      Prepare(incoming->submitted, {incoming->caller, incoming->inventory, incoming->environment,
                                    incoming->limits, jobs.core().jobs().index().NextId(),
                                    jobs.core().clock().Wall(), incoming->lookup, *incoming->memory}));
  GPUMAN_TRY(BindSome(jobs, *incoming, nullptr));
  Go(jobs, call, incoming);
  return {};
}

}  // namespace

void JobsModule::AddSubmitRoutes(http::Router& router) {
  RouteRegistrar(*this, router)(api::routes::kSubmit, Take);
}

}  // namespace gpuman::daemon
