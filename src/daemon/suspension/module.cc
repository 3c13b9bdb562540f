#include "daemon/suspension/module.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/boot.h"
#include "daemon/shims/module.h"
#include "daemon/suspension/suspension_views.h"
#include "keeper/host_limits.h"

namespace gpuman::daemon {

using base::ErrorCode;
using base::Fail;
using suspend::SuspensionPhase;

namespace {

constexpr base::Millis kMemoryPatience{1000};  // how long Stop waits for a write of a limit to return
constexpr std::chrono::milliseconds kMoverPollInterval{20};
constexpr int kPollsForEnd = 100;
constexpr const char* kMoversKey = "movers";  // of the settings table: OwnMovers::Record

// A cgroup without a memory controller has no such file; the job's notes say so.
void WriteMemoryLimit(const std::filesystem::path& cgroup, std::optional<base::Bytes> limit) {
  (void)keeper::LimitMemory(cgroup, limit).has_value();
}

SuspendControllerSettings SettingsOf(const Config& config) {
  SuspendControllerSettings settings;
  settings.machine.lock_timeout = config.suspend.patience;
  settings.host_memory = config.suspend.host_memory;
  return settings;
}

suspend::CheckpointerOptions CheckpointerOf(const Core& core,
                                            std::function<void(const base::ProcessId&)> on_started) {
  suspend::CheckpointerOptions options;
  options.on_started = std::move(on_started);
  options.on_misjudged = [](const base::ProcessId& process, std::uint64_t chunks) {
    spdlog::error(
        "{} parts (2MiB each) of the memory of process {} had changed although their hash had not; they were "
        "copied. Set share.unchanged = \"off\", and report it: see SECURITY.md",
        chunks, process.pid);
  };
  options.on_not_hashed = [](const suspend::MoverUser& user, const std::string& why) {
    spdlog::warn("gpuman-mover of user {} copies all memory, changed or not, where it cannot hash it: {}",
                 user.uid, why);
  };
  options.on_damaged = [](const suspend::MoverUser& user, std::uint64_t chunks) {
    spdlog::error(
        "the host's memory has damaged {} parts (2MiB each) of copies that gpuman-mover of user {} keeps; "
        "they "
        "are copied anew, and no job has seen them. Look for memory errors in the kernel's log",
        chunks, user.uid);
  };
  options.program = {core.options().mover_program, core.config().state_dir};
  return options;
}

}  // namespace

SuspensionModule::SuspensionModule(Core& core, ShimsModule& shims)
    : core_(core),
      own_movers_(base::BootId()),
      memory_limits_(WriteMemoryLimit),
      controller_(std::make_unique<SuspendController>(core, shims, SettingsOf(core.config()),
                                                      CheckpointerOf(core,
                                                                     [this](const base::ProcessId& mover) {
                                                                       own_movers_.Add(mover);
                                                                       KeepOwnMovers();
                                                                     }))),
      stopped_(std::make_unique<StoppedJobController>(core, *controller_)),
      idle_(std::make_unique<IdleJobController>(core, shims, *controller_)) {
  controller_->on_phase.Connect([this](base::JobId job, SuspensionPhase phase) { OnPhase(job, phase); });
  if (auto* const channel = shims.channel())
    channel->on_notify.Connect([this](base::JobId job) {
      controller_->OnNotify(job);
      idle_->OnNotify();
    });
  core_.jobs().callbacks().wants_gate = [this](const jobs::Job& job) { return idle_->WantsGate(job); };
  core_.jobs().callbacks().is_off_gpu = [this](base::JobId job) {
    const auto* const record = controller_->RecordOf(job);
    return record && record->phase == SuspensionPhase::kSuspended;
  };
  core_.callbacks().suspend_job = [this](base::JobId job, const std::string& reason,
                                         const std::string& detail, base::Millis return_after) {
    SuspendForGuard(job, {reason, detail, return_after});
  };
}

SuspensionModule::~SuspensionModule() = default;

void SuspensionModule::Restore(jobs::StoreContents& contents) {
  const auto kept = contents.settings.find(kMoversKey);
  if (kept == contents.settings.end() || !kept->second) return;
  if (const auto taken = own_movers_.Recall(*kept->second, core_.clock().Mono()); !taken)
    spdlog::warn("{}", taken.error().message);
}

void SuspensionModule::Reconfigure() {
  controller_->SetSettings(SettingsOf(core_.config()));
  for (const auto* const job : core_.jobs().Active()) idle_->OnJobRuns(*job);
  idle_->Evaluate();
}

bool SuspensionModule::Stop() {
  idle_.reset();
  stopped_.reset();
  controller_.reset();
  return memory_limits_.Stop(kMemoryPatience);
}

// --- Asked for ---

base::Result<SuspendController*> SuspensionModule::ControllerFor(const jobs::Job& job) {
  if (job.state != spec::JobState::kRunning)
    return base::Fail(
        base::ErrorCode::kConflict,
        fmt::format("job {} '{}' is not running: it is {}", job.id.value, job.tag, spec::ToString(job.state)),
        jobs::IsEnded(job)
            ? fmt::format("gpuman restart {} starts it again", core_.jobs().index().NameOf(job))
            : std::string());
  const auto gpus = job.gpus.empty() && !job.queued ? core_.AllGpus() : job.gpus;
  if (std::any_of(gpus.begin(), gpus.end(), gpu::IsInstance))
    return base::Fail(
        base::ErrorCode::kNotSupported,
        fmt::format("job {} '{}' is in an instance of a GPU (MIG): the driver's checkpoint does "
                    "not know those, so it can be neither suspended nor moved",
                    job.id.value, job.tag));
  return controller_.get();
}

base::Result<SuspendController*> SuspensionModule::ControllerFor(base::JobId id) {
  const auto* const job = core_.jobs().Find(id);
  if (!job) return Fail(ErrorCode::kConflict, "it does not run");
  return ControllerFor(*job);
}

void SuspensionModule::Suspend(base::JobId id, suspend::event::SuspendAsked asked, Done done) {
  if (const auto controller = ControllerFor(id); !controller) return done(Fail(controller.error()));
  stopped_->Suspend(id, std::move(asked), std::move(done));
}

void SuspensionModule::Resume(base::JobId id, std::optional<std::string> gpu, Done done) {
  const auto controller = ControllerFor(id);
  if (!controller) return done(Fail(controller.error()));
  auto back = [this, id, gpu, done = std::move(done)](base::Result<> there) {
    if (!there || !gpu) return done(std::move(there));
    core_.ChangeGpu(id, *gpu, done);
  };
  (*controller)->Resume(id, std::move(gpu), std::move(back));
}

void SuspensionModule::MoveTo(base::JobId id, const std::string& gpu, Done done) {
  const auto controller = ControllerFor(id);
  if (!controller) return done(Fail(controller.error()));
  (*controller)->Move(id, gpu, [this, id, gpu, done = std::move(done)](base::Result<> there) {
    if (!there) return done(std::move(there));
    core_.ChangeGpu(id, gpu, done);
  });
}

void SuspensionModule::SuspendForGuard(base::JobId id, suspend::event::SuspendAsked asked) {
  const auto refuse = [this, id](std::string why) {
    boost::asio::post(core_.loop(), [this, id, why = std::move(why)] {
      core_.guard().SetRefusal(id, why);
      core_.guard().OnTime();
      core_.guard_loop().Rearm();
    });
  };
  if (!core_.jobs().Find(id)) return refuse("it is gone");
  const auto done = [refuse](const base::Result<>& there) {
    if (!there) refuse(there.error().message);
  };
  // Its next call brings it back, not room.
  if (asked.reason == suspend::kIdleReason) return idle_->MakeWay(id, asked.detail, done);
  Suspend(id, std::move(asked), done);
}

// --- What happens ---

void SuspensionModule::OnJobRuns(const jobs::Job& job) {
  const auto [run, fresh] = runs_.try_emplace(job.id, job.runs);
  if (job.state == spec::JobState::kStopping || run->second != job.runs)
    controller_->End(job.id);
  else
    controller_->Begin(job.id, job.suspension);
  run->second = job.runs;
  idle_->OnJobRuns(job);
}

void SuspensionModule::OnJobLeft(base::JobId job, UnwatchReason /*why*/) {
  runs_.erase(job);
  controller_->End(job);
  left_.erase(job);
  estimates_.erase(job);
  idle_->OnJobLeft(job);
}

void SuspensionModule::OnPhase(base::JobId job, SuspensionPhase phase) {
  if (const auto* const known = core_.jobs().Find(job)) LiftHostLimit(*known, phase);
  stopped_->OnPhase(job, phase);
  core_.guard().SetResidency(job, ResidencyOf(phase));
  if (phase == SuspensionPhase::kSuspended) ReadLeft(job);
}

void SuspensionModule::ReadLeft(base::JobId job) {
  auto left = controller_->LeftOf(job);
  if (!left) return;
  const auto* const record = controller_->RecordOf(job);
  if (left->empty())
    estimates_.erase(job);
  else if (!record || record->phase != SuspensionPhase::kSuspended)
    left = estimates_[job].Add(*left, core_.clock().Mono());
  core_.guard().SetLeft(job, *left);
  if (left->empty())
    left_.erase(job);
  else
    left_[job] = std::move(*left);
}

const suspend::BytesByGpu& SuspensionModule::LeftOf(base::JobId job) const {
  static const suspend::BytesByGpu kNothing;
  const auto known = left_.find(job);
  return known == left_.end() ? kNothing : known->second;
}

// Memory that leaves the GPU goes into host memory of the job's own processes. The job's limit was not meant
// for that memory.
void SuspensionModule::LiftHostLimit(const jobs::Job& job, SuspensionPhase phase) {
  const auto& limit = job.spec->host_memory;
  if (!job.queued || !limit || job.cgroup.empty() || phase == SuspensionPhase::kEnded) return;
  const bool on_gpu = phase == SuspensionPhase::kRunning;
  memory_limits_.Set(job.cgroup, on_gpu ? limit : std::nullopt);
}

void SuspensionModule::BeforeSample(const gpu::GpuSample& /*sample*/) { core_.guard().SetOurs(OwnPids()); }

void SuspensionModule::AfterSamples(const std::set<std::string>& /*gpus*/) {
  controller_->OnSample();
  stopped_->AfterSamples();
  idle_->Evaluate();
  for (const auto* const job : core_.jobs().Active())
    if (job->state == spec::JobState::kRunning) ReadLeft(job->id);
}

// --- gpuman's own processes ---

std::set<pid_t> SuspensionModule::OwnPids() {
  const auto is_there = [this](const base::ProcessId& mover) {
    const auto process = core_.processes().Find(mover.pid);
    return process && process->id == mover;
  };
  if (own_movers_.Refresh(controller_->movers().MoverPids(), is_there, core_.clock().Mono())) KeepOwnMovers();
  return own_movers_.Pids();
}

// A daemon that is killed leaves its movers behind, and the next one reads here which they are.
void SuspensionModule::KeepOwnMovers() {
  core_.Keep({{kMoversKey, own_movers_.Record()}}, [](const base::Result<>& written) {
    if (!written) spdlog::warn("the movers could not be stored: {}", written.error().message);
  });
}

void SuspensionModule::WhenIdleMoversLeft(std::function<void()> then) {
  WhenEnded(controller_->movers().RetireIdle(), std::move(then), kPollsForEnd);
}

void SuspensionModule::WhenEnded(std::set<pid_t> processes, std::function<void()> then, int polls) {
  std::erase_if(processes, [this](pid_t pid) {
    const auto process = core_.processes().Find(pid);
    return !process || process->state == 'Z';
  });
  if (polls == 0 || processes.empty()) return then();
  const auto timer =
      std::make_shared<boost::asio::steady_timer>(core_.loop(), kMoverPollInterval);  // kept by its wait
  timer->async_wait([this, timer, processes = std::move(processes), then = std::move(then),
                     polls](boost::system::error_code error) mutable {
    if (!error) WhenEnded(std::move(processes), std::move(then), polls - 1);
  });
}

// --- What is shown ---

spec::JobState SuspensionModule::StateOf(const jobs::Job& job) const {
  const auto* const record = job.state == spec::JobState::kRunning ? controller_->RecordOf(job.id) : nullptr;
  return record && suspend::IsSuspended(record->phase) ? spec::JobState::kSuspended : job.state;
}

void SuspensionModule::Show(const jobs::Job& job, api::JobView& view) const {
  if (const auto* const record = controller_->RecordOf(job.id)) ShowSuspension(*record, view);
  if (!jobs::IsEnded(job)) view.options.idle_suspend = idle_->AfterOf(job);
  if (jobs::IsEnded(job)) return;
  if (auto note = idle_->NoteOn(job)) view.notes.push_back(std::move(*note));
}

void SuspensionModule::AddMetrics(metrics::Snapshot& snapshot) {
  snapshot.kept = controller_->movers().Kept();
  for (auto& shown : snapshot.jobs)
    if (const auto* const job = core_.jobs().Find({shown.id})) shown.state = ToString(StateOf(*job));
  std::map<std::string, base::Bytes> left;
  for (const auto& shown : snapshot.jobs) {
    const auto* const record = controller_->RecordOf({shown.id});
    if (!record || !suspend::IsSuspended(record->phase)) {
      if (idle_->IsIdle({shown.id})) ++snapshot.idle_on_gpu;
      continue;
    }
    if (record->reason == suspend::kIdleReason) ++snapshot.idle_away;
    for (const auto& [gpu, bytes] : record->left) left[gpu] += bytes;
  }
  for (const auto& gpu : core_.inventory().gpus)
    if (!gpu.mig) snapshot.left.push_back({gpu::NumberOf(gpu), gpu.uuid, left[gpu.uuid]});
}

}  // namespace gpuman::daemon
