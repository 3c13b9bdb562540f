// Routes of jobs that start at once, and routes on any job.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "api/queue_json.h"
#include "daemon/core/job_request.h"
#include "daemon/device/module.h"
#include "daemon/jobs/log_stream.h"
#include "daemon/jobs/routes.h"
#include "daemon/mps/module.h"
#include "daemon/queue/update.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

using http::ExchangePtr;

// Answers with the changed job, or with the reason why the change failed.
jobs::JobManager::Done<jobs::Job> AnswerWithJob(JobsModule& jobs, const ExchangePtr& exchange,
                                                unsigned status = 200) {
  return [&jobs, exchange, status](base::Result<jobs::Job> job) {
    if (!job) return SendError(exchange, job.error());
    SendJob(jobs.queue(), exchange, *job, status);
  };
}

// Starts the job; if the job asks for MPS, once MPS runs.
void Create(JobsModule& jobs, jobs::Job job, jobs::JobManager::Done<jobs::Job> done) {
  if (!job.spec->mps) return jobs.core().jobs().Create(std::move(job), std::move(done));
  const auto gpu = jobs.mps().Choose(job.gpus);
  if (!gpu) return done(base::Fail(gpu.error()));
  job.gpus = {*gpu};
  jobs.mps().WhenRunning(
      {*gpu}, [&jobs, job = std::move(job), done = std::move(done)](const base::Result<>& ready) mutable {
        if (!ready) return done(base::Fail(ready.error()));
        jobs.core().jobs().Create(std::move(job), std::move(done));
      });
}

