#include "daemon/queue/module.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "daemon/health/module.h"
#include "daemon/mig/module.h"
#include "daemon/notify/module.h"
#include "daemon/queue/requests.h"
#include "daemon/queue/views.h"
#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

constexpr const char* kPreempted = "preempted";
constexpr std::chrono::hours kForgetEvery{1};
// For `--memory auto`: so far back runs are read at the start, and so many of the last ones, since jobs wait
// for that (0.1 s on an idle machine); and so many at a time, in some milliseconds.
constexpr std::chrono::hours kPastRunsSince{30 * 24};
constexpr std::size_t kPastRunsRead = 50'000;
constexpr std::size_t kPastRunsAtOnce = 1000;

struct NamedRun {
  std::string user, name;
  queue::PastRun run;
};

}  // namespace

QueueModule::QueueModule(Core& core, NotifyModule& notify, SuspensionModule& suspension, MigModule& mig,
                         HealthModule& health)
    : core_(core),
      notify_(notify),
      suspension_(suspension),
      health_(health),
      dispatcher_(
          std::make_unique<Dispatcher>(core.loop(), core.clock(), core.jobs(), core.guard(), Callbacks())),
      writer_(
          admin_settings_,
          [&core](jobs::SettingRows entries, QueueAdminSettingsWriter::Done done) {
            core.Keep(std::move(entries), std::move(done));
          },
          [this] { ApplyAdminSettings(); }),
      began_(core.clock().Wall()) {
  core_.jobs().callbacks().is_needed = [this](base::JobId job) { return dispatcher_->IsNeeded(job); };
  suspension_.controller().on_phase.Connect(
      [this](base::JobId job, suspend::SuspensionPhase phase) { dispatcher_->OnPhase(job, phase); });
  suspension_.idle().on_idle.Connect([this](base::JobId job) { dispatcher_->OnIdle(job); });
  suspension_.idle().SetResume([this](base::JobId job) { return dispatcher_->RequestResume(job); });
  mig.on_split.Connect([this] { dispatcher_->OnInventory(); });
  health_.on_change.Connect([this] { dispatcher_->OnInventory(); });
  health_.SetIsDrained(
      [this](const std::string& uuid) { return admin_settings_.state.drained.contains(uuid); });
}

void QueueModule::Restore(jobs::StoreContents& contents) {
  admin_settings_ = ReadQueueAdminSettings(contents.settings);
  ApplyAdminSettings();
  BeginPastRuns();
}

void QueueModule::Reconfigure() { ApplyAdminSettings(); }

bool QueueModule::Stop() {
  dispatcher_.reset();
  return true;
}

// --- What happens ---

void QueueModule::OnReady() {
  ChargePast();
  dispatcher_->Begin();
}

void QueueModule::OnTick() { ForgetOldAccounts(); }

void QueueModule::OnInventory() { dispatcher_->OnInventory(); }

void QueueModule::AfterSamples(const std::set<std::string>& gpus) {
  for (const auto& uuid : gpus) dispatcher_->OnSample(uuid);
  dispatcher_->AfterSamples();
}

void QueueModule::OnJobChanged(const jobs::Job& job) { dispatcher_->OnJobChanged(job); }

void QueueModule::OnJobForgotten(base::JobId job) { dispatcher_->OnJobForgotten(job); }

// The job asked for `--memory auto`, and its limit refused it memory: what it gets for one more run is stored
// with the end of this run. Where a GPU has failed, that may be why the run did.
void QueueModule::OnRecorded(jobs::Job& job, const keeper::JournalRecord& record) {
  if (!std::holds_alternative<keeper::RunEnded>(record.body) || !job.spec->memory_auto) return;
  const auto is_bad = [this](const std::string& uuid) {
    const auto* const gpu = gpu::FindGpu(core_.inventory(), uuid);
    return !gpu || health_.IsUnhealthy(*gpu);
  };
  if (std::any_of(job.gpus.begin(), job.gpus.end(), is_bad)) return;
  if (const auto more = MoreMemoryAfter(job, record.wall, dispatcher_->updater())) job.more_memory = more;
}

void QueueModule::OnRunEnded(const jobs::Job& job, jobs::RunAccount& run) {
  if (run.gpus.empty() && !job.queued) return;
  if (const auto past = PastRunOf(run)) {
    past_runs_.Add(run.user, run.name, *past);
    if (job.spec->memory_auto) dispatcher_->ChooseMemoryAfter(job);
  }
  // ChargePast reads a run that ended while there was no daemon, so that run is not charged here.
  if (core_.is_ready() || run.ended >= began_) dispatcher_->Charge(run);
}

