// What people ask the queue: to take jobs, what would become of them, which jobs they mean.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/queue/dispatcher.h"
#include "daemon/queue/named.h"
#include "queue/admission.h"
#include "queue/explain.h"
#include "queue/forecast.h"
#include "queue/record.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::JobId;
using base::Result;
using queue::AccountKind;

constexpr std::size_t kForecasts = 1000;
constexpr std::size_t kRecent = 1000;  // of a user

bool IsForJobs(queue::Reason reason) {
  return reason == queue::Reason::kDependency || reason == queue::Reason::kDependencyNever;
}

}  // namespace

Result<> Dispatcher::MayBeTaken(const std::vector<PreparedJob>& prepared) {
  std::map<std::string, int> by_user, by_project;
  const PreparedJob* last = nullptr;
  std::size_t place = 0;  // of the submission that is looked at
  const bool several = std::any_of(prepared.begin(), prepared.end(),
                                   [&](const PreparedJob& one) {
                                     return one.job.array.array.value == 0 ||
                                            one.job.array.array != prepared.front().job.array.array;
                                   }) &&
                       prepared.size() > 1;
  for (const auto& one : prepared) {
    const bool begins =
        !last || one.job.array.array.value == 0 || one.job.array.array != last->job.array.array;
    if (last && begins) ++place;
    const auto& user = one.job.owner->user;
    const auto& project = one.request.project;
    ++by_user[user];
    if (!project.empty()) ++by_project[project];
    // Tasks of an array ask for the same.
    if (last && (last->job.terms.pointer() == one.job.terms.pointer() ||
                 (last->job.owner->uid == one.job.owner->uid && last->job.priority == one.job.priority &&
                  last->job.terms->request == one.job.terms->request)))
      continue;
    last = &one;
    const auto account = book_.AccountOf(AccountKind::kUser, user);
    const auto its_project = project.empty() ? queue::kNone : book_.AccountOf(AccountKind::kProject, project);
    if (auto may = queue::CanEverRun(book_.snapshot(), book_.NeedOf(one.request), account, its_project); !may)
      return several ? Fail(std::move(may.error()).In(fmt::format("jobs[{}]", place))) : may;
  }
  for (const auto& [user, count] : by_user) {
    const auto row = book_.AccountOf(AccountKind::kUser, user);
    GPUMAN_TRY(
        queue::MayQueue(book_.snapshot().users[row], "user", book_.Queued(AccountKind::kUser, user), count));
  }
  for (const auto& [project, count] : by_project) {
    const auto row = book_.AccountOf(AccountKind::kProject, project);
    GPUMAN_TRY(queue::MayQueue(book_.snapshot().projects[row], "project",
                               book_.Queued(AccountKind::kProject, project), count));
  }
  return {};
}

Result<> Dispatcher::MayBecome(const PreparedJob& changed) {
  const auto& job = changed.job;
  const auto& project = changed.request.project;
  const auto account = book_.AccountOf(AccountKind::kUser, job.owner->user);
  const auto its_project = project.empty() ? queue::kNone : book_.AccountOf(AccountKind::kProject, project);
  GPUMAN_TRY(queue::CanEverRun(book_.snapshot(), book_.NeedOf(changed.request), account, its_project));
  const auto circle = queue::FindCircle(job.id, changed.request.depends,
                                        [this](JobId other) { return dependents_.DependenciesOf(other); });
  if (circle.empty()) return {};
  std::string way;
  for (const JobId id : circle) way += fmt::format("{}{}", way.empty() ? "" : " -> ", id.value);
  return Fail(ErrorCode::kInvalidArgument, "depends: jobs would wait for each other: " + way);
}

