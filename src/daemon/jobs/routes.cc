// Routes of jobs that start at once, and routes on any job.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "api/queue_json.h"
#include "daemon/device/module.h"
#include "daemon/job_requests/job_request.h"
#include "daemon/jobs/log_stream.h"
#include "daemon/jobs/routes.h"
#include "daemon/mps/module.h"
#include "daemon/notify/module.h"
#include "daemon/queue/update.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

using Done = jobs::JobManager::Done<jobs::Job>;

// Starts the job; if the job asks for MPS, once MPS runs.
base::Result<> Create(JobsModule& jobs, jobs::Job job, Done done) {
  if (!job.spec->mps) {
    jobs.core().jobs().Create(std::move(job), std::move(done));
    return {};
  }
  const auto is_unfit = [&](const gpu::Gpu& one) { return jobs.queue().IsUnfit(one); };
  GPUMAN_ASSIGN(const auto gpu, jobs.mps().Choose(job.gpus, is_unfit));
  if (job.spec->compute) GPUMAN_TRY(jobs.mps().MayHaveShares(gpu));
  job.gpus = {gpu};
  jobs.mps().WhenRunning(
      {gpu}, [&jobs, gpu, job = std::move(job), done = std::move(done)](base::Result<> ready) mutable {
        if (ready && job.spec->compute) ready = jobs.mps().MayHaveShares(gpu);
        if (!ready) return done(base::Fail(ready.error()));
        jobs.core().jobs().Create(std::move(job), std::move(done));
      });
  return {};
}

// What a user should know of the GPUs of a job that started beside the queue.
Notes NotesOn(JobsModule& jobs, const jobs::Job& job) {
  if (job.queued || job.attached) return {};
  return jobs.queue().NotesOn(job.gpus,
                              job.gpus.empty() ? GpuSelectionReason::kNoneNamed : GpuSelectionReason::kNamed);
}

base::Result<> Run(JobsModule& jobs, const Call<api::RunRequest, api::JobView>& call) {
  GPUMAN_ASSIGN(auto job, JobFromRequest(call.body(), CallerOf(call.peer()), jobs.core().inventory(),
                                         DriverEnvironment()));
  if (const auto& profile = job.spec->device_profile)
    GPUMAN_TRY(jobs.device().devices().CheckProfile(*profile));
  GPUMAN_ASSIGN(job.resource_limits, ResourceLimitsOf(call.peer(), call.exchange()->Process()));
  return Create(jobs, std::move(job), call.After([&jobs, call](const jobs::Job& made) {
    const bool chosen = call.body().gpus.empty() && !made.gpus.empty();
    AnswerWithJob(jobs.queue(), call)(
        made,
        chosen ? jobs.queue().NotesOn(made.gpus, GpuSelectionReason::kOnlyOneWithMps) : NotesOn(jobs, made));
  }));
}

// A job that root attached for a user, such as a step of Slurm, has the limit that the user was allotted. The
// user may not raise that limit or take it away.
base::Result<> MayLoosen(JobsModule& jobs, const http::Peer& peer, const jobs::Job& job) {
  const auto root =
      job.attached && job.keeper ? jobs.core().processes().Owner(job.keeper->pid) : std::nullopt;
  if (!root || *root == job.owner->uid || jobs.core().Check(peer, api::Right::kManage)) return {};
  return base::Fail(base::ErrorCode::kPermissionDenied,
                    fmt::format("job {} '{}' was given its limit by who attached it", job.id.value, job.tag),
                    "root or an administrator may raise it or take it away; anything less is yours to set");
}

bool Loosens(const api::RunOptionsPatch& update, const gpu::Inventory& inventory, const jobs::Job& job) {
  const auto& limit = job.spec->memory;
  spec::RunOptions asked = *job.spec;
  if (!limit || !api::SetOptions(update, asked)) return false;
  return !asked.memory || std::any_of(inventory.gpus.begin(), inventory.gpus.end(), [&](const gpu::Gpu& gpu) {
    return asked.memory->Of(gpu.memory) > limit->Of(gpu.memory);
  });
}

// Updates a job that never was in the queue.
base::Result<> UpdateRun(JobsModule& jobs, const http::Peer& peer, const jobs::Job& job,
                         const api::RunOptionsPatch& update, Done done) {
  if (Loosens(update, jobs.core().inventory(), job)) GPUMAN_TRY(MayLoosen(jobs, peer, job));
  jobs::Job tried = job;
  GPUMAN_TRY(ApplyUpdate(update, jobs.core().inventory(), tried));
  jobs.core().jobs().Update(
      job.id,
      [&](jobs::Job& stored) { (void)ApplyUpdate(update, jobs.core().inventory(), stored).has_value(); },
      std::move(done));
  jobs.core().SampleNow();
  return {};
}

base::Error NotOfTheQueue(const jobs::Job& job) {
  return {base::ErrorCode::kConflict, fmt::format("job {} is not of the queue", job.id.value), {}};
}

