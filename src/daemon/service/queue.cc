// What the queue needs of the daemon, and what it is told.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/health/module.h"
#include "daemon/notify/module.h"
#include "daemon/queue/views.h"
#include "daemon/service/service.h"
#include "daemon/suspension/module.h"
#include "guard/policy.h"

namespace gpuman::daemon {

using base::ErrorCode;
using base::Fail;

namespace {
constexpr const char* kPreempted = "preempted";
constexpr std::chrono::hours kForgetEvery{1};
constexpr std::size_t kRunsAtOnce = 1000;  // read from the store, some milliseconds
}  // namespace

void Service::BeginQueue(const jobs::SettingRows& settings) {
  DispatcherHost& host = *this;
  dispatcher_ = std::make_unique<Dispatcher>(core_.loop(), core_.clock(), core_.jobs(), host);
  books_ = ReadBooks(settings);
  TellQueueBooks();
}

namespace {

// Bounds on jobs that wait and that run are every user's, unless others were set.
void SetLimits(queue::Book& book, const QueueBooks& books, const Config& config, queue::AccountKind kind) {
  const bool is_user = kind == queue::AccountKind::kUser;
  const std::string subject = is_user ? "user" : "project";
  const auto quota = [&](const api::QuotaLimits& limits) {
    auto queued = limits.queued_jobs;
    if (!queued && is_user && config.queue.queued_jobs > 0)
      queued = static_cast<int>(config.queue.queued_jobs);
    auto running = limits.running_jobs;
    if (!running && is_user && config.jobs.running_jobs > 0)
      running = static_cast<int>(config.jobs.running_jobs);
    return queue::Quota{running, limits.gpus, queued, limits.gpu_hours, config.queue.quota_window};
  };
  const auto shares = [&](const api::QuotaLimits& limits) { return limits.shares.value_or(is_user ? 1 : 0); };
  const auto usual = books.quotas.find({subject, "*"});
  const auto others = usual == books.quotas.end() ? api::QuotaLimits{} : usual->second;
  book.SetUsual(kind, quota(others), shares(others));
  for (const auto& [key, limits] : books.quotas) {
    if (key.subject != subject || key.name == "*") continue;
    book.SetQuota(kind, key.name, quota(limits));
    book.SetShares(kind, key.name, shares(limits));
  }
}

}  // namespace

void Service::TellQueueBooks() {
  protected_names_ = guard::DefaultProtectedNames();
  protected_names_.insert(core_.config().guard.protected_names.begin(),
                          core_.config().guard.protected_names.end());
  auto& book = dispatcher_->book();
  for (const auto kind : {queue::AccountKind::kUser, queue::AccountKind::kProject})
    SetLimits(book, books_, core_.config(), kind);
  std::vector<queue::ReservationOf> reservations;
  for (const auto& [id, kept] : books_.reservations)
    reservations.push_back(
        {id, fmt::format("reservation {}", id), kept.devices, kept.start, kept.end, {kept.user}});
  book.SetReservations(reservations);
  dispatcher_->SetSettings(core_.config().queue.pass, core_.config().queue.quota_window);
  dispatcher_->SetState(books_.state);
  dispatcher_->Wake();
}

// A project for each run is a row for each, in the book and on the disk.
void Service::ForgetOldAccounts() {
  if (!core_.is_ready() || core_.clock().Mono() < forget_at_) return;
  forget_at_ = core_.clock().Mono() + kForgetEvery;
  jobs::Batch batch;
  batch.first_run_kept = core_.clock().Wall() - core_.config().queue.keep_accounts;
  core_.store().Submit(std::move(batch), [](const base::Result<>&) {});
  dispatcher_->ForgetOldAccounts();
}

// What ended before this daemon began counts for fair share and quotas as well.
void Service::ChargePast() {
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

namespace {

// Sums that are being made: of jobs on the loop, of runs on the store's thread, one after the other.
struct Adding {
  Stats stats;
  std::shared_ptr<bool> gone;
  base::WallTime until;
  std::function<void(base::Result<api::StatsView>)> done;
  base::JobId at{};                    // jobs up to it are in
  jobs::Store::RunCursor runs_from{};  // runs up to there
};

}  // namespace

void Service::AddUp(StatsBy by, base::WallTime since, base::WallTime until, uid_t user,
                    std::shared_ptr<bool> gone, std::function<void(base::Result<api::StatsView>)> done) {
  const auto adding = std::make_shared<Adding>(
      Adding{Stats(by), std::move(gone), until, std::move(done), {}, {.ended = since}});
  // What a client that has gone asked for goes no further: it is let go of on the loop.
  const auto read_runs = std::make_shared<std::function<void()>>();
  *read_runs = [this, adding, weak = std::weak_ptr(read_runs)] {
    core_.store().Read([this, adding, again = weak.lock()](jobs::Store& store) mutable {
      auto read = store.SomeRuns(adding->runs_from, adding->until, kRunsAtOnce,
                                 [&](const jobs::RunAccount& run) { adding->stats.Add(run); });
      boost::asio::post(
          core_.loop(), [this, adding = std::move(adding), again = std::move(again), read = std::move(read)] {
            if (*adding->gone) return;
            if (!read) return adding->done(Fail(read.error()));
            if (!adding->runs_from.done) return (*again)();
            auto view = adding->stats.View();
            ShowFairShares(dispatcher_->book().View(core_.clock().Mono()), core_.clock().Wall(), view);
            adding->done(std::move(view));
          });
    });
  };
  core_.slices().Add(user, [this, adding, read_runs](const base::Turn& turn) {
    while (!turn.IsOver() && !*adding->gone) {
      const auto* const job = core_.jobs().After(adding->at);
      if (!job) {
        (*read_runs)();
        return false;
      }
      adding->at = job->id;
      if (!jobs::IsEnded(*job)) adding->stats.Add(*job);
    }
    return !*adding->gone;
  });
}

api::QueueInfo Service::QueueInfo() {
  return InfoOf(*dispatcher_, core_.guard().Statuses(), core_.jobs(),
                {[this](uid_t uid) { return core_.NameOf(uid); }, protected_names_,
                 core_.config().queue.hoarder_idle, core_.clock().Mono(), core_.inventory().links});
}

api::JobView Service::ViewWithQueue(const jobs::Job& job) {
  auto view = core_.View(job);
  if (!job.queued) return view;
  view.queue = QueueFieldsOf(job, dispatcher_->RequestFor(job));
  view.queue->notifications = notify_.notifications().Of(job.id);
  if (!jobs::IsWaiting(job)) return view;
  const auto current = dispatcher_->CurrentView();
  const auto row = dispatcher_->book().RowOfWaiting(job.id).value_or(queue::kNone);
  ShowWaiting(current, {current.snapshot, current.plan, current.now, current.dependents}, row, view);
  return view;
}

api::JobView Service::ViewBy(const QueueSnapshot& snapshot, const jobs::Job& job, bool in_full) {
  auto view = core_.View(job);
  if (!job.queued) return view;
  view.queue = QueueFieldsOf(job, dispatcher_->RequestFor(job));
  view.queue->notifications = notify_.notifications().Of(job.id);
  if (!jobs::IsWaiting(job)) return view;
  const auto row = snapshot.RowOf(job.id);
  ShowWaiting(snapshot.view(), snapshot.explainer(), row, view);
  if (in_full) ShowAdvantage(snapshot.view(), row, view);
  return view;
}

void Service::OnRunEnded(const jobs::Job& /*job*/, const jobs::RunAccount& run) {
  // One that ended while there was no daemon is among what ChargePast reads.
  if (core_.is_ready() || run.ended >= began_) dispatcher_->Charge(run);
}

bool Service::IsPreempted(base::JobId id) {
  const auto* const record = suspension_.controller().RecordOf(id);
  return record && record->reason == kPreempted;
}

bool Service::IsOutOfUse(const gpu::Gpu& gpu) { return gpu.split || health_.IsUnhealthy(gpu); }

void Service::PreemptJob(base::JobId id, const std::string& why, Done done) {
  suspension_.Suspend(id, {kPreempted, why}, std::move(done));
}

void Service::ResumeJob(base::JobId id, std::optional<std::string> gpu, Done done) {
  suspension_.Resume(id, std::move(gpu), std::move(done));
}

void Service::MoveTo(base::JobId id, const std::string& gpu, Done done) {
  suspension_.MoveTo(id, gpu, std::move(done));
}

}  // namespace gpuman::daemon