void Run(JobsModule& jobs, const Call<api::RunRequest, api::JobView>& call) {
  auto job = JobFromRequest(call.body(), CallerOf(call.peer()), jobs.core().inventory(), DriverEnvironment());
  if (!job) return call.Refuse(job.error());
  if (const auto& profile = job->spec->device_profile)
    if (auto known = jobs.device().devices().CheckProfile(*profile); !known)
      return call.Refuse(known.error());
  auto limits = ResourceLimitsOf(call.peer(), call.exchange()->Process());
  if (!limits) return call.Refuse(limits.error());
  job->resource_limits = std::move(*limits);
  Create(jobs, std::move(*job), AnswerWithJob(jobs, call.exchange(), call.status()));
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

bool Loosens(const api::UpdateRequest& update, const gpu::Inventory& inventory, const jobs::Job& job) {
  const auto& limit = job.spec->memory;
  spec::RunOptions asked = *job.spec;
  if (!limit || !api::SetOptions(update, asked)) return false;
  return !asked.memory || std::any_of(inventory.gpus.begin(), inventory.gpus.end(), [&](const gpu::Gpu& gpu) {
    return asked.memory->Of(gpu.memory) > limit->Of(gpu.memory);
  });
}

// Updates a job that never was in the queue.
void UpdateRun(JobsModule& jobs, const http::Peer& peer, const jobs::Job& job,
               const api::UpdateRequest& update, jobs::JobManager::Done<jobs::Job> done) {
  if (Loosens(update, jobs.core().inventory(), job))
    if (auto may = MayLoosen(jobs, peer, job); !may) return done(base::Fail(may.error()));
  jobs::Job tried = job;
  if (auto fine = ApplyUpdate(update, jobs.core().inventory(), tried); !fine)
    return done(base::Fail(fine.error()));
  jobs.core().jobs().Update(
      job.id,
      [&](jobs::Job& stored) { (void)ApplyUpdate(update, jobs.core().inventory(), stored).has_value(); },
      std::move(done));
  jobs.core().LookNow();
}

base::Error NotOfTheQueue(const jobs::Job& job) {
  return {base::ErrorCode::kConflict, fmt::format("job {} is not of the queue", job.id.value), {}};
}

void ChangeWaiting(JobsModule& jobs, const jobs::Job& changed, const std::function<void(jobs::Job&)>& take,
                   jobs::JobManager::Done<jobs::Job> done) {
  auto claim = jobs.queue().dispatcher().MayBecome(changed);
  if (!claim) return done(base::Fail(claim.error()));
  jobs.core().jobs().Change(
      changed.id, take,
      [done = std::move(done), claim = std::move(*claim)](base::Result<jobs::Job> job) mutable {
        claim.reset();
        done(std::move(job));
      });
}

void Change(JobsModule& jobs, const http::Peer& peer, const jobs::Job& job, const api::JobUpdate& update,
            jobs::JobManager::Done<jobs::Job> done) {
  if (auto may = MayRewrite(update, peer.uid, job); !may) return done(base::Fail(may.error()));
  if (!job.queued && update.queue) return done(base::Fail(NotOfTheQueue(job)));
  if (!job.queued) return UpdateRun(jobs, peer, job, update.job, std::move(done));
  jobs::Job changed = job;
  const auto lookup = jobs.queue().dispatcher().LookupFor(peer.uid);
  auto fine = ApplyQueueUpdate(update, jobs.core().inventory(), lookup, changed);
  if (fine) fine = CheckProfile(jobs, update, changed);
  if (fine) fine = jobs.core().jobs().MayChangeText(job.id, changed);
  if (!fine) return done(base::Fail(fine.error()));
  // Takes what the changed job asks for. The stored job keeps its own progress.
  const auto take = [&changed](jobs::Job& stored) {
    stored.tag = changed.tag;
    stored.command = changed.command;
    stored.spec = changed.spec;
    stored.array = changed.array;
  };
  if (jobs::IsWaiting(job)) return ChangeWaiting(jobs, changed, take, std::move(done));
  jobs.core().jobs().Update(job.id, take, std::move(done));
  jobs.core().LookNow();
}

void Update(JobsModule& jobs, const Call<api::JobUpdate, api::JobView>& call, const jobs::Job& job) {
  Change(jobs, call.peer(), job, call.body(), AnswerWithJob(jobs, call.exchange()));
}

// If the request has a body, the job's settings are changed first.
void Restart(JobsModule& jobs, const Call<api::UpdateRequest, api::JobView>& call, const jobs::Job& job) {
  const auto restart = [&jobs, call, id = job.id] {
    jobs.core().jobs().Restart(id, {"restart", "started again by " + UserOf(call.exchange())},
                               AnswerWithJob(jobs, call.exchange()));
  };
  if (call.request().body.empty()) return restart();
  if (auto may = jobs.core().jobs().MayRestart(job.id); !may) return call.Refuse(may.error());
  Change(jobs, call.peer(), job, {call.body(), {}}, [call, restart](const base::Result<jobs::Job>& changed) {
    if (!changed) return call.Refuse(changed.error());
    restart();
  });
}

using JobCall = Call<api::NoBody, api::JobView>;

void Remove(JobsModule& jobs, const JobCall& call, const jobs::Job& job) {
  if (FlagParameter(call.request(), "keep_running")) {
    if (auto may = MayLoosen(jobs, call.peer(), job); !may) return call.Refuse(may.error());
    return jobs.core().jobs().Release(job.id, AnswerWithJob(jobs, call.exchange()));
  }
  jobs.core().jobs().Remove(job.id, {"removed", "removed by " + UserOf(call.exchange())},
                            AnswerWithJob(jobs, call.exchange()));
}

void Wait(JobsModule& jobs, const JobCall& call, const jobs::Job& job) {
  const auto handle = jobs.core().jobs().WaitForEnd(
      job.id, [&jobs, call](const jobs::Job& ended) { SendJob(jobs.queue(), call.exchange(), ended); });
  if (handle != 0) call.exchange()->OnGone([&jobs, handle] { jobs.core().jobs().CancelWait(handle); });
}

void ShowInFull(JobsModule& jobs, const JobCall& call, const jobs::Job& job) {
  SendJob(jobs.queue(), call.exchange(), job, 200, /*in_full=*/true);
}

void ShowLog(JobsModule& jobs, const Call<api::NoBody, api::Text>& call, const jobs::Job& job) {
  const auto& request = call.request();
  LogRequest log{jobs.core().jobs().LogPathOf(job.id), std::nullopt, 0, FlagParameter(request, "follow")};
  const auto tail = NumberParameter(request, "tail", 0);
  const auto offset = NumberParameter(request, "offset", 0);
  if (!tail) return call.Refuse(tail.error());
  if (!offset) return call.Refuse(offset.error());
  if (request.Query("tail")) log.tail = *tail;
  log.offset = *offset;
  LogStream::Start(jobs.core().loop(), jobs.log_readers(), call.exchange(), std::move(log),
                   [&jobs, id = job.id] {
                     const auto* now = jobs.core().jobs().Find(id);
                     return !now || jobs::IsEnded(*now);
                   });
}

}  // namespace

