#include "daemon/suspension/idle_job_controller.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/shims/module.h"

namespace gpuman::daemon {
namespace {

using suspend::ProcessActivity;
using suspend::SuspensionPhase;

ProcessActivity ActivityOf(const ledger::SlotStatus& slot) {
  using ledger::wire::Activity;
  switch (slot.activity) {
    case Activity::kBusy:
      return ProcessActivity::kBusy;
    case Activity::kIdle:
      return ProcessActivity::kIdle;
    case Activity::kAtGate:
    case Activity::kForRoom:
      return ProcessActivity::kWaits;
    case Activity::kUnknown:
      break;
  }
  return ProcessActivity::kUnknown;
}

std::string WhyNoGate(const jobs::Job& job) {
  if (jobs::HasGate(job)) return {};
  if (!job.spec->preload) return "libgpuman.so is not loaded into it, so its calls are not seen";
  if (job.spec->mps) return "a client of MPS cannot leave its GPU";
  if (job.container) return "only containers that share have libgpuman.so see their calls";
  return "it was started before that, so its calls are not seen; restart it";
}

bool Runs(const jobs::Job& job) { return job.state == spec::JobState::kRunning; }

}  // namespace

IdleJobController::IdleJobController(Core& core, const ShimsModule& shims, SuspendController& controller)
    : core_(core), shims_(shims), controller_(controller), timer_(core.loop()) {}

std::optional<base::Millis> IdleJobController::AfterOf(const jobs::Job& job) const {
  if (job.spec->idle_suspend) return job.spec->idle_suspend;
  const auto& idle = core_.config().idle;
  const auto of_user = idle.users.find(job.owner->uid);
  return of_user == idle.users.end() ? idle.suspend_after : of_user->second;
}

bool IdleJobController::WantsGate(const jobs::Job& job) const {
  return !job.container && !job.spec->share && !job.spec->mps && job.spec->preload && AfterOf(job);
}

// --- What is seen ---

std::vector<suspend::IdleProcess> IdleJobController::ProcessesOf(base::JobId job) const {
  std::vector<suspend::IdleProcess> processes;
  std::set<base::ProcessId> seen;
  const auto* const channel = shims_.channel();
  for (const auto& slot : channel ? channel->SlotStatusesOf(job) : std::vector<ledger::SlotStatus>{}) {
    seen.insert(slot.process);
    const bool on_gpu = slot.residency != ledger::wire::MemoryResidency::kNone || !slot.held.empty();
    processes.push_back({slot.process, true, on_gpu, ActivityOf(slot),
                         base::MonoTime(std::chrono::nanoseconds(slot.activity_since))});
  }
  for (const auto& [uuid, status] : core_.guard().Statuses())
    for (const auto& process : status.processes)
      if (process.job == job && process.id.start_time != 0 && seen.insert(process.id).second)
        processes.push_back({.id = process.id, .on_gpu = true});
  return processes;
}

// nullopt: nothing is to be decided of the job.
std::optional<suspend::IdleJob> IdleJobController::ViewOf(const jobs::Job& job) const {
  if (!Runs(job)) return std::nullopt;
  const auto* const record = controller_.RecordOf(job.id);
  suspend::IdleJob view{
      .job = job.id, .after = AfterOf(job), .no_gate = WhyNoGate(job), .reason = {}, .processes = {}};
  if (record) {
    view.phase = record->phase;
    view.reason = record->reason;
    view.called = record->called;
  }
  // Its last try is over, and what became of it is not known yet.
  if (view.phase == SuspensionPhase::kRunning && leaving_.contains(job.id)) return std::nullopt;
  if (!view.after && view.reason != suspend::kIdleReason) return std::nullopt;
  view.processes = ProcessesOf(job.id);
  return view;
}

// --- What is done ---

void IdleJobController::OnNotify() {
  if (std::exchange(evaluates_soon_, true)) return;
  boost::asio::post(core_.loop(), self_.Bind([](IdleJobController& me) {
    me.evaluates_soon_ = false;
    me.Evaluate();
  }));
}

// A daemon before this one ordered the job to rest, and ended before its suspension was on the disk. Of a job
// that shares, the share controller knows whether its gate has to be open.
void IdleJobController::OpenIfLeftShut(const jobs::Job& job) {
  auto* const channel = shims_.channel();
  if (!job.gated || job.spec->share || !channel || !Runs(job) || controller_.RecordOf(job.id)) return;
  const auto slots = channel->SlotStatusesOf(job.id);
  const bool shut = std::any_of(slots.begin(), slots.end(), [](const auto& slot) {
    return slot.ordered != ledger::wire::OrderKind::kRun;
  });
  if (!shut) return;
  spdlog::info("job {} was being suspended when the daemon ended: it runs on", job.id.value);
  (void)channel->OrderAll(job.id, {ledger::wire::OrderKind::kRun});
}

void IdleJobController::Evaluate() {
  std::vector<suspend::IdleJob> views;
  for (const auto* const job : core_.jobs().Active()) {
    OpenIfLeftShut(*job);
    if (auto view = ViewOf(*job)) views.push_back(std::move(*view));
  }
  const auto decisions = suspend::DecideIdle(views, settings_, history_, core_.clock().Mono());
  std::set<base::JobId> changed;
  for (const auto& [job, since] : decisions.spare)
    if (!idle_.contains(job)) changed.insert(job);
  for (const auto& [job, since] : idle_)
    if (!decisions.spare.contains(job)) changed.insert(job);
  idle_ = decisions.spare;
  std::erase_if(woken_, [&](base::JobId job) {
    return std::find(decisions.wake.begin(), decisions.wake.end(), job) == decisions.wake.end();
  });
  for (const auto job : changed) {
    core_.guard().SetIdle(job, idle_.contains(job));
    on_idle(job);
  }
  for (const auto job : decisions.wake) Wake(job);
  for (const auto& leave : decisions.leave) Leave(leave.job, leave.idle);
  SetTimer(decisions.again);
}

void IdleJobController::SetTimer(std::optional<base::MonoTime> due) {
  if (!due) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(*due);
  timer_.async_wait(self_.Bind([](IdleJobController& me, boost::system::error_code error) {
    if (!error) me.Evaluate();
  }));
}

void IdleJobController::Leave(base::JobId id, base::Millis idle) {
  MakeWay(id, fmt::format("no GPU call for {}", base::FormatDuration(idle)), [](const base::Result<>&) {});
}

void IdleJobController::MakeWay(base::JobId id, const std::string& why, const SuspendController::Done& done) {
  const auto* const job = core_.jobs().Find(id);
  if (!job) return done(base::Fail(base::ErrorCode::kConflict, "it does not run"));
  const auto after = AfterOf(*job).value_or(settings_.for_pressure);
  const auto gpus = job->gpus.empty() && !job->queued ? core_.AllGpus() : job->gpus;
  const bool in_instance = std::any_of(gpus.begin(), gpus.end(), gpu::IsInstance);
  const auto may = in_instance
                       ? base::Fail(base::ErrorCode::kNotSupported,
                                    "it is in an instance of a GPU (MIG), which the driver's checkpoint "
                                    "does not know")
                       : controller_.MaySuspend(id);
  if (!may) {
    suspend::RecordFailure(history_[id], suspend::IdleFailure::kOther, after, settings_,
                           core_.clock().Mono());
    Refused(id, may.error().message);
    return done(base::Result<>(base::Fail(may.error())));
  }
  refused_.erase(id);
  const auto known = idle_.find(id);
  const auto now = core_.clock().Mono();
  suspend::event::SuspendAsked asked{suspend::kIdleReason, why};
  if (known != idle_.end()) asked.idle = std::chrono::duration_cast<base::Millis>(now - known->second);
  leaving_.insert(id);
  const auto left = self_.Bind([id, after](IdleJobController& me, const base::Result<>& off) {
    me.leaving_.erase(id);
    if (off) return;
    const auto* const record = me.controller_.RecordOf(id);
    const bool works = !record || record->reason.empty();
    suspend::RecordFailure(me.history_[id],
                           works ? suspend::IdleFailure::kNotAtRest : suspend::IdleFailure::kOther, after,
                           me.settings_, me.core_.clock().Mono());
  });
  controller_.Suspend(id, std::move(asked), [left, done](base::Result<> off) {
    left(off);
    done(std::move(off));
  });
}

// Reports each reason once.
void IdleJobController::Refused(base::JobId id, const std::string& why) {
  auto& told = refused_[id];
  const auto* const job = core_.jobs().Find(id);
  if (std::exchange(told, why) == why || !job) return;
  core_.AddJobEvent(*job,
                    {"idle_suspend_refused", fmt::format("it is idle, and stays on its GPU: {}", why), {}});
}

void IdleJobController::Wake(base::JobId id) {
  const auto* const job = core_.jobs().Find(id);
  const auto* const record = controller_.RecordOf(id);
  if (!job || !record) return;
  if (job->queued && record->phase == SuspensionPhase::kSuspended) {
    // Another job may have its GPU by now, so the queue decides when the job's turn comes.
    if (woken_.contains(id)) return;
    if (resume_ && resume_(id)) {
      woken_.insert(id);
      return;
    }
  }
  controller_.Resume(id, std::nullopt, [](const base::Result<>&) {});
}

// --- Jobs come and go ---

void IdleJobController::OnJobRuns(const jobs::Job& job) {
  auto* const channel = shims_.channel();
  if (!channel || !channel->Has(job.id)) return;
  const auto after = AfterOf(job);
  const auto* const record = controller_.RecordOf(job.id);
  // Also where the setting was taken away while the job is idle and away: its call must be heard.
  const bool away = record && record->reason == suspend::kIdleReason;
  const auto watch = after && jobs::HasGate(job) ? suspend::WatchFor(*after)
                     : away                      ? suspend::WatchFor(settings_.for_pressure)
                                                 : base::Millis(0);
  watched_[job.id] = watch;
  channel->SetIdleWatch(job.id, watch);
}

void IdleJobController::OnJobLeft(base::JobId job) {
  history_.erase(job);
  watched_.erase(job);
  refused_.erase(job);
  woken_.erase(job);
  if (idle_.erase(job) > 0) core_.guard().SetIdle(job, false);
}

std::optional<std::string> IdleJobController::NoteOn(const jobs::Job& job) const {
  if (!Runs(job) || !AfterOf(job)) return std::nullopt;
  const auto view = ViewOf(job);
  const auto why_never = view ? suspend::IdlenessOf(*view).why_never : std::string();
  if (!why_never.empty()) return fmt::format("not suspended when it is idle: {}", why_never);
  const auto refused = refused_.find(job.id);
  if (refused == refused_.end()) return std::nullopt;
  return fmt::format("not suspended when it is idle: {}", refused->second);
}

}  // namespace gpuman::daemon
