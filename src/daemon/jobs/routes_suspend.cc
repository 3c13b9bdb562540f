// Routes that take jobs off their GPUs, back, and to other GPUs.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "api/json.h"
#include "daemon/jobs/routes.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

using http::ExchangePtr;

using Notes = std::vector<std::string>;

// Answers with the job once it is off the GPU, or back on it.
SuspendController::Done AnswerWhenThere(JobsModule& jobs, const ExchangePtr& exchange, base::JobId id,
                                        const Notes& notes = {}) {
  return [&jobs, exchange, id, notes](base::Result<> there) {
    if (!there) return SendError(exchange, there.error());
    const auto* job = jobs.core().jobs().Find(id);
    if (!job) return SendError(exchange, {base::ErrorCode::kNotFound, "the job is gone", {}});
    SendJob(jobs.queue(), exchange, *job, notes);
  };
}

// Whether the job runs, and is neither off its GPUs nor on its way.
bool IsOnGpus(JobsModule& jobs, const jobs::Job& job) {
  const auto* const record = jobs.suspension().controller().RecordOf(job.id);
  return !record || record->phase == suspend::SuspensionPhase::kRunning;
}

// Whether this GPU is the only one that the job may use, or has memory on.
bool IsOnOnly(JobsModule& jobs, const jobs::Job& job, const std::string& gpu) {
  if (job.gpus == std::vector{gpu}) return true;
  bool here = false, elsewhere = false;
  for (const auto& [uuid, status] : jobs.core().guard().Statuses())
    for (const auto& process : status.processes)
      if (process.job == job.id) (uuid == gpu ? here : elsewhere) = true;
  return here && !elsewhere;
}

Notes AlreadyOn(JobsModule& jobs, const jobs::Job& job, const std::string& uuid) {
  const auto* const status = jobs.core().guard().Find(uuid);
  const auto name = status ? gpu::NumberOf(status->gpu) : uuid;
  return {fmt::format("job {} is on GPU {} already", job.id.value, name)};
}

// The GPU that a request names; absent: it names none.
base::Result<std::optional<std::string>> GpuNamedBy(JobsModule& jobs, const api::PlaceRequest& place) {
  if (!place.gpu) return std::optional<std::string>{};
  GPUMAN_ASSIGN(const auto gpu, gpu::Select(jobs.core().inventory().gpus, *place.gpu));
  GPUMAN_TRY(gpu::CanBeHad(jobs.core().inventory().gpus, std::vector{gpu}));
  if (gpu.mig)
    return base::Fail(base::ErrorCode::kNotSupported,
                      fmt::format("{} is an instance of a GPU (MIG): the driver's checkpoint does not know "
                                  "those, so a job cannot be moved there",
                                  gpu::NumberOf(gpu)));
  return std::optional(gpu.uuid);
}

// A request right after `run` waits until the run has started. True: it waits.
template <typename Body>
bool WaitsForStart(JobsModule& jobs, const Call<Body, api::JobView>& call, const jobs::Job& job,
                   void (*act)(JobsModule&, const Call<Body, api::JobView>&, const jobs::Job&)) {
  if (!jobs.core().jobs().IsBeingStarted(job.id)) return false;
  jobs.core().jobs().OnceStarted(job.id, [&jobs, call, id = job.id, act] {
    const auto* const started = jobs.core().jobs().Find(id);
    if (!started) return call.Refuse({base::ErrorCode::kNotFound, "the job is gone", {}});
    act(jobs, call, *started);
  });
  return true;
}

void Suspend(JobsModule& jobs, const Call<api::NoBody, api::JobView>& call, const jobs::Job& job) {
  if (WaitsForStart(jobs, call, job, Suspend)) return;
  const auto suspend_controller = jobs.suspension().ControllerFor(job);
  if (!suspend_controller) return call.Refuse(suspend_controller.error());
  const auto* const record = jobs.suspension().controller().RecordOf(job.id);
  const bool already =
      record && record->phase == suspend::SuspensionPhase::kSuspended && !record->wants_gpu;
  const auto notes = already ? Notes{fmt::format("job {} is suspended already", job.id.value)} : Notes{};
  (*suspend_controller)
      ->Suspend(job.id, {"held_by_user", "suspended by " + UserOf(call.exchange())},
                AnswerWhenThere(jobs, call.exchange(), job.id, notes));
}

