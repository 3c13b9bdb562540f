#include "daemon/service/service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "daemon/containers/containers.h"
#include "daemon/health/views.h"
#include "daemon/notify/notifications.h"
#include "daemon/routes/routes.h"
#include "daemon/sharing/share_controller.h"
#include "daemon/shims/ledger_limits.h"
#include "daemon/suspension/suspension_views.h"
#include "keeper/host_limits.h"

namespace gpuman::daemon {
namespace {

constexpr base::Millis kMemoryPatience{1000};  // with a kernel that takes memory from a job, at the end

// A cgroup that does not limit has no such file; the job's notes say so.
void WriteMemoryLimit(const std::filesystem::path& cgroup, std::optional<base::Bytes> limit) {
  (void)keeper::LimitMemory(cgroup, limit).has_value();
}

SuspendControllerSettings SuspenderSettingsOf(const Config& config) {
  SuspendControllerSettings settings;
  settings.machine.lock_timeout = config.suspend.patience;
  settings.host_memory = config.suspend.host_memory;
  return settings;
}

}  // namespace

Service::Service(Core& core)
    : core_(core),
      log_readers_(core.loop()),
      memory_limits_(WriteMemoryLimit),
      book_writer_(
          books_,
          [this](jobs::SettingRows entries, BookWriter::Done done) {
            core_.Keep(std::move(entries), std::move(done));
          },
          [this] { TellQueueBooks(); }),
      began_(core.clock().Wall()) {
  auto& callbacks = core_.callbacks();
  BeginNotifications();
  callbacks.is_needed = [this](base::JobId job) { return dispatcher_ && dispatcher_->IsNeeded(job); };
  callbacks.is_off_gpu = [this](base::JobId job) {
    const auto* const record = suspend_controller_->RecordOf(job);
    return record && record->phase == suspend::SuspensionPhase::kSuspended;
  };
  callbacks.suspend_job = [this](base::JobId job, const std::string& reason, const std::string& detail,
                                 base::Millis return_after) {
    SuspendJob(job, reason, detail, return_after);
  };
  callbacks.may_share = [this](const jobs::Job& job) {
    return job.share && !job.mps && job.preload && shims_;
  };
  callbacks.mps_variables = [this](const jobs::Job& job) { return MpsVariablesOf(job); };
  core_.sampling().on_xid.Connect([this](const gpu::XidSeen& seen) {
    tally_.OnXid(seen.uuid, seen.xid);
    health_->OnXid(seen.uuid, seen.xid);
  });
  BeginMetrics();
  RecallContexts();
  OpenShims();
  SuspendControllerHost& suspender_host = *this;
  suspend::CheckpointerOptions checkpointer;
  checkpointer.program = {core_.options().mover_program, core_.config().state_dir};
  suspend_controller_ =
      std::make_unique<SuspendController>(core_.loop(), core_.workers(), core_.clock(), suspender_host,
                                          SuspenderSettingsOf(core_.config()), std::move(checkpointer));
  BeginContainers();
  BeginSharing();
}

Service::~Service() = default;

void Service::OpenShims() {
  if (core_.options().shim_library.empty()) return;
  auto channel = ShimChannel::Open(
      core_.loop(), ShimSocket(), core_.options().user_mode ? 0600 : 0666, core_.processes(),
      [this](const ledger::Caller& caller) { return JobOfShim(caller); },
      [this](base::JobId job, const ledger::Caller& caller, std::uint32_t version) {
        TellOtherShim(job, caller.process, version);
      });
  if (!channel) spdlog::warn("jobs get no shim: {}", channel.error().message);
  if (channel) shims_ = std::move(*channel);
}

void Service::Restore(jobs::StoreContents& contents) {
  BeginQueue(contents.settings);
  BeginDevices(contents.settings);
  notifications_->Begin(std::exchange(contents.outbox, {}), contents.last_outbox_number);
  BeginMig(contents.settings);
  BeginHealth(contents.settings);  // a reboot ends faults, which is told
  BeginMps(contents.settings);
  ServeMetrics();
}

void Service::AddRoutes(http::Router& router) { AddAllRoutes(router, *this); }

bool Service::Stop() {
  public_server_.reset();
  mps_.reset();
  dispatcher_.reset();
  share_controller_.reset();
  suspend_controller_.reset();
  shims_.reset();
  bool joined = device_worker_->Stop(core_.config().sampling.call_limit);
  joined = memory_limits_.Stop(kMemoryPatience) && joined;
  mig_->Stop();
  return joined && !mig_->left_a_thread();
}

void Service::SetUpLaunch(jobs::LaunchSettings& settings) const {
  const auto& config = core_.config();
  if (shims_ && config.shim.preload) {
    settings.shim = core_.options().shim_library;
    settings.shim_socket = ShimSocket();
  }
  const auto& share = share_controller_ ? share_controller_->settings() : config.share;
  if (share.memory != share::Memory::kAuto) settings.shared_memory = ToString(share.memory);
}

// shim.sock beside gpumand.sock; beside a socket of another name, one that nobody else has.
std::filesystem::path Service::ShimSocket() const {
  const auto& socket = core_.config().socket;
  const auto name = socket.filename();
  return socket.parent_path() / (name == "gpumand.sock" ? "shim.sock" : name.string() + ".shim");
}

void Service::OnInventory() {
  health_->OnInventory(core_.whole_gpus());
  devices_->OnInventory(core_.whole_gpus());
  mig_->OnInventory();
  ReadKernelLog();
  ExpectContexts();
  for (const auto* job : core_.jobs().Active()) SetLedger(*job);
  dispatcher_->OnInventory();
}

void Service::BeforeSample(const gpu::Sample& sample) {
  if (shims_) core_.guard().SetManaged(sample.uuid, shims_->ManagedOn(sample.uuid));
  core_.guard().SetOurs(OwnPids());
}

void Service::OnSample(const gpu::Sample& sample) {
  if (!gpu::IsInstance(sample.uuid)) {
    health_->OnSample(sample);
    FollowAway(sample);
  }
  if (const auto* status = core_.guard().Find(sample.uuid)) {
    LookForContainers(*status);
    LookAtLedgers(*status);
  }
}

void Service::AfterSamples(const std::set<std::string>& gpus) {
  suspend_controller_->OnSample();
  if (share_controller_) share_controller_->OnSample();
  EndStoppedAgain();
  ResumeContinued();
  for (const auto& uuid : gpus) dispatcher_->OnSample(uuid);
}

bool Service::IsReady() const { return mig_->has_looked(); }

void Service::OnReady() {
  if (shims_) shims_->AskAgain();
  ChargePast();
  dispatcher_->Begin();
}

void Service::OnTick() {
  FollowJobProfiles();
  devices_->OnTime();
  ForgetOldAccounts();
}

void Service::Reconfigure() {
  const auto& config = core_.config();
  notifications_->SetSettings(config.notify);
  suspend_controller_->SetSettings(SuspenderSettingsOf(config));
  health_->SetSettings(config.health.monitor);
  SetUpDevices();
  mig_->SetPeriod(config.mig.check);
  mps_->SetSettings(config.mps);
  if (share_controller_) share_controller_->SetSettings(config.share);
  for (const auto* job : core_.jobs().Active()) SetLedger(*job);
  TellQueueBooks();
}

void Service::Show(const jobs::Job& job, api::JobView& view) const {
  if (const auto* record = suspend_controller_->RecordOf(job.id)) ShowSuspension(*record, view);
  ShowSharing(job, view);
  if (shims_ && shims_->Has(job.id) && (job.memory || job.soft)) {
    view.unshimmed =
        UnshimmedOf(job.id, core_.guard().Statuses(),
                    [this](base::JobId id, base::ProcessId process) { return shims_->Counts(id, process); });
  }
  if (!jobs::IsEnded(job) && !jobs::IsWaiting(job))
    if (auto tight = TightLimitOf(job)) view.notes.push_back(std::move(*tight));
  if (const auto refusal = RefusalOf(job)) view.refusal = ViewOf(job, *refusal, core_.inventory());
  if (!job.device_profile.empty()) {
    view.device_profile = job.device_profile;
    for (auto& note : job_profiles_.NotesOf(job.id)) view.notes.push_back(std::move(note));
  }
}

void Service::Show(const guard::GpuStatus& status, api::GpuView& view) const {
  view.health =
      HealthViewOf(health_->Find(status.gpu.mig ? status.gpu.mig->parent : status.gpu.uuid), status.sample);
}

void Service::OnJobChanged(const jobs::Job& job) { dispatcher_->OnJobChanged(job); }

void Service::OnJobRuns(const jobs::Job& job) {
  SetLedger(job);
  const auto [run, fresh] = runs_.try_emplace(job.id, job.runs);
  if (job.state == jobs::JobState::kStopping || run->second != job.runs)
    suspend_controller_->End(job.id);
  else
    suspend_controller_->Begin(job.id, job.suspension);
  run->second = job.runs;
  if (share_controller_) share_controller_->Reconcile();
}

void Service::OnJobLeft(base::JobId job, Left why) {
  runs_.erase(job);
  job_profiles_.Forget(job);
  suspend_controller_->End(job);
  if (share_controller_) share_controller_->Reconcile();  // its gate is opened
  if (!shims_) return;
  if (why == Left::kEnded)
    shims_->RemoveJob(job);
  else
    shims_->ReleaseJob(job);
}

void Service::OnJobForgotten(base::JobId job) {
  dispatcher_->OnJobForgotten(job);
  refusals_.Forget(job);
}

void Service::OnRecorded(jobs::Job& job, const keeper::JournalRecord& record) { KeepRefusal(job, record); }

}  // namespace gpuman::daemon