std::vector<JobId> Dispatcher::CancelledWith(JobId job) const {
  std::vector<JobId> cancelled;
  std::set<JobId> found{job};
  // What many have in common is read once.
  std::shared_ptr<const jobs::Terms> terms;
  queue::Dependencies depends;
  // A job waits for earlier ones, so one look at each is enough, from the first to the last.
  for (const auto* const one : jobs_.All()) {
    if (one->state != jobs::JobState::kCancelled || one->reason != ToString(queue::Reason::kDependencyNever))
      continue;
    if (terms != one->terms.pointer())
      depends = queue::ParseRequest(one->terms->request).value_or(queue::Request{}).depends;
    terms = one->terms.pointer();
    if (std::any_of(depends.list.begin(), depends.list.end(),
                    [&](const queue::Dependency& each) { return found.contains(each.job); })) {
      cancelled.push_back(one->id);
      found.insert(one->id);
    }
  }
  return cancelled;
}

void Dispatcher::Submit(std::vector<PreparedJob> prepared, Done<std::vector<JobId>> done) {
  if (auto may = MayBeTaken(prepared); !may) return done(Fail(may.error()));
  std::vector<jobs::Job> jobs;
  jobs.reserve(prepared.size());
  for (auto& one : prepared) jobs.push_back(std::move(one.job));
  jobs_.Enqueue(std::move(jobs), std::move(done));
}

// Over a copy of the book: nothing of it stays.
Result<Dispatcher::Outlook> Dispatcher::TryOut(const std::vector<PreparedJob>& prepared) {
  GPUMAN_TRY(MayBeTaken(prepared));
  queue::Book book = book_;
  const auto now = clock_.Wall();
  JobId id = jobs_.NextId();
  std::map<JobId, std::size_t> places;
  for (const auto& one : prepared) {
    queue::WaitingJob row{id, one.job.owner->user, now};
    row.held = one.job.state == jobs::JobState::kHeld;
    row.dependency =
        one.request.depends.list.empty()
            ? queue::DependencyState::kMet
            : queue::Judge(one.request.depends, [this](JobId other) { return ProgressOf(other); });
    if (row.dependency == queue::DependencyState::kImpossible &&
        std::any_of(one.request.depends.list.begin(), one.request.depends.list.end(),
                    [&](const auto& depends) { return depends.job >= jobs_.NextId(); }))
      row.dependency = queue::DependencyState::kWaits;  // for one of this submission
    book.PutWaiting(row, one.request);
    places.emplace(id, places.size());
    ++id.value;
  }
  const auto& snapshot = book.View(clock_.Mono());
  const auto plan = queue::Pass(snapshot, now);
  const auto estimates = queue::Forecast(snapshot, plan, now, kForecasts);
  const queue::Explainer explainer(snapshot, plan, now, dependents_);
  Outlook outlook;
  outlook.verdicts.resize(prepared.size());
  outlook.details.resize(prepared.size());
  outlook.starts.assign(prepared.size(), queue::kNever);
  outlook.presumed.assign(prepared.size(), false);
  outlook.gpus.resize(prepared.size());
  for (std::size_t row = 0; row < snapshot.waiting.size(); ++row) {
    const auto place = places.find(snapshot.waiting[row].id);
    if (place == places.end()) continue;
    outlook.verdicts[place->second] = plan.verdicts[row];
    const auto& depends = prepared[place->second].request.depends;
    outlook.details[place->second] = IsForJobs(plan.verdicts[row].reason)
                                         ? queue::Explain(plan.verdicts[row].reason, depends)
                                         : explainer.Of(static_cast<queue::Index>(row));
    outlook.starts[place->second] = estimates.starts[row];
    outlook.presumed[place->second] = estimates.presumed[row];
  }
  for (const auto& start : plan.starts) {
    const auto place = places.find(start.job);
    if (place == places.end()) continue;
    for (std::size_t i = 0; i < snapshot.gpus.size(); ++i)
      if (start.gpus.test(i)) outlook.gpus[place->second].push_back(snapshot.gpus[i].uuid);
  }
  return outlook;
}

bool Dispatcher::IsLookCheap() const { return (!dirty_ && forecast_) || clock_.Mono() >= next_look_; }