base::Result<> ChangeWaiting(JobsModule& jobs, const jobs::Job& changed,
                             const std::function<void(jobs::Job&)>& take, Done done) {
  GPUMAN_ASSIGN(auto claim, jobs.queue().dispatcher().MayBecome(changed));
  jobs.core().jobs().Change(
      changed.id, take,
      [done = std::move(done), claim = std::move(claim)](const base::Result<jobs::Job>& job) mutable {
        claim.reset();
        done(job);
      });
  return {};
}

base::Result<> Change(JobsModule& jobs, const http::Peer& peer, const jobs::Job& job,
                      const api::JobUpdate& update, const JobResultCallback& done) {
  GPUMAN_TRY(MayRewrite(update, peer.uid, job));
  if (!job.queued && update.queue) return base::Fail(NotOfTheQueue(job));
  if (!job.queued) return UpdateRun(jobs, peer, job, update.job, done);
  jobs::Job changed = job;
  const auto lookup = jobs.queue().dispatcher().references().LookupFor(peer.uid);
  GPUMAN_ASSIGN(auto note, ApplyQueueUpdate(update, jobs.core().inventory(), lookup,
                                            jobs.queue().memory_choice_context(), changed));
  GPUMAN_TRY(CheckChanged(jobs, update, changed));
  GPUMAN_TRY(jobs.core().jobs().MayChangeText(job.id, changed));
  // Takes what the changed job asks for. The stored job keeps its own progress.
  const auto take = [&changed](jobs::Job& stored) {
    stored.tag = changed.tag;
    stored.command = changed.command;
    stored.spec = changed.spec;
    stored.array = changed.array;
  };
  const auto answer = [done, notes = note.empty() ? Notes{} : Notes{std::move(note)}](
                          const base::Result<jobs::Job>& stored) { done(stored, notes); };
  if (jobs::IsWaiting(job)) return ChangeWaiting(jobs, changed, take, answer);
  jobs.core().jobs().Update(job.id, take, answer);
  jobs.core().SampleNow();
  return {};
}

base::Result<> Update(JobsModule& jobs, const Call<api::JobUpdate, api::JobView>& call, const jobs::Job& job,
                      const JobResultCallback& done) {
  return Change(jobs, call.peer(), job, call.body(), done);
}

// If the request has a body, the job's settings are changed first.
base::Result<> Restart(JobsModule& jobs, const Call<api::RunOptionsPatch, api::JobView>& call,
                       const jobs::Job& job, const JobResultCallback& done) {
  const auto restart = [&jobs, id = job.id, by = UserOf(call.exchange()), done] {
    jobs.core().jobs().Restart(id, {"restart", "started again by " + by},
                               [&jobs, done](const base::Result<jobs::Job>& again) {
                                 done(again, again ? NotesOn(jobs, *again) : Notes{});
                               });
  };
  if (call.request().body.empty()) {
    restart();
    return {};
  }
  GPUMAN_TRY(jobs.core().jobs().MayRestart(job.id));
  return Change(jobs, call.peer(), job, {call.body(), {}},
                JobResultCallback([done, restart](const base::Result<jobs::Job>& changed, const Notes&) {
                  if (!changed) return done(changed);
                  restart();
                }));
}

using JobCall = Call<api::NoBody, api::JobView>;

base::Result<> Remove(JobsModule& jobs, const JobCall& call, const jobs::Job& job,
                      const JobResultCallback& done) {
  if (FlagParameter(call.request(), "keep_running")) {
    GPUMAN_TRY(MayLoosen(jobs, call.peer(), job));
    jobs.core().jobs().Release(job.id, done);
  } else {
    jobs.core().jobs().Remove(job.id, {"removed", "removed by " + UserOf(call.exchange())}, done);
  }
  return {};
}

base::Result<> Wait(JobsModule& jobs, const JobCall& call, const jobs::Job& job,
                    const JobResultCallback& done) {
  const auto handle = jobs.core().jobs().WaitForEnd(job.id, done);
  if (handle != 0) call.exchange()->OnGone([&jobs, handle] { jobs.core().jobs().CancelWait(handle); });
  return {};
}

base::Result<> ShowInFull(JobsModule& /*jobs*/, const JobCall& /*call*/, const jobs::Job& job,
                          const JobResultCallback& done) {
  done(job);
  return {};
}

base::Result<> ShowLog(JobsModule& jobs, const Call<api::NoBody, api::Text>& call, const jobs::Job& job) {
  const auto& request = call.request();
  LogRequest log{jobs.core().jobs().LogPathOf(job.id), std::nullopt, 0, FlagParameter(request, "follow")};
  GPUMAN_ASSIGN(const auto tail, NumberParameter(request, "tail", 0));
  GPUMAN_ASSIGN(log.offset, NumberParameter(request, "offset", 0));
  if (request.Query("tail")) log.tail = tail;
  LogStream::Start(jobs.core().loop(), jobs.log_readers(), call.exchange(), std::move(log),
                   [&jobs, id = job.id] {
                     const auto* now = jobs.core().jobs().Find(id);
                     return !now || jobs::IsEnded(*now);
                   });
  return {};
}

}  // namespace