void RunAgain(JobsModule& jobs, const RedoCall& call, const jobs::Job& old) {
  const api::JobUpdate& changes = call.body().changes;
  if (old.attached)
    return call.Refuse({base::ErrorCode::kNotSupported,
                        fmt::format("job {} was not started by gpuman", old.id.value),
                        "start it again where it was started"});
  if (auto may = MayRewrite(changes, call.peer().uid, old); !may) return call.Refuse(may.error());
  if (changes.queue)
    return call.Refuse({base::ErrorCode::kInvalidArgument,
                        fmt::format("job {} was never in the queue: of what it asked for only limits, "
                                    "priority and grace can be changed",
                                    old.id.value),
                        "gpuman submit puts its command into the queue"});
  jobs::Job fresh = AskingAsMuch(old);
  fresh.gpus = old.gpus;
  if (auto fine = ApplyUpdate(changes.job, jobs.core().inventory(), fresh); !fine)
    return call.Refuse(fine.error());
  Create(jobs, std::move(fresh), [&jobs, call](const base::Result<jobs::Job>& job) {
    if (!job) return call.Refuse(job.error());
    api::SubmittedJob one;
    one.id = job->id.value;
    one.tag = job->tag;
    one.state = jobs.suspension().StateOf(*job);
    one.reason = job->reason;
    one.reason_detail = job->reason_detail;
    call.Send({{std::move(one)}, {}});
  });
}

base::Result<> CheckProfile(JobsModule& jobs, const api::JobUpdate& update, const jobs::Job& changed) {
  const auto& profile = changed.spec->device_profile;
  const bool gives = profile && update.queue && update.queue->options.Find("device_profile") != nullptr;
  return gives ? jobs.device().devices().CheckProfile(*profile) : base::Result<>{};
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

base::Result<const jobs::Job*> JobFor(JobsModule& jobs, const http::Peer& peer, const std::string& reference,
                                      api::Right right) {
  const Dispatcher& dispatcher = jobs.queue().dispatcher();
  GPUMAN_ASSIGN(const auto ids, dispatcher.JobsOf(reference, peer.uid));
  if (right == api::Right::kControlJob) GPUMAN_TRY(dispatcher.IsOneJob(reference, peer.uid));
  const auto* job = jobs.core().jobs().Find(ids.front());
  if (!job) return base::Fail(base::ErrorCode::kNotFound, "there is no job " + reference);
  GPUMAN_TRY(jobs.core().Check(peer, right, job->owner->uid));
  return job;
}

void JobsModule::AddRoutes(http::Router& router) {
  ServeBy(*this, router)(api::routes::kRun, Run);
  ServeJob(*this, router, api::routes::kJob, ShowInFull);
  ServeJob(*this, router, api::routes::kUpdateJob, Update);
  ServeJob(*this, router, api::routes::kRemoveJob, Remove);
  ServeJob(*this, router, api::routes::kRestartJob, Restart);
  ServeJob(*this, router, api::routes::kWaitForJob, Wait);
  ServeJob(*this, router, api::routes::kJobLog, ShowLog);
  AddSuspendRoutes(router);
  AddAttachRoutes(router);
  AddSubmitRoutes(router);
  AddRedoRoutes(router);
}

}  // namespace gpuman::daemon
