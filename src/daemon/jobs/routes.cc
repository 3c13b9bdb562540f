// Jobs that are run at once, and what is done to any job.
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
using http::PathParameters;

// Answers with the job that came of a change, or with why it did not.
jobs::JobManager::Done<jobs::Job> AnswerWithJob(JobsModule& jobs, const ExchangePtr& exchange,
                                                unsigned status = 200) {
  return [&jobs, exchange, status](base::Result<jobs::Job> job) {
    if (!job) return SendError(exchange, job.error());
    SendJob(jobs.queue(), exchange, *job, status);
  };
}

// The job a path names, if it exists and the caller may do this to it.
base::Result<const jobs::Job*> JobFor(JobsModule& jobs, const ExchangePtr& exchange,
                                      const PathParameters& parameters, Act act) {
  GPUMAN_ASSIGN(const auto ids,
                jobs.queue().dispatcher().JobsOf(parameters.at("ref"), exchange->request().peer.uid));
  if (act != Act::kSee && act != Act::kReadLog)
    GPUMAN_TRY(jobs.queue().dispatcher().IsOneJob(parameters.at("ref"), exchange->request().peer.uid));
  const auto id = ids.front();  // of an array: its first task
  const auto* job = jobs.core().jobs().Find(id);
  if (!job) return base::Fail(base::ErrorCode::kNotFound, "there is no job " + parameters.at("ref"));
  GPUMAN_TRY(jobs.core().Check(exchange->request().peer, act, job->owner->uid));
  return job;
}

// Starts it, where it asks for MPS once that runs.
void Create(JobsModule& jobs, jobs::Job job, jobs::JobManager::Done<jobs::Job> done) {
  if (!job.mps) return jobs.core().jobs().Create(std::move(job), std::move(done));
  const auto gpu = jobs.mps().Choose(job.gpus);
  if (!gpu) return done(base::Fail(gpu.error()));
  job.gpus = {*gpu};
  jobs.mps().WhenRunning(
      {*gpu}, [&jobs, job = std::move(job), done = std::move(done)](const base::Result<>& ready) mutable {
        if (!ready) return done(base::Fail(ready.error()));
        jobs.core().jobs().Create(std::move(job), std::move(done));
      });
}

void Run(JobsModule& jobs, const ExchangePtr& exchange, const api::RunRequest& wanted) {
  const auto& request = exchange->request();
  auto job = JobFromRequest(wanted, CallerOf(request.peer), jobs.core().inventory(), DriverEnvironment());
  if (!job) return SendError(exchange, job.error());
  if (!job->device_profile.empty())
    if (auto known = jobs.device().devices().CheckProfile(job->device_profile); !known)
      return SendError(exchange, known.error());
  auto limits = ResourceLimitsOf(request.peer, exchange->Process());
  if (!limits) return SendError(exchange, limits.error());
  job->resource_limits = std::move(*limits);
  Create(jobs, std::move(*job), AnswerWithJob(jobs, exchange, 201));
}

void Submit(JobsModule& jobs, const ExchangePtr& exchange) {
  if (auto may = jobs.core().Check(exchange->request().peer, Act::kSubmit); !may)
    return SendError(exchange, may.error());
  WithBody<api::RunRequest>(jobs.core(), exchange, [&jobs, exchange](const api::RunRequest& wanted) {
    Run(jobs, exchange, wanted);
  });
}

// What root attached for a user, such as a step of Slurm, has the limit that the user was allotted: taking it
// away, or raising it, is not the user's.
base::Result<> MayLoosen(JobsModule& jobs, const http::Peer& peer, const jobs::Job& job) {
  const auto root =
      job.attached && job.keeper ? jobs.core().processes().Owner(job.keeper->pid) : std::nullopt;
  if (!root || *root == job.owner->uid || jobs.core().Check(peer, Act::kManage)) return {};
  return base::Fail(base::ErrorCode::kPermissionDenied,
                    fmt::format("job {} '{}' was given its limit by who attached it", job.id.value, job.tag),
                    "root or an administrator may raise it or take it away; anything less is yours to set");
}

bool Loosens(const api::UpdateRequest& update, const gpu::Inventory& inventory, const jobs::Job& job) {
  if (!job.memory || !update.memory) return job.memory && update.clear_memory;
  return std::any_of(inventory.gpus.begin(), inventory.gpus.end(), [&](const gpu::Gpu& gpu) {
    return update.memory->Of(gpu.memory) > job.memory->Of(gpu.memory);
  });
}