Dispatcher::View Dispatcher::Look() {
  const auto began = clock_.Mono();
  const auto now = clock_.Wall();
  FollowClock(now);
  const bool known = !dirty_ && forecast_;
  const auto& snapshot = book_.View(clock_.Mono());
  if (dirty_ || plan_.verdicts.size() != snapshot.waiting.size()) {
    plan_ = queue::Pass(snapshot, now);
    dirty_ = forecast_ = false;
    // What it would start is started by the pass that is on its way.
  }
  if (!forecast_) estimates_ = queue::Forecast(snapshot, plan_, now, kForecasts);
  forecast_ = true;
  const auto ended = clock_.Mono();
  if (!known) next_look_ = ended + kRestPerPass * (ended - began);
  return {snapshot, plan_, estimates_.starts, estimates_.presumed, now, dependents_};
}

Dispatcher::Backlog Dispatcher::LookAtBacklog() const {
  Backlog backlog;
  backlog.paused = state_.paused;
  for (const auto& verdict : plan_.verdicts) ++backlog.jobs[verdict.reason];
  const auto now = clock_.Wall();
  for (const auto& row : book_.snapshot().waiting) {
    if (row.held || row.dependency != queue::DependencyState::kMet || row.begin > now) continue;
    backlog.oldest = std::min(backlog.oldest.value_or(queue::kNever), row.since);
  }
  return backlog;
}

// --- Which jobs are meant ---

void Dispatcher::RememberRecent(const jobs::Job& job) {
  if (!job.queued || (job.array.array.value != 0 && job.array.array != job.id)) return;
  auto& mine = recent_[job.owner->uid];
  // A large submission has its ids before it is taken.
  const auto place = std::lower_bound(mine.begin(), mine.end(), job.id);
  if (place != mine.end() && *place == job.id) return;
  mine.insert(place, job.id);
  if (mine.size() > kRecent) mine.pop_front();
}

queue::ReferenceLookup Dispatcher::LookupFor(uid_t user) const {
  return [this, user](const queue::Reference& reference) -> std::vector<JobId> {
    using Kind = queue::Reference::Kind;
    switch (reference.kind) {
      case Kind::kId:
        return jobs_.TasksOf(reference.id);
      case Kind::kTask:
        return TaskOf(reference.id, reference.task);
      case Kind::kRecent: {
        const auto mine = recent_.find(user);
        if (mine == recent_.end() || static_cast<std::size_t>(reference.back) >= mine->second.size())
          return {};
        return jobs_.TasksOf(
            mine->second[mine->second.size() - 1 - static_cast<std::size_t>(reference.back)]);
      }
      case Kind::kTag: {
        if (const auto meant = MeantBy(jobs_.Named(reference.tag), user)) return jobs_.TasksOf(meant->job);
        const auto split = SplitTask(reference.tag);
        const auto array = split ? MeantBy(jobs_.Named(split->first), user) : std::nullopt;
        return array ? TaskOf(array->job, split->second) : std::vector<JobId>{};
      }
    }
    return {};
  };
}

std::vector<JobId> Dispatcher::TaskOf(JobId array, std::int64_t task) const {
  for (const JobId id : jobs_.TasksOf(array))
    if (const auto* const job = jobs_.Find(id); job && job->array.array == array && job->array.task == task)
      return {id};
  return {};
}

Result<> Dispatcher::IsOneJob(const std::string& text, uid_t user) const {
  const auto reference = queue::ParseReference(text);
  if (!reference || reference->kind != queue::Reference::Kind::kTag) return {};
  auto meant = MeantBy(jobs_.Named(reference->tag), user);
  const auto split = SplitTask(reference->tag);
  if (!meant && split) meant = MeantBy(jobs_.Named(split->first), user);
  return meant ? IsOne(text, *meant) : Result<>();
}

Result<std::vector<JobId>> Dispatcher::JobsOf(const std::string& text, uid_t user) const {
  GPUMAN_ASSIGN(const auto reference, queue::ParseReference(text));
  auto ids = LookupFor(user)(reference);
  if (ids.empty())
    return Fail(ErrorCode::kNotFound, fmt::format("there is no job {}", text),
                "`gpuman queue` and `gpuman status --all` list them");
  return ids;
}

}  // namespace gpuman::daemon
