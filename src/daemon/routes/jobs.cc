#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "api/queue_json.h"
#include "daemon/device/module.h"
#include "daemon/job_request.h"
#include "daemon/log_stream.h"
#include "daemon/mps/module.h"
#include "daemon/queue/update.h"
#include "daemon/routes/routes.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

using http::ExchangePtr;
using http::PathParameters;

// Answers with the job that came of a change, or with why it did not.
jobs::JobManager::Done<jobs::Job> AnswerWithJob(Service& service, const ExchangePtr& exchange,
                                                unsigned status = 200) {
  return [&service, exchange, status](base::Result<jobs::Job> job) {
    if (!job) return SendError(exchange, job.error());
    SendJob(service, exchange, *job, status);
  };
}

// The job a path names, if it exists and the caller may do this to it.
base::Result<const jobs::Job*> JobFor(Service& service, const ExchangePtr& exchange,
                                      const PathParameters& parameters, Act act) {
  GPUMAN_ASSIGN(const auto ids, service.queue().JobsOf(parameters.at("ref"), exchange->request().peer.uid));
  if (act != Act::kSee && act != Act::kReadLog)
    GPUMAN_TRY(service.queue().IsOneJob(parameters.at("ref"), exchange->request().peer.uid));
  const auto id = ids.front();  // of an array: its first task
  const auto* job = service.core().jobs().Find(id);
  if (!job) return base::Fail(base::ErrorCode::kNotFound, "there is no job " + parameters.at("ref"));
  GPUMAN_TRY(service.core().Check(exchange->request().peer, act, job->owner->uid));
  return job;
}

// A route on one job; `act_on` gets it when it exists and the caller may.
template <typename ActOn>
http::RouteHandler OnJob(Service& service, Act act, ActOn act_on) {
  return [&service, act, act_on](const ExchangePtr& exchange, const PathParameters& parameters) {
    const auto job = JobFor(service, exchange, parameters, act);
    if (!job) return SendError(exchange, job.error());
    act_on(exchange, **job);
  };
}

// Starts it, where it asks for MPS once that runs.
void Create(Service& service, jobs::Job job, jobs::JobManager::Done<jobs::Job> done) {
  if (!job.mps) return service.core().jobs().Create(std::move(job), std::move(done));
  const auto gpu = service.mps().Choose(job.gpus);
  if (!gpu) return done(base::Fail(gpu.error()));
  job.gpus = {*gpu};
  service.mps().WhenRunning(
      {*gpu}, [&service, job = std::move(job), done = std::move(done)](const base::Result<>& ready) mutable {
        if (!ready) return done(base::Fail(ready.error()));
        service.core().jobs().Create(std::move(job), std::move(done));
      });
}

void Run(Service& service, const ExchangePtr& exchange, const api::RunRequest& wanted) {
  const auto& request = exchange->request();
  auto job = JobFromRequest(wanted, CallerOf(request.peer), service.core().inventory(), DriverEnvironment());
  if (!job) return SendError(exchange, job.error());
  if (!job->device_profile.empty())
    if (auto known = service.device().devices().CheckProfile(job->device_profile); !known)
      return SendError(exchange, known.error());
  auto limits = ResourceLimitsOf(request.peer, exchange->Process());
  if (!limits) return SendError(exchange, limits.error());
  job->resource_limits = std::move(*limits);
  Create(service, std::move(*job), AnswerWithJob(service, exchange, 201));
}

void Submit(Service& service, const ExchangePtr& exchange) {
  if (auto may = service.core().Check(exchange->request().peer, Act::kSubmit); !may)
    return SendError(exchange, may.error());
  WithBody<api::RunRequest>(service.core(), exchange, [&service, exchange](const api::RunRequest& wanted) {
    Run(service, exchange, wanted);
  });
}

