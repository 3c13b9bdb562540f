#include "daemon/sharing/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "daemon/shims/module.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

double SecondsOf(share::Span span) { return std::chrono::duration<double>(span).count(); }

metrics::JobTime TimeOf(const jobs::Job& job, const share::TenantStatus& tenant) {
  metrics::JobTime time{.job = job.id.value, .tag = job.tag, .user = job.owner->user};
  if (tenant.options.compute) time.asked = tenant.options.compute->part;
  time.part = tenant.compute_part;
  time.had = tenant.compute_had;
  if (tenant.options.latency) time.held_others = SecondsOf(tenant.held_others);
  if (tenant.longest_unit) time.longest_unit = SecondsOf(*tenant.longest_unit);
  return time;
}

}  // namespace

SharingModule::SharingModule(Core& core, ShimsModule& shims, SuspensionModule& suspension)
    : core_(core), suspension_(suspension) {
  core_.callbacks().may_share = [this](const jobs::Job& job) { return controller_ && MayShare(job); };
  suspension_.controller().SetTakesTurns([this](base::JobId job) { return TakesTurns(job); });
  suspension_.controller().on_phase.Connect(
      [this](base::JobId /*job*/, suspend::SuspensionPhase /*phase*/) { Reconcile(); });
  suspension_.controller().SetTurnMoves([this]() -> SuspendController::TurnMoves {
    if (!controller_) return {};
    return {controller_->HostMemoryComing(), controller_->HostMemoryOfRestores()};
  });
  if (shims.channel()) Begin(*shims.channel(), *shims.quiescer());
  TellUnchanged();
}

void SharingModule::Begin(ShimChannel& channel, JobQuiescer& quiescer) {
  controller_ = std::make_unique<ShareController>(core_, channel, quiescer, suspension_.controller(),
                                                  core_.config().share);
  controller_->on_escalate.Connect([this](const share::action::Escalate& order) { Escalate(order); });
  controller_->on_turns.Connect([this] { on_turns(); });
  channel.SetTransferListener([this](base::JobId job, base::ProcessId process,
                                     ledger::TransferDirection direction, base::UntrustedSocket connection) {
    if (!controller_->PassOn(job, process, direction, connection))
      suspension_.controller().PassOn(job, process, direction, std::move(connection));
  });
  channel.on_notify.Connect([this](base::JobId job) { controller_->OnNotify(job); });
}

bool SharingModule::Stop() {
  controller_.reset();
  return true;
}

const share::SchedulerSettings& SharingModule::settings() const {
  return controller_ ? controller_->settings() : core_.config().share;
}

void SharingModule::SetSettings(share::SchedulerSettings settings) {
  controller_->SetSettings(std::move(settings));
  TellUnchanged();
  core_.SetUpLaunch();
}

void SharingModule::Reconfigure() {
  if (controller_) controller_->SetSettings(core_.config().share);
  TellUnchanged();
}

// The setting holds for all memory that movers take, also for that of suspensions.
void SharingModule::TellUnchanged() { suspension_.controller().movers().SetUnchanged(settings().unchanged); }

void SharingModule::SetUpLaunch(jobs::LaunchSettings& launch) const {
  if (settings().memory != share::MemoryBackend::kAuto) launch.shared_memory = ToString(settings().memory);
}

void SharingModule::Reconcile() {
  if (controller_) controller_->Reconcile();
}

void SharingModule::OnJobRuns(const jobs::Job& /*job*/) { Reconcile(); }

// Reconcile opens the gate of the job that left.
void SharingModule::OnJobLeft(base::JobId /*job*/, UnwatchReason /*why*/) { Reconcile(); }

void SharingModule::AfterSamples(const std::set<std::string>& /*gpus*/) {
  if (controller_) controller_->OnSample();
  EndStoppedAgain();
}

bool SharingModule::TakesTurns(base::JobId id) const {
  const auto* const job = core_.jobs().Find(id);
  if (!controller_ || !job || !MayShare(*job)) return false;
  const auto gpus = job->gpus.empty() ? core_.AllGpus() : job->gpus;
  const auto all = controller_->SharedJobs();
  return std::any_of(all.begin(), all.end(), [&](const SharedJob& other) {
    return other.id != id && std::find_first_of(other.gpus.begin(), other.gpus.end(), gpus.begin(),
                                                gpus.end()) != other.gpus.end();
  });
}

std::set<base::JobId> SharingModule::Waiting() const {
  std::set<base::JobId> waiting;
  if (!controller_ || !controller_->HasJobs()) return waiting;
  for (const auto& gpu : controller_->View().gpus)
    for (const auto& tenant : gpu.tenants)
      if (!tenant.waits_for.empty()) waiting.insert(tenant.tenant);
  return waiting;
}

std::optional<share::TenantWait> SharingModule::WaitOf(base::JobId job) const {
  if (!controller_ || !controller_->HasJobs()) return std::nullopt;
  return share::WaitOf(controller_->View(), job);
}

void SharingModule::Show(const jobs::Job& job, api::JobView& view) const {
  if (!controller_ || !job.spec->share || view.reason || view.state != spec::JobState::kRunning) return;
  const auto obstacle = controller_->ObstacleOf(job.id);
  if (!obstacle) return;
  if (obstacle->tenant == job.id) {
    view.reason = kNotYielded;
    view.reason_detail = fmt::format("{}; it {}keeps its place on the GPU", obstacle->why,
                                     obstacle->runs ? "runs on and " : "");
    return;
  }
  view.reason = "share_wait";
  view.reason_detail =
      fmt::format("waits for the place of job {} '{}', which does not yield: {}", obstacle->tenant.value,
                  core_.TagOf(obstacle->tenant).value_or(""), obstacle->why);
}

void SharingModule::AddMetrics(metrics::Snapshot& snapshot) {
  if (!controller_) return;
  for (auto& status : controller_->View().gpus) {
    const auto* const known = core_.guard().Find(status.gpu);
    if (!known) continue;
    metrics::SharedGpu one;
    one.gpu = known->gpu.index;
    one.uuid = status.gpu;
    for (const auto& tenant : status.tenants) {
      if (tenant.in_run_set) ++one.in_run_set;
      if (!tenant.waits_for.empty()) ++one.waiting;
      const auto* const job = core_.jobs().Find(tenant.tenant);
      if (job) one.times.push_back(TimeOf(*job, tenant));
    }
    one.contended = status.contended;
    one.moved_out = status.moved_out;
    one.moved_in = status.moved_in;
    one.copied_out = status.copied_out;
    one.copied_in = status.copied_in;
    one.hand_overs = std::move(status.hand_over_times);
    one.moving_ratio = status.moving_share;
    one.moving_seconds = SecondsOf(status.moving);
    snapshot.shared.push_back(std::move(one));
  }
}

}  // namespace gpuman::daemon