base::Result<> RunAgain(JobsModule& jobs, const RedoCall& call, const jobs::Job& old) {
  const api::JobUpdate& changes = call.body().changes;
  if (old.attached)
    return base::Fail(base::ErrorCode::kNotSupported,
                      fmt::format("job {} was not started by gpuman", old.id.value),
                      "start it again where it was started");
  GPUMAN_TRY(MayRewrite(changes, call.peer().uid, old));
  if (changes.queue)
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      fmt::format("job {} was never in the queue: of what it asked for only limits, "
                                  "priority and grace can be changed",
                                  old.id.value),
                      "gpuman submit puts its command into the queue");
  jobs::Job fresh = AskingAsMuch(old);
  fresh.gpus = old.gpus;
  GPUMAN_TRY(ApplyUpdate(changes.job, jobs.core().inventory(), fresh));
  return Create(jobs, std::move(fresh), call.After([&jobs](const jobs::Job& job) {
    return api::SubmissionAnswer{{SubmittedOf(jobs, job.id, /*viewed=*/false)}, NotesOn(jobs, job)};
  }));
}

api::SubmittedJob SubmittedOf(JobsModule& jobs, base::JobId id, bool viewed) {
  api::SubmittedJob one;
  one.id = id.value;
  const auto* const job = jobs.core().jobs().Find(id);
  if (!job) return one;
  one.tag = job->tag;
  one.state = jobs.suspension().StateOf(*job);
  one.reason = job->reason;
  one.reason_detail = job->reason_detail;
  if (!viewed) return one;
  const auto view = jobs.queue().dispatcher().IsViewCheap() ? jobs.queue().View(*job)
                                                            : jobs.core().View(*job, JobDetail::kListed);
  one.state = view.state;
  one.reason = view.reason;
  one.reason_detail = view.reason_detail;
  if (view.queue) one.estimated_start = view.queue->estimated_start;
  if (view.queue) one.estimate_presumed = view.queue->estimate_presumed;
  return one;
}

base::Result<> CheckChanged(JobsModule& jobs, const api::JobUpdate& update, const jobs::Job& changed) {
  if (!update.queue) return {};
  const auto& sets = update.queue->options;
  if (const auto& profile = changed.spec->device_profile; profile && sets.Find("device_profile"))
    GPUMAN_TRY(jobs.device().devices().CheckProfile(*profile));
  if (sets.Find("notify")) GPUMAN_TRY(jobs.notify().notifications().Check(changed.spec->notify));
  return {};
}

jobs::Job AskingAsMuch(const jobs::Job& old) {
  jobs::Job fresh;
  fresh.redo_of = old.id;
  fresh.tag = old.tag;
  fresh.owner = old.owner;
  fresh.command = old.command;
  fresh.directory = old.directory;
  fresh.environment = old.environment;
  fresh.umask = old.umask;
  fresh.resource_limits = old.resource_limits;
  fresh.spec = old.spec;
  return fresh;
}

queue::ReferenceLookup NotingLookup(JobsModule& jobs, const http::ExchangePtr& exchange) {
  return [&jobs, exchange,
          lookup = jobs.queue().dispatcher().references().LookupFor(exchange->request().peer.uid)](
             const queue::Reference& reference) {
    if (reference.kind == queue::Reference::Kind::kTag) NoteOnName(jobs.queue(), exchange, reference.tag);
    return lookup(reference);
  };
}

base::Result<const jobs::Job*> JobFor(JobsModule& jobs, const http::ExchangePtr& exchange,
                                      const std::string& reference, api::Right right) {
  const http::Peer& peer = exchange->request().peer;
  const Dispatcher& dispatcher = jobs.queue().dispatcher();
  GPUMAN_ASSIGN(const auto ids, dispatcher.references().JobsOf(reference, peer.uid));
  if (right == api::Right::kControlJob) GPUMAN_TRY(dispatcher.references().IsOneJob(reference, peer.uid));
  const auto* job = jobs.core().jobs().Find(ids.front());
  if (!job) return base::Fail(base::ErrorCode::kNotFound, "there is no job " + reference);
  GPUMAN_TRY(jobs.core().Check(peer, right, job->owner->uid));
  NoteOnName(jobs.queue(), exchange, reference);
  return job;
}

void JobsModule::AddRoutes(http::Router& router) {
  RouteRegistrar(*this, router)(api::routes::kRun, Run);
  ServeJob(*this, router, api::routes::kJob, ShowInFull, /*in_full=*/true);
  ServeJob(*this, router, api::routes::kUpdateJob, Update);
  ServeJob(*this, router, api::routes::kRemoveJob, Remove);
  ServeJob(*this, router, api::routes::kRestartJob, Restart);
  ServeJob(*this, router, api::routes::kWaitForJob, Wait);
  ServeJob(*this, router, api::routes::kJobLog, ShowLog);
  AddStoryRoutes(router);
  AddSuspendRoutes(router);
  AddAttachRoutes(router);
  AddSubmitRoutes(router);
  AddRedoRoutes(router);
}

}  // namespace gpuman::daemon