// What root attached for a user, such as a step of Slurm, has the limit that the user was allotted: taking it
// away, or raising it, is not the user's.
base::Result<> MayLoosen(Service& service, const http::Peer& peer, const jobs::Job& job) {
  const auto root =
      job.attached && job.keeper ? service.core().processes().Owner(job.keeper->pid) : std::nullopt;
  if (!root || *root == job.owner->uid || service.core().Check(peer, Act::kManage)) return {};
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
void UpdateRun(Service& service, const http::Peer& peer, const jobs::Job& job,
               const api::UpdateRequest& update, jobs::JobManager::Done<jobs::Job> done) {
  if (Loosens(update, service.core().inventory(), job))
    if (auto may = MayLoosen(service, peer, job); !may) return done(base::Fail(may.error()));
  jobs::Job tried = job;
  if (auto fine = ApplyUpdate(update, service.core().inventory(), tried); !fine)
    return done(base::Fail(fine.error()));
  service.core().jobs().Update(
      job.id,
      [&](jobs::Job& stored) { (void)ApplyUpdate(update, service.core().inventory(), stored).has_value(); },
      std::move(done));
  service.core().LookNow();
}

base::Error NotOfTheQueue(const jobs::Job& job) {
  return {base::ErrorCode::kConflict, fmt::format("job {} is not of the queue", job.id.value), {}};
}

void Change(Service& service, const http::Peer& peer, const jobs::Job& job, const api::JobUpdate& update,
            jobs::JobManager::Done<jobs::Job> done) {
  if (auto may = MayRewrite(update, peer.uid, job); !may) return done(base::Fail(may.error()));
  if (!job.queued && update.queue) return done(base::Fail(NotOfTheQueue(job)));
  if (!job.queued) return UpdateRun(service, peer, job, update.job, std::move(done));
  PreparedJob changed{job, service.queue().RequestFor(job)};
  const auto lookup = service.queue().LookupFor(peer.uid);
  auto fine = ApplyQueueUpdate(update, service.core().inventory(), lookup, changed);
  if (fine && jobs::IsWaiting(job)) fine = service.queue().MayBecome(changed);
  if (fine) fine = service.core().jobs().MayChangeText(job.id, changed.job);
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
  if (jobs::IsWaiting(job)) return service.core().jobs().Change(job.id, take, std::move(done));
  service.core().jobs().Update(job.id, take, std::move(done));
  service.core().LookNow();
}

void Update(Service& service, const ExchangePtr& exchange, const jobs::Job& named) {
  WithBody<api::JobUpdate>(
      service.core(), exchange, [&service, exchange, id = named.id](const api::JobUpdate& update) {
        const auto* const job = service.core().jobs().Find(id);
        if (!job) return SendError(exchange, {base::ErrorCode::kNotFound, "the job is gone", {}});
        Change(service, exchange->request().peer, *job, update, AnswerWithJob(service, exchange));
      });
}

// With a body its settings change before.
void Restart(Service& service, const ExchangePtr& exchange, const jobs::Job& job) {
  const auto restart = [&service, exchange, id = job.id] {
    service.core().jobs().Restart(id, {"restart", "started again by " + UserOf(exchange)},
                                  AnswerWithJob(service, exchange));
  };
  const auto& body = exchange->request().body;
  if (body.empty()) return restart();
  const auto update = api::Decode<api::UpdateRequest>(body);
  if (!update) return SendError(exchange, update.error());
  if (auto may = service.core().jobs().MayRestart(job.id); !may) return SendError(exchange, may.error());
  Change(service, exchange->request().peer, job, {*update, {}},
         [exchange, restart](const base::Result<jobs::Job>& changed) {
           if (!changed) return SendError(exchange, changed.error());
           restart();
         });
}

void Remove(Service& service, const ExchangePtr& exchange, const jobs::Job& job) {
  if (FlagParameter(exchange->request(), "keep_running")) {
    if (auto may = MayLoosen(service, exchange->request().peer, job); !may)
      return SendError(exchange, may.error());
    return service.core().jobs().Release(job.id, AnswerWithJob(service, exchange));
  }
  service.core().jobs().Remove(job.id, {"removed", "removed by " + UserOf(exchange)},
                               AnswerWithJob(service, exchange));
}

// Answers with the job as it is when its way off the GPU or back is over.
SuspendController::Done AnswerWhenThere(Service& service, const ExchangePtr& exchange, base::JobId id) {
  return [&service, exchange, id](base::Result<> there) {
    if (!there) return SendError(exchange, there.error());
    const auto* job = service.core().jobs().Find(id);
    if (!job) return SendError(exchange, {base::ErrorCode::kNotFound, "the job is gone", {}});
    SendJob(service, exchange, *job);
  };
}

// The GPU that a request names; an empty request names none.
base::Result<std::optional<std::string>> ResidencyOf(Service& service, const ExchangePtr& exchange) {
  const auto& body = exchange->request().body;
  if (body.empty()) return std::optional<std::string>{};
  GPUMAN_ASSIGN(const auto place, api::Decode<api::PlaceRequest>(body));
  if (!place.gpu) return std::optional<std::string>{};
  GPUMAN_ASSIGN(const auto gpu, gpu::Select(service.core().inventory().gpus, *place.gpu));
  GPUMAN_TRY(gpu::CanBeHad(service.core().inventory().gpus, std::vector{gpu}));
  if (gpu.mig)
    return base::Fail(base::ErrorCode::kNotSupported,
                      fmt::format("{} is an instance of a GPU (MIG): the driver's checkpoint does not know "
                                  "those, so a job cannot be moved there",
                                  gpu::NumberOf(gpu)));
  return std::optional(gpu.uuid);
}

// What is asked for right behind `run` waits for the run. Whether it does.
bool WaitsForStart(Service& service, const ExchangePtr& exchange, const jobs::Job& job,
                   void (*act)(Service&, const ExchangePtr&, const jobs::Job&)) {
  if (!service.core().jobs().IsBeingStarted(job.id)) return false;
  service.core().jobs().OnceStarted(job.id, [&service, exchange, id = job.id, act] {
    const auto* const started = service.core().jobs().Find(id);
    if (!started) return SendError(exchange, {base::ErrorCode::kNotFound, "the job is gone", {}});
    act(service, exchange, *started);
  });
  return true;
}

void Suspend(Service& service, const ExchangePtr& exchange, const jobs::Job& job) {
  if (WaitsForStart(service, exchange, job, Suspend)) return;
  const auto suspend_controller = service.suspension().ControllerFor(job);
  if (!suspend_controller) return SendError(exchange, suspend_controller.error());
  (*suspend_controller)
      ->Suspend(job.id, {"held_by_user", "suspended by " + UserOf(exchange)},
                AnswerWhenThere(service, exchange, job.id));
}

// The same for a job that comes to another GPU: its limits go along, and a new run begins there.
SuspendController::Done AnswerWhenOn(Service& service, const ExchangePtr& exchange, base::JobId id,
                                     std::string gpu) {
  return [&service, id, gpu = std::move(gpu),
          answer = AnswerWhenThere(service, exchange, id)](base::Result<> there) {
    if (!there) return answer(std::move(there));
    const auto move = [&](jobs::Job& stored) {
      if (!stored.gpus.empty()) stored.gpus = {gpu};
    };
    service.core().jobs().Update(id, move, [answer](const base::Result<jobs::Job>&) { answer({}); });
  };
}

void Resume(Service& service, const ExchangePtr& exchange, const jobs::Job& job) {
  if (WaitsForStart(service, exchange, job, Resume)) return;
  auto place = ResidencyOf(service, exchange);
  if (!place) return SendError(exchange, place.error());
  const auto suspend_controller = service.suspension().ControllerFor(job);
  if (!suspend_controller) return SendError(exchange, suspend_controller.error());
  // Its GPU may be another's by now: its turn comes by the queue.
  if (job.queued && !*place && service.queue().RequestResume(job.id)) return SendJob(service, exchange, job);
  if (job.queued && *place)
    return service.queue().ResumeOn(job.id, **place, AnswerWhenThere(service, exchange, job.id));
  auto answer =
      *place ? AnswerWhenOn(service, exchange, job.id, **place) : AnswerWhenThere(service, exchange, job.id);
  (*suspend_controller)->Resume(job.id, std::move(*place), std::move(answer));
}

void Move(Service& service, const ExchangePtr& exchange, const jobs::Job& job) {
  if (WaitsForStart(service, exchange, job, Move)) return;
  const auto place = ResidencyOf(service, exchange);
  if (!place) return SendError(exchange, place.error());
  if (!*place)
    return SendError(exchange, {base::ErrorCode::kInvalidArgument, "gpu: is missing: to which GPU?", {}});
  const auto suspend_controller = service.suspension().ControllerFor(job);
  if (!suspend_controller) return SendError(exchange, suspend_controller.error());
  if (job.queued) return service.queue().MoveTo(job.id, **place, AnswerWhenThere(service, exchange, job.id));
  (*suspend_controller)->Move(job.id, **place, AnswerWhenOn(service, exchange, job.id, **place));
}

void Wait(Service& service, const ExchangePtr& exchange, const jobs::Job& job) {
  const auto handle = service.core().jobs().WaitForEnd(
      job.id, [&service, exchange](const jobs::Job& ended) { SendJob(service, exchange, ended); });
  if (handle != 0) exchange->OnGone([&service, handle] { service.core().jobs().CancelWait(handle); });
}

void ShowLog(Service& service, const ExchangePtr& exchange, const jobs::Job& job) {
  const auto& request = exchange->request();
  LogRequest log{service.core().jobs().LogPathOf(job.id), std::nullopt, 0, FlagParameter(request, "follow")};
  const auto tail = NumberParameter(request, "tail", 0);
  const auto offset = NumberParameter(request, "offset", 0);
  if (!tail) return SendError(exchange, tail.error());
  if (!offset) return SendError(exchange, offset.error());
  if (request.Query("tail")) log.tail = *tail;
  log.offset = *offset;
  LogStream::Start(service.core().loop(), service.log_readers(), exchange, std::move(log),
                   [&service, id = job.id] {
                     const auto* now = service.core().jobs().Find(id);
                     return !now || jobs::IsEnded(*now);
                   });
}

}  // namespace

