// Routes that change the queue and waiting jobs.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "api/queue_json.h"
#include "daemon/queue/allowed_gpus.h"
#include "daemon/queue/requests.h"

namespace gpuman::daemon {
namespace {

// --- Jobs ---

using JobCall = Call<api::NoBody, api::JobView>;
using DoneWithJob = std::function<void(base::Result<>)>;
using ChangeJob = std::function<void(base::JobId, DoneWithJob)>;

// The state that a change leads to, and what the answer says if all jobs had it before: "is held already".
struct Already {
  spec::JobState state;
  std::string_view text;
};

// Makes the same change of one job or of all tasks of an array, except those that have the state `already`.
// Answers with the first job when all are done; if no job could be changed, with the reason.
void ChangeAll(QueueModule& queue, const JobCall& call, const std::vector<base::JobId>& ids,
               const ChangeJob& change_job, const std::optional<Already>& already = std::nullopt) {
  struct Progress {
    std::size_t left;
    std::size_t changed = 0;
    bool all_had_it = true;
    std::optional<base::Error> error{};
    // The first job after its change. If there are very many jobs, it may be forgotten before all are done.
    std::optional<jobs::Job> first{};
  };
  const auto progress = std::make_shared<Progress>(Progress{ids.size()});
  const auto change = [&queue, progress, already, change_job](base::JobId id, const DoneWithJob& done) {
    const auto* const job = queue.core().jobs().Find(id);
    if (already && job && job->state == already->state) return done({});
    progress->all_had_it = false;
    change_job(id, done);
  };
  const auto done = [&queue, call, progress, already, first = ids.front()](const base::Result<>& outcome) {
    if (outcome) ++progress->changed;
    if (!outcome && !progress->error) progress->error = outcome.error();
    if (--progress->left > 0) return;
    if (progress->changed == 0) return call.Refuse(*progress->error);
    const auto now = StillThere(queue.core(), first);
    if (!now && !progress->first) return call.Refuse(now.error());
    const bool nothing_done = already && progress->all_had_it;
    AnswerWithJob(queue, call)(
        now ? **now : *progress->first,
        nothing_done ? Notes{fmt::format("job {} {}", first.value, already->text)} : Notes{});
  };
  const auto first_done = [&queue, progress, done, first = ids.front()](const base::Result<>& outcome) {
    if (const auto* const job = queue.core().jobs().Find(first)) progress->first = *job;
    done(outcome);
  };
  queue.core().slices().ForEach(
      call.request().party, ids.size(),
      [ids, change, done, first_done](std::size_t i) {
        if (i == 0) return change(ids[i], first_done);
        change(ids[i], done);
      },
      [] {});
}

jobs::JobManager::Done<jobs::Job> WithoutJob(std::function<void(base::Result<>)> done) {
  return [done = std::move(done)](const base::Result<jobs::Job>& job) {
    done(job.map([](const jobs::Job&) {}));
  };
}

void Hold(QueueModule& queue, const JobCall& call, const std::vector<base::JobId>& ids) {
  const auto hold = [&queue, user = UserOf(call.exchange())](base::JobId id, auto done) {
    queue.core().jobs().Hold(id, {"held_by_user", "held by " + user}, WithoutJob(std::move(done)));
  };
  ChangeAll(queue, call, ids, hold, Already{spec::JobState::kHeld, "is held already"});
}

void Release(QueueModule& queue, const JobCall& call, const std::vector<base::JobId>& ids) {
  const auto release = [&queue](base::JobId id, auto done) {
    queue.core().jobs().Unhold(id, WithoutJob(std::move(done)));
  };
  ChangeAll(queue, call, ids, release, Already{spec::JobState::kQueued, "is not held"});
}

// Calls `done` when the job has ended.
void CancelOne(QueueModule& queue, base::JobId id, const std::string& user,
               const std::function<void(base::Result<>)>& done) {
  const keeper::EndReason reason{std::string(jobs::kCancelledWord), "cancelled by " + user};
  queue.core().jobs().Cancel(id, reason, [&queue, id, done](const base::Result<jobs::Job>& job) {
    if (!job) return done(base::Fail(job.error()));
    const auto ended = [done](const jobs::Job&) { done({}); };
    (void)queue.core().jobs().WaitForEnd(id, ended);
  });
}

void Cancel(QueueModule& queue, const JobCall& call, const std::vector<base::JobId>& ids) {
  ChangeAll(queue, call, ids, [&queue, user = UserOf(call.exchange())](base::JobId id, auto done) {
    CancelOne(queue, id, user, done);
  });
}

// A request to cancel many jobs: first the names are looked up, then the jobs are cancelled.
struct Cancelling {
  Call<api::CancelRequest, api::CancelAnswer> call;
  std::string by;
  std::set<std::string> names{};
  api::CancelAnswer answer{};
  std::vector<std::pair<std::size_t, base::JobId>> jobs{};  // with their rows in the answer
  std::size_t left = 0;
};

void SendCancelled(QueueModule& queue, Cancelling& all) {
  if (all.answer.jobs.size() <= base::SlicedWork::kMaxAtOnce) return all.call.Send(all.answer);
  all.call.SendAside(queue.core(), std::move(all.answer));
}

// Keeps only the tasks of an array that can still be cancelled. If all have ended, keeps all: each of them
// says so.
std::vector<base::JobId> NotEnded(QueueModule& queue, const std::vector<base::JobId>& ids) {
  std::vector<base::JobId> open;
  for (const auto id : ids) {
    const auto* const job = queue.core().jobs().Find(id);
    if (job && !jobs::IsEnded(*job)) open.push_back(id);
  }
  return open.empty() ? ids : open;
}

void FindOne(QueueModule& queue, Cancelling& all, const std::string& name) {
  if (!all.names.insert(name).second) return;  // a name that the user repeats gets its rows once
  const auto ids = JobsFor(queue, all.call.exchange(), name);
  auto& rows = all.answer.jobs;
  if (!ids) {
    const auto& [code, message, hint] = ids.error();
    rows.push_back({name,
                    0,
                    {},
                    message,
                    std::string(base::ToString(code)),
                    hint.empty() ? std::nullopt : std::optional(hint)});
    return;
  }
  for (const auto id : NotEnded(queue, *ids)) {
    all.jobs.emplace_back(rows.size(), id);
    rows.push_back({name, id.value, {}, {}, {}, {}});
  }
}

void CancelOneOf(QueueModule& queue, const std::shared_ptr<Cancelling>& all, std::size_t place,
                 base::JobId id) {
  const keeper::EndReason reason{std::string(jobs::kCancelledWord), "cancelled by " + all->by};
  queue.core().jobs().Cancel(id, reason, [&queue, all, place](const base::Result<jobs::Job>& job) {
    auto& row = all->answer.jobs[place];
    if (job) {
      row.state = queue.StateOf(*job);
    } else {
      row.error = job.error().message;
      row.error_code = base::ToString(job.error().code);
      if (!job.error().hint.empty()) row.error_hint = job.error().hint;
    }
    if (--all->left == 0) SendCancelled(queue, *all);
  });
}

// Answers what a cancellation would find: the state of each job now.
void TellOneOf(QueueModule& queue, Cancelling& all, std::size_t place, base::JobId id) {
  if (const auto* const job = queue.core().jobs().Find(id))
    all.answer.jobs[place].state = queue.StateOf(*job);
  if (--all.left == 0) SendCancelled(queue, all);
}

constexpr std::size_t kStepsAtOnce = 1'000;  // of a search: they take less than a millisecond

// Adds the jobs that wait for those that are to be cancelled, and then calls `then`. Afterwards nobody knows
// them: they may be cancelled before the answer is sent.
void FindDependents(QueueModule& queue, const std::shared_ptr<Cancelling>& all, base::Party who,
                    std::function<void()> then) {
  const auto& jobs = queue.core().jobs();
  std::vector<base::JobId> open;
  for (const auto& [place, id] : all->jobs)
    if (const auto* const job = jobs.Find(id); job && !jobs::IsEnded(*job)) open.push_back(id);
  const auto search = std::make_shared<queue::AffectedSearch>(
      queue.dispatcher().AffectedBy(open, api::kMaxCancelledDependents));
  const auto finish = [&queue, &jobs, all, search, then = std::move(then)] {
    for (const auto& [id, on, goes] : search->Take())
      if (const auto* const job = jobs.Find(id))
        all->answer.dependents.push_back({id.value, job->tag, queue.StateOf(*job), on.value, goes});
    then();
  };
  if (!search->Continue(kStepsAtOnce)) return finish();
  queue.core().slices().Add(who, [search, finish](const base::TimeSlice& turn) {
    while (search->Continue(kStepsAtOnce))
      if (turn.IsOver()) return true;
    finish();
    return false;
  });
}

// Cancels each job by itself: a job that cannot be cancelled does not stop the others.
void CancelMany(QueueModule& queue, const Call<api::CancelRequest, api::CancelAnswer>& call) {
  const auto all = std::make_shared<Cancelling>(Cancelling{call, UserOf(call.exchange())});
  const base::Party who = call.request().party;
  const auto cancel = [&queue, all, who] {
    if (all->jobs.empty()) return SendCancelled(queue, *all);
    all->left = all->jobs.size();
    FindDependents(queue, all, who, [&queue, all, who] {
      queue.core().slices().ForEach(
          who, all->jobs.size(),
          [&queue, all](std::size_t i) {
            const auto& [place, id] = all->jobs[i];
            if (all->call.body().dry_run) return TellOneOf(queue, *all, place, id);
            CancelOneOf(queue, all, place, id);
          },
          [] {});
    });
  };
  queue.core().slices().ForEach(
      who, call.body().jobs.size(),
      [&queue, all](std::size_t i) { FindOne(queue, *all, all->call.body().jobs[i]); }, cancel);
}

base::Result<QueueControlState> ChangedState(const gpu::Inventory& inventory, QueueControlState state,
                                             const api::QueueSettingsUpdate& update, const std::string& by) {
  if (update.choice) {
    GPUMAN_ASSIGN(state.choice, queue::ParseGpuPick(*update.choice));
  }
  state.paused = update.paused.value_or(state.paused);
  if (update.clear_allowed) state.allowed.reset();
  if (update.allowed) {
    GPUMAN_ASSIGN(const auto gpus, gpu::SelectAll(inventory.gpus, *update.allowed));
    state.allowed.emplace();
    for (const auto& gpu : gpus) state.allowed->insert(gpu.uuid);
  }
  if (!update.allow.empty() || !update.restrict_these.empty()) {
    GPUMAN_ASSIGN(state.allowed,
                  ChangeAllowed(inventory.gpus, state.allowed, update.allow, update.restrict_these));
  }
  GPUMAN_ASSIGN(const auto drain, gpu::SelectAll(inventory.gpus, update.drain));
  GPUMAN_ASSIGN(const auto undrain, gpu::SelectAll(inventory.gpus, update.undrain));
  for (const auto& gpu : drain)
    if (state.drained.insert(gpu.uuid).second) state.drained_by[gpu.uuid] = by;
  for (const auto& gpu : undrain) {
    state.drained.erase(gpu.uuid);
    state.drained_by.erase(gpu.uuid);
  }
  return state;
}

api::QueueInfo InfoOf(QueueModule& queue) { return queue.Info(); }

void SetSettings(QueueModule& queue, const Call<api::QueueSettingsUpdate, api::QueueSettings>& call) {
  queue.writer().Do(
      [&queue, update = call.body(), by = UserOf(call.exchange())](
          const QueueAdminSettings& admin) -> base::Result<QueueAdminSettingsWriter::Change> {
        GPUMAN_ASSIGN(const auto state, ChangedState(queue.core().inventory(), admin.state, update, by));
        return QueueAdminSettingsWriter::Change{
            {Entry(state)}, [state](QueueAdminSettings& changed) { changed.state = state; }};
      },
      call.After([&queue] { return queue.Info().settings; }));
}

}  // namespace

void QueueModule::AddRoutes(http::Router& router) {
  const auto serve = RouteRegistrar(*this, router);
  serve(api::routes::kQueueInfo, InfoOf);
  serve(api::routes::kSetQueue, SetSettings);
  ServeJobs(*this, *this, router, api::routes::kHoldJob, Hold);
  ServeJobs(*this, *this, router, api::routes::kReleaseJob, Release);
  ServeJobs(*this, *this, router, api::routes::kCancelJob, Cancel);
  serve(api::routes::kCancelJobs, CancelMany);
  AddAdminSettingsRoutes(router);
  AddListRoutes(router);
}

}  // namespace gpuman::daemon
