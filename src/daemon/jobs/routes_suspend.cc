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

// Passes the job on once it is off the GPU, or back on it.
SuspendController::Done OnceThere(JobsModule& jobs, base::JobId id, JobResultCallback done,
                                  Notes notes = {}) {
  return [&jobs, id, done = std::move(done), notes = std::move(notes)](base::Result<> there) {
    if (!there) return done(base::Fail(std::move(there.error())));
    const auto job = StillThere(jobs.core(), id);
    if (!job) return done(base::Fail(job.error()));
    done(**job, notes);
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
base::Result<std::optional<std::string>> GpuNamedBy(JobsModule& jobs, const api::ResumeOrMoveRequest& place) {
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
                   const JobResultCallback& done, ActOnJob<Body> act) {
  if (!jobs.core().jobs().IsBeingStarted(job.id)) return false;
  jobs.core().jobs().OnceStarted(job.id, [&jobs, call, id = job.id, done, act] {
    call.AnswerBy([&]() -> base::Result<> {
      GPUMAN_ASSIGN(const auto* const started, StillThere(jobs.core(), id));
      return act(jobs, call, *started, done);
    });
  });
  return true;
}

base::Result<> Suspend(JobsModule& jobs, const Call<api::NoBody, api::JobView>& call, const jobs::Job& job,
                       const JobResultCallback& done) {
  if (WaitsForStart(jobs, call, job, done, Suspend)) return {};
  GPUMAN_ASSIGN(auto* const suspend_controller, jobs.suspension().ControllerFor(job));
  const auto* const record = jobs.suspension().controller().RecordOf(job.id);
  // One that is away because it is idle stays away from now on, also when it makes a call.
  const bool already = record && record->phase == suspend::SuspensionPhase::kSuspended &&
                       !record->wants_gpu && record->reason != suspend::kIdleReason;
  if (job.queued) jobs.queue().dispatcher().StayAway(job.id);
  const auto notes = already ? Notes{fmt::format("job {} is suspended already", job.id.value)} : Notes{};
  suspend_controller->Suspend(job.id, {"held_by_user", "suspended by " + UserOf(call.exchange())},
                              OnceThere(jobs, job.id, done, notes));
  return {};
}

using PlaceCall = Call<api::ResumeOrMoveRequest, api::JobView>;

// The same for a job that comes to another GPU: its record names the new GPU, so that its limits hold there
// and a new run begins there.
SuspendController::Done OnceOn(JobsModule& jobs, base::JobId id, std::string gpu,
                               const JobResultCallback& done) {
  auto answer = OnceThere(jobs, id, done, jobs.queue().NotesOn({gpu}, GpuSelectionReason::kNamed));
  return [&jobs, id, gpu = std::move(gpu), answer = std::move(answer)](base::Result<> there) {
    if (!there) return answer(std::move(there));
    const auto move = [&](jobs::Job& stored) {
      if (!stored.gpus.empty()) stored.gpus = {gpu};
    };
    jobs.core().jobs().Update(id, move, [answer](const base::Result<jobs::Job>&) { answer({}); });
  };
}

base::Result<> Resume(JobsModule& jobs, const PlaceCall& call, const jobs::Job& job,
                      const JobResultCallback& done) {
  if (WaitsForStart(jobs, call, job, done, Resume)) return {};
  GPUMAN_ASSIGN(auto place, GpuNamedBy(jobs, call.body()));
  GPUMAN_ASSIGN(auto* const suspend_controller, jobs.suspension().ControllerFor(job));
  if (IsOnGpus(jobs, job) && !place) {
    done(job, {fmt::format("job {} is not suspended", job.id.value)});
  } else if (IsOnGpus(jobs, job) && IsOnOnly(jobs, job, *place)) {
    done(job, AlreadyOn(jobs, job, *place));
  } else if (job.queued && !place && jobs.queue().dispatcher().RequestResume(job.id)) {
    // Another job may have its GPU by now, so the queue decides when the job's turn comes.
    done(job);
  } else if (job.queued && place) {
    jobs.queue().dispatcher().ResumeOn(job.id, *place, OnceThere(jobs, job.id, done));
  } else {
    auto answer = place ? OnceOn(jobs, job.id, *place, done) : OnceThere(jobs, job.id, done);
    suspend_controller->Resume(job.id, std::move(place), std::move(answer));
  }
  return {};
}

base::Result<> Move(JobsModule& jobs, const PlaceCall& call, const jobs::Job& job,
                    const JobResultCallback& done) {
  if (WaitsForStart(jobs, call, job, done, Move)) return {};
  GPUMAN_ASSIGN(const auto place, GpuNamedBy(jobs, call.body()));
  if (!place) return base::Fail(base::ErrorCode::kInvalidArgument, "gpu: is missing: to which GPU?");
  GPUMAN_ASSIGN(auto* const suspend_controller, jobs.suspension().ControllerFor(job));
  if (IsOnGpus(jobs, job) && IsOnOnly(jobs, job, *place))
    done(job, AlreadyOn(jobs, job, *place));
  else if (job.queued)
    jobs.queue().dispatcher().MoveTo(job.id, *place, OnceThere(jobs, job.id, done));
  else
    suspend_controller->Move(job.id, *place, OnceOn(jobs, job.id, *place, done));
  return {};
}

}  // namespace

void JobsModule::AddSuspendRoutes(http::Router& router) {
  ServeJob(*this, router, api::routes::kSuspendJob, Suspend);
  ServeJob(*this, router, api::routes::kResumeJob, Resume);
  ServeJob(*this, router, api::routes::kMoveJob, Move);
}

}  // namespace gpuman::daemon