using PlaceCall = Call<api::PlaceRequest, api::JobView>;

// The same for a job that comes to another GPU: its record names the new GPU, so that its limits hold there
// and a new run begins there.
SuspendController::Done AnswerWhenOn(JobsModule& jobs, const ExchangePtr& exchange, base::JobId id,
                                     std::string gpu) {
  auto answer = AnswerWhenThere(jobs, exchange, id, jobs.queue().NotesOn({gpu}, GpuChoice::kNamed));
  return [&jobs, id, gpu = std::move(gpu), answer = std::move(answer)](base::Result<> there) {
    if (!there) return answer(std::move(there));
    const auto move = [&](jobs::Job& stored) {
      if (!stored.gpus.empty()) stored.gpus = {gpu};
    };
    jobs.core().jobs().Update(id, move, [answer](const base::Result<jobs::Job>&) { answer({}); });
  };
}

void Resume(JobsModule& jobs, const PlaceCall& call, const jobs::Job& job) {
  if (WaitsForStart(jobs, call, job, Resume)) return;
  auto place = GpuNamedBy(jobs, call.body());
  if (!place) return call.Refuse(place.error());
  const auto suspend_controller = jobs.suspension().ControllerFor(job);
  if (!suspend_controller) return call.Refuse(suspend_controller.error());
  const ExchangePtr& exchange = call.exchange();
  if (IsOnGpus(jobs, job) && !*place)
    return SendJob(jobs.queue(), exchange, job, {fmt::format("job {} is not suspended", job.id.value)});
  if (IsOnGpus(jobs, job) && IsOnOnly(jobs, job, **place))
    return SendJob(jobs.queue(), exchange, job, AlreadyOn(jobs, job, **place));
  // Another job may have its GPU by now, so the queue decides when the job's turn comes.
  if (job.queued && !*place && jobs.queue().dispatcher().RequestResume(job.id))
    return SendJob(jobs.queue(), exchange, job);
  if (job.queued && *place)
    return jobs.queue().dispatcher().ResumeOn(job.id, **place, AnswerWhenThere(jobs, exchange, job.id));
  auto answer =
      *place ? AnswerWhenOn(jobs, exchange, job.id, **place) : AnswerWhenThere(jobs, exchange, job.id);
  (*suspend_controller)->Resume(job.id, std::move(*place), std::move(answer));
}

void Move(JobsModule& jobs, const PlaceCall& call, const jobs::Job& job) {
  if (WaitsForStart(jobs, call, job, Move)) return;
  const auto place = GpuNamedBy(jobs, call.body());
  if (!place) return call.Refuse(place.error());
  if (!*place) return call.Refuse({base::ErrorCode::kInvalidArgument, "gpu: is missing: to which GPU?", {}});
  const auto suspend_controller = jobs.suspension().ControllerFor(job);
  if (!suspend_controller) return call.Refuse(suspend_controller.error());
  const ExchangePtr& exchange = call.exchange();
  if (IsOnGpus(jobs, job) && IsOnOnly(jobs, job, **place))
    return SendJob(jobs.queue(), exchange, job, AlreadyOn(jobs, job, **place));
  if (job.queued)
    return jobs.queue().dispatcher().MoveTo(job.id, **place, AnswerWhenThere(jobs, exchange, job.id));
  (*suspend_controller)->Move(job.id, **place, AnswerWhenOn(jobs, exchange, job.id, **place));
}

}  // namespace

void JobsModule::AddSuspendRoutes(http::Router& router) {
  ServeJob(*this, router, api::routes::kSuspendJob, Suspend);
  ServeJob(*this, router, api::routes::kResumeJob, Resume);
  ServeJob(*this, router, api::routes::kMoveJob, Move);
}

}  // namespace gpuman::daemon