// Of a job that never was in the queue.
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

void Change(JobsModule& jobs, const http::Peer& peer, const jobs::Job& job, const api::JobUpdate& update,
            jobs::JobManager::Done<jobs::Job> done) {
  if (auto may = MayRewrite(update, peer.uid, job); !may) return done(base::Fail(may.error()));
  if (!job.queued && update.queue) return done(base::Fail(NotOfTheQueue(job)));
  if (!job.queued) return UpdateRun(jobs, peer, job, update.job, std::move(done));
  PreparedJob changed{job, jobs.queue().dispatcher().RequestFor(job)};
  const auto lookup = jobs.queue().dispatcher().LookupFor(peer.uid);
  auto fine = ApplyQueueUpdate(update, jobs.core().inventory(), lookup, changed);
  if (fine && jobs::IsWaiting(job)) fine = jobs.queue().dispatcher().MayBecome(changed);
  if (fine) fine = jobs.core().jobs().MayChangeText(job.id, changed.job);
  if (!fine) return done(base::Fail(fine.error()));
  // What it asks for; how far it got is its own.
  const auto take = [changed = std::move(changed.job)](jobs::Job& stored) {
    stored.tag = changed.tag;
    stored.command = changed.command;
    stored.memory = changed.memory;
    stored.soft = changed.soft;
    stored.priority = changed.priority;
    stored.weight = changed.weight;
    stored.share = changed.share;
    stored.grace = changed.grace;
    stored.queue_spec = changed.queue_spec;
    stored.array = changed.array;
  };
  if (jobs::IsWaiting(job)) return jobs.core().jobs().Change(job.id, take, std::move(done));
  jobs.core().jobs().Update(job.id, take, std::move(done));
  jobs.core().LookNow();
}

void Update(JobsModule& jobs, const ExchangePtr& exchange, const jobs::Job& named) {
  WithBody<api::JobUpdate>(
      jobs.core(), exchange, [&jobs, exchange, id = named.id](const api::JobUpdate& update) {
        const auto* const job = jobs.core().jobs().Find(id);
        if (!job) return SendError(exchange, {base::ErrorCode::kNotFound, "the job is gone", {}});
        Change(jobs, exchange->request().peer, *job, update, AnswerWithJob(jobs, exchange));
      });
}

// With a body its settings change before.
void Restart(JobsModule& jobs, const ExchangePtr& exchange, const jobs::Job& job) {
  const auto restart = [&jobs, exchange, id = job.id] {
    jobs.core().jobs().Restart(id, {"restart", "started again by " + UserOf(exchange)},
                               AnswerWithJob(jobs, exchange));
  };
  const auto& body = exchange->request().body;
  if (body.empty()) return restart();
  const auto update = api::Decode<api::UpdateRequest>(body);
  if (!update) return SendError(exchange, update.error());
  if (auto may = jobs.core().jobs().MayRestart(job.id); !may) return SendError(exchange, may.error());
  Change(jobs, exchange->request().peer, job, {*update, {}},
         [exchange, restart](const base::Result<jobs::Job>& changed) {
           if (!changed) return SendError(exchange, changed.error());
           restart();
         });
}

void Remove(JobsModule& jobs, const ExchangePtr& exchange, const jobs::Job& job) {
  if (FlagParameter(exchange->request(), "keep_running")) {
    if (auto may = MayLoosen(jobs, exchange->request().peer, job); !may)
      return SendError(exchange, may.error());
    return jobs.core().jobs().Release(job.id, AnswerWithJob(jobs, exchange));
  }
  jobs.core().jobs().Remove(job.id, {"removed", "removed by " + UserOf(exchange)},
                            AnswerWithJob(jobs, exchange));
}

void Wait(JobsModule& jobs, const ExchangePtr& exchange, const jobs::Job& job) {
  const auto handle = jobs.core().jobs().WaitForEnd(
      job.id, [&jobs, exchange](const jobs::Job& ended) { SendJob(jobs.queue(), exchange, ended); });
  if (handle != 0) exchange->OnGone([&jobs, handle] { jobs.core().jobs().CancelWait(handle); });
}

void ShowInFull(JobsModule& jobs, const ExchangePtr& exchange, const jobs::Job& job) {
  SendJob(jobs.queue(), exchange, job, 200, /*in_full=*/true);
}