void RunAgain(Service& service, const ExchangePtr& exchange, const jobs::Job& old,
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
  if (auto fine = ApplyUpdate(changes.job, service.core().inventory(), fresh); !fine)
    return SendError(exchange, fine.error());
  Create(service, std::move(fresh), [&service, exchange](const base::Result<jobs::Job>& job) {
    if (!job) return SendError(exchange, job.error());
    api::SubmittedJob one;
    one.id = job->id.value;
    one.tag = job->tag;
    one.state = service.suspension().StateOf(*job);
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

void AddJobRoutes(http::Router& router, Service& service) {
  router.Add("POST", "/v1/jobs", [&service](const ExchangePtr& exchange, const PathParameters&) {
    service.core().WhenReady([&service, exchange] { Submit(service, exchange); });
  });
  router.Add("GET", "/v1/jobs/{ref}",
             OnJob(service, Act::kSee, [&service](const ExchangePtr& exchange, const jobs::Job& job) {
               SendJob(service, exchange, job, 200, /*in_full=*/true);
             }));
  router.Add("PATCH", "/v1/jobs/{ref}",
             OnJob(service, Act::kControl, [&service](const ExchangePtr& exchange, const jobs::Job& job) {
               Update(service, exchange, job);
             }));
  router.Add("DELETE", "/v1/jobs/{ref}",
             OnJob(service, Act::kControl, [&service](const ExchangePtr& exchange, const jobs::Job& job) {
               Remove(service, exchange, job);
             }));
  router.Add("POST", "/v1/jobs/{ref}/restart",
             OnJob(service, Act::kControl, [&service](const ExchangePtr& exchange, const jobs::Job& job) {
               Restart(service, exchange, job);
             }));
  router.Add("POST", "/v1/jobs/{ref}/suspend",
             OnJob(service, Act::kControl, [&service](const ExchangePtr& exchange, const jobs::Job& job) {
               Suspend(service, exchange, job);
             }));
  router.Add("POST", "/v1/jobs/{ref}/resume",
             OnJob(service, Act::kControl, [&service](const ExchangePtr& exchange, const jobs::Job& job) {
               Resume(service, exchange, job);
             }));
  router.Add("POST", "/v1/jobs/{ref}/move",
             OnJob(service, Act::kControl, [&service](const ExchangePtr& exchange, const jobs::Job& job) {
               Move(service, exchange, job);
             }));
  router.Add("GET", "/v1/jobs/{ref}/wait",
             OnJob(service, Act::kSee, [&service](const ExchangePtr& exchange, const jobs::Job& job) {
               Wait(service, exchange, job);
             }));
  router.Add("GET", "/v1/jobs/{ref}/log",
             OnJob(service, Act::kReadLog, [&service](const ExchangePtr& exchange, const jobs::Job& job) {
               ShowLog(service, exchange, job);
             }));
}

}  // namespace gpuman::daemon