// Users may name a new project for each run. Each project is a row in the snapshot and on the disk, so old
// ones are deleted.
void QueueModule::ForgetOldAccounts() {
  if (!core_.is_ready() || core_.clock().Mono() < forget_at_) return;
  forget_at_ = core_.clock().Mono() + kForgetEvery;
  jobs::Batch batch;
  batch.first_run_kept = core_.clock().Wall() - core_.config().queue.keep_accounts;
  core_.store().Submit(std::move(batch), [](const base::Result<>&) {});
  dispatcher_->ForgetOldAccounts();
}

void QueueModule::BeginPastRuns() {
  core_.store().Read([this](jobs::Store& store) {
    const auto since =
        std::max(began_ - kPastRunsSince, store.EndBeforeLastRuns(kPastRunsRead).value_or(base::WallTime{}));
    boost::asio::post(core_.loop(), [this, since] {
      if (dispatcher_) ReadPastRuns({.ended = since});
    });
  });
}

// Reads the runs of earlier daemons, some at a time. A run that this daemon has recorded meanwhile may come
// twice, and counts once.
void QueueModule::ReadPastRuns(jobs::Store::RunCursor from) {
  core_.store().Read([this, from, until = began_](jobs::Store& store) mutable {
    std::vector<NamedRun> runs;
    const auto read = store.SomeRuns(from, until, kPastRunsAtOnce, [&](const jobs::RunAccount& run) {
      if (const auto past = PastRunOf(run)) runs.push_back({run.user, run.name, *past});
    });
    if (!read) spdlog::warn("past runs, for --memory auto: {}", read.error().message);
    boost::asio::post(core_.loop(), [this, from, more = read && !from.done, runs = std::move(runs)] {
      if (!dispatcher_) return;  // the daemon is being stopped
      for (const auto& [user, name, run] : runs) past_runs_.Add(user, name, run);
      if (more) return ReadPastRuns(from);
      knows_past_runs_ = true;
      core_.sampling().BecomeReadyIfKnown();
    });
  });
}

// Charges the runs that ended before this daemon began: they count for fair share and quotas as well.
void QueueModule::ChargePast() {
  const auto since =
      core_.clock().Wall() - std::max(queue::kHalfLivesKept * core_.config().queue.pass.half_life,
                                      core_.config().queue.quota_window);
  core_.store().Read([this, since, until = began_](jobs::Store& store) {
    auto runs = std::make_shared<std::vector<jobs::RunAccount>>();
    (void)store.EachRun(since, until, [&](const jobs::RunAccount& run) { runs->push_back(run); }).has_value();
    boost::asio::post(core_.loop(), [this, runs] {
      for (const auto& run : *runs) dispatcher_->Charge(run);
      dispatcher_->Wake();
    });
  });
}

// --- What the dispatcher needs ---

DispatcherCallbacks QueueModule::Callbacks() {
  using base::JobId;
  using Done = DispatcherCallbacks::Done;
  return {.is_out_of_use = [this](const gpu::Gpu& gpu) { return gpu.split || health_.IsUnhealthy(gpu); },
          .name_of_user = [this](uid_t uid) { return core_.NameOf(uid); },
          .is_preempted =
              [this](JobId id) {
                const auto* const record = suspension_.controller().RecordOf(id);
                return record && record->reason == kPreempted;
              },
          .is_idle = [this](JobId id) { return suspension_.idle().IsIdle(id); },
          .left_of = [this](JobId id) { return suspension_.LeftOf(id); },
          .preempt =
              [this](JobId id, bool idle, const std::string& why, const Done& done) {
                if (idle) return suspension_.idle().MakeWay(id, why, done);
                suspension_.Suspend(id, {kPreempted, why}, done);
              },
          .resume = [this](JobId id, const std::optional<std::string>& gpu,
                           const Done& done) { suspension_.Resume(id, gpu, done); },
          .move_to = [this](JobId id, const std::string& gpu,
                            const Done& done) { suspension_.MoveTo(id, gpu, done); },
          .choose_memory =
              [this](const jobs::Job& job) { return ChooseMemoryAnew(job, memory_choice_context()); },
          .on_memory_chosen = [this](const jobs::Job& job,
                                     const std::string& note) { TellMemoryChosen(job, note); },
          .aside =
              [this](uid_t user, base::FairTaskExecutor::Task task) {
                return core_.AsideIfRoom(user, std::move(task));
              }};
}

void QueueModule::TellMemoryChosen(const jobs::Job& job, const std::string& note) {
  constexpr std::string_view kBegin = "memory: ";  // the kind of the event says it
  const bool has_it = note.starts_with(kBegin);
  core_.AddJobEvent(
      job, {"memory_chosen",
            has_it ? note.substr(kBegin.size()) : note,
            {{"memory", static_cast<std::int64_t>(job.spec->memory_on_each.value_or(base::Bytes{}).count)}}});
}

// --- What is shown ---

api::QueueInfo QueueModule::Info() {
  return InfoOf(*dispatcher_, core_.guard().Statuses(), core_.jobs(),
                {[this](uid_t uid) { return core_.NameOf(uid); }, dispatcher_->protected_names(),
                 core_.config().queue.hoarder_idle, core_.clock().Mono(), core_.inventory()});
}