void ShowLog(JobsModule& jobs, const ExchangePtr& exchange, const jobs::Job& job) {
  const auto& request = exchange->request();
  LogRequest log{jobs.core().jobs().LogPathOf(job.id), std::nullopt, 0, FlagParameter(request, "follow")};
  const auto tail = NumberParameter(request, "tail", 0);
  const auto offset = NumberParameter(request, "offset", 0);
  if (!tail) return SendError(exchange, tail.error());
  if (!offset) return SendError(exchange, offset.error());
  if (request.Query("tail")) log.tail = *tail;
  log.offset = *offset;
  LogStream::Start(jobs.core().loop(), jobs.log_readers(), exchange, std::move(log), [&jobs, id = job.id] {
    const auto* now = jobs.core().jobs().Find(id);
    return !now || jobs::IsEnded(*now);
  });
}

}  // namespace

void RunAgain(JobsModule& jobs, const ExchangePtr& exchange, const jobs::Job& old,
              const api::JobUpdate& changes) {
  const auto& peer = exchange->request().peer;
  if (old.attached)
    return SendError(exchange, {base::ErrorCode::kNotSupported,
                                fmt::format("job {} was not started by gpuman", old.id.value),
                                "start it again where it was started"});
  if (auto may = MayRewrite(changes, peer.uid, old); !may) return SendError(exchange, may.error());
  if (changes.queue)
    return SendError(exchange,
                     {base::ErrorCode::kInvalidArgument,
                      fmt::format("job {} was never in the queue: of what it asked for only limits, "
                                  "priority and grace can be changed",
                                  old.id.value),
                      "gpuman submit puts its command into the queue"});
  jobs::Job fresh = AskingAsMuch(old);
  fresh.gpus = old.gpus;
  fresh.restart = old.restart;
  fresh.device_profile = old.device_profile;
  if (auto fine = ApplyUpdate(changes.job, jobs.core().inventory(), fresh); !fine)
    return SendError(exchange, fine.error());
  Create(jobs, std::move(fresh), [&jobs, exchange](const base::Result<jobs::Job>& job) {
    if (!job) return SendError(exchange, job.error());
    api::SubmittedJob one;
    one.id = job->id.value;
    one.tag = job->tag;
    one.state = jobs.suspension().StateOf(*job);
    one.reason = job->reason;
    one.reason_detail = job->reason_detail;
    SendJson(exchange, api::Encode(api::SubmissionAnswer{{std::move(one)}, {}}), 201);
  });
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
  fresh.memory = old.memory;
  fresh.soft = old.soft;
  fresh.priority = old.priority;
  fresh.grace = old.grace;
  fresh.preload = old.preload;
  fresh.share = old.share;
  fresh.weight = old.weight;
  fresh.oversubscribe = old.oversubscribe;
  fresh.mps = old.mps;
  fresh.mps_threads = old.mps_threads;
  fresh.queue_spec = old.queue_spec;
  return fresh;
}

http::RouteHandler OnJob(JobsModule& jobs, Act may,
                         std::function<void(const ExchangePtr&, const jobs::Job&)> act) {
  return [&jobs, may, act = std::move(act)](const ExchangePtr& exchange, const PathParameters& parameters) {
    const auto job = JobFor(jobs, exchange, parameters, may);
    if (!job) return SendError(exchange, job.error());
    act(exchange, **job);
  };
}

void JobsModule::AddRoutes(http::Router& router) {
  const auto on_job = [this](Act may, void (*act)(JobsModule&, const ExchangePtr&, const jobs::Job&)) {
    return OnJob(*this, may, [this, act](const ExchangePtr& exchange, const jobs::Job& job) {
      act(*this, exchange, job);
    });
  };
  router.Add("POST", "/v1/jobs", [this](const ExchangePtr& exchange, const PathParameters&) {
    core_.WhenReady([this, exchange] { Submit(*this, exchange); });
  });
  router.Add("GET", "/v1/jobs/{ref}", on_job(Act::kSee, ShowInFull));
  router.Add("PATCH", "/v1/jobs/{ref}", on_job(Act::kControl, Update));
  router.Add("DELETE", "/v1/jobs/{ref}", on_job(Act::kControl, Remove));
  router.Add("POST", "/v1/jobs/{ref}/restart", on_job(Act::kControl, Restart));
  router.Add("GET", "/v1/jobs/{ref}/wait", on_job(Act::kSee, Wait));
  router.Add("GET", "/v1/jobs/{ref}/log", on_job(Act::kReadLog, ShowLog));
  AddSuspendRoutes(router);
  AddAttachRoutes(router);
  AddSubmitRoutes(router);
  AddRedoRoutes(router);
}

}  // namespace gpuman::daemon