bool QueueModule::IsUnfit(const gpu::Gpu& gpu) const {
  return health_.IsUnhealthy(gpu) || DrainedBy(gpu).has_value();
}

std::vector<std::string> QueueModule::NotesOn(const std::vector<std::string>& gpus,
                                              GpuSelectionReason choice) const {
  const auto& known = core_.inventory().gpus;
  std::vector<std::string> notes;
  for (const auto& gpu : gpus.empty() ? gpu::VisibleByDefault(known) : known) {
    const bool used = gpus.empty() || std::find(gpus.begin(), gpus.end(), gpu.uuid) != gpus.end();
    if (!used || !IsUnfit(gpu)) continue;
    notes.push_back(NoteOn({gpu::NumberOf(gpu), DrainedBy(gpu), health_.WhyUnhealthy(gpu)}, choice));
  }
  return notes;
}

std::optional<std::string> QueueModule::DrainedBy(const gpu::Gpu& gpu) const {
  const auto& state = admin_settings_.state;
  for (const auto& uuid : {gpu.uuid, gpu.mig ? gpu.mig->parent : gpu.uuid}) {
    if (!state.drained.contains(uuid)) continue;
    const auto by = state.drained_by.find(uuid);
    return by == state.drained_by.end() ? std::string() : by->second;
  }
  return std::nullopt;
}

spec::JobState QueueModule::StateOf(const jobs::Job& job) const { return suspension_.StateOf(job); }

api::JobView QueueModule::ViewInQueue(const jobs::Job& job) const {
  auto view = core_.View(job);
  if (!job.queued) return view;
  ShowQueueFields(job, JobDetail::kWhole, view);
  view.queue->notifications = notify_.notifications().Of(job.id);
  return view;
}

api::JobView QueueModule::View(const jobs::Job& job) {
  auto view = ViewInQueue(job);
  if (!job.queued || !jobs::IsWaiting(job)) return view;
  const auto current = dispatcher_->CurrentView();
  const auto row = dispatcher_->updater().RowOfWaiting(job.id).value_or(queue::kNone);
  ShowWaiting(current, {current.snapshot, current.plan, current.now, current.dependents}, row, view);
  return view;
}

void QueueModule::WithView(const jobs::Job& job, bool in_full, const Viewed& done) {
  if (!job.queued || !jobs::IsWaiting(job) || (!in_full && dispatcher_->IsViewCheap()))
    return done(View(job), {});
  dispatcher_->WithSnapshot(
      [this, done, id = job.id, in_full](const std::shared_ptr<const QueueSnapshot>& snapshot) {
        const auto now = StillThere(core_, id);
        if (!now) return done(base::Fail(now.error()), {});
        queue::Blockers in_the_way;
        auto view = ViewInQueue(**now);
        if ((*now)->queued && jobs::IsWaiting(**now)) {
          const auto row = snapshot->RowOf(id);
          ShowWaiting(snapshot->view(), snapshot->explainer(), row, view);
          if (in_full) ShowAdvantage(snapshot->view(), row, view);
          if (in_full && row != queue::kNone) in_the_way = snapshot->explainer().BlockersOf(row);
        }
        done(std::move(view), in_the_way);
      });
}

void QueueModule::AddMetrics(metrics::Snapshot& snapshot) {
  for (auto& device : snapshot.devices) AddMetricsOf(device);
  const auto backlog = dispatcher_->CurrentBacklog();
  auto& queue = snapshot.queue;
  for (const auto& [reason, count] : backlog.jobs) {
    const auto word = ToString(reason);
    queue.waiting[word.empty() ? "starts" : std::string(word)] += count;
  }
  queue.paused = backlog.paused;
  const std::chrono::duration<double> waited =
      backlog.oldest ? core_.clock().Wall() - *backlog.oldest : base::WallTime::duration(0);
  queue.oldest_seconds = std::max(waited.count(), 0.0);
}

void QueueModule::AddMetricsOf(metrics::Device& device) {
  const auto& uuid = device.gpu.uuid;
  const auto& drained = admin_settings_.state.drained;
  device.drained = drained.contains(uuid) || (device.gpu.mig && drained.contains(device.gpu.mig->parent));
  const auto* const status = core_.guard().Find(uuid);
  if (!status) return;
  const auto now = core_.clock().Mono();
  for (const auto& process : status->processes) {
    if (process.job || process.ours || !process.memory) continue;
    if (IsHoarding(process, dispatcher_->idle().IdleOf(uuid, process.id, now),
                   core_.config().queue.hoarder_idle, dispatcher_->protected_names()))
      device.unmanaged[process.uid ? core_.NameOf(*process.uid) : "unknown"].idle += *process.memory;
  }
}

}  // namespace gpuman::daemon
