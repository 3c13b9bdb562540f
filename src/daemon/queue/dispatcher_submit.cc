// New jobs: checks that they may come, tries them out, and submits them to the store.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/queue/dispatcher.h"
#include "queue/admission.h"
#include "queue/explain.h"
#include "queue/forecast.h"

namespace gpuman::daemon {
namespace {

using base::Fail;
using base::JobId;
using base::Result;
using queue::AccountKind;

constexpr std::size_t kMaxAtOnce = base::SlicedWork::kMaxAtOnce;  // jobs; more are checked in slices
constexpr std::size_t kSome = 16;                                 // jobs between two looks at the clock
constexpr std::size_t kCopiedAtOnce = 2000;  // waiting jobs: they are copied in less than a millisecond

bool IsForJobs(queue::WaitReason reason) {
  return reason == queue::WaitReason::kDependency || reason == queue::WaitReason::kDependencyNever;
}

// Tasks of an array ask for the same.
bool AsksForTheSame(const jobs::Job& a, const jobs::Job& b) {
  return a.owner->uid == b.owner->uid && a.spec == b.spec;
}

bool Begins(const jobs::Job& job, const jobs::Job* last) {
  return !last || job.array.array.value == 0 || job.array.array != last->array.array;
}

}  // namespace

// The progress of the check of some jobs.
struct Dispatcher::Admission {
  std::vector<jobs::Job> prepared;
  Done<Admitted> done;
  Claim claim{};
  bool several = false;  // submissions: an error then names which one it is about
  std::size_t at = 0;
  std::size_t place = 0;  // of the submission that is being checked
  const jobs::Job* last = nullptr;
};

namespace {

bool AreSeveral(const std::vector<jobs::Job>& prepared) {
  return prepared.size() > 1 && std::any_of(prepared.begin(), prepared.end(), [&](const jobs::Job& one) {
           return Begins(one, &prepared.front());
         });
}

}  // namespace

// False: there are more.
Result<bool> Dispatcher::CheckSome(Admission& admission, const base::TimeSlice* turn) {
  for (; admission.at < admission.prepared.size(); ++admission.at) {
    if (turn && admission.at % kSome == 0 && turn->IsOver()) return false;
    const auto& one = admission.prepared[admission.at];
    const auto* const last = admission.last;
    if (last && Begins(one, &admission.prepared[admission.at - 1])) ++admission.place;
    if (last && AsksForTheSame(*last, one)) continue;
    admission.last = &one;
    const auto& project = one.spec->project.value_or("");
    const auto account = updater_.AccountOf(AccountKind::kUser, one.owner->user);
    const auto its_project =
        project.empty() ? queue::kNone : updater_.AccountOf(AccountKind::kProject, project);
    auto may = queue::CanEverRun(updater_.snapshot(), updater_.NeedOf(*one.spec), one.spec->gpus, account,
                                 its_project);
    if (may) continue;
    if (admission.several) return Fail(std::move(may.error()).In(fmt::format("jobs[{}]", admission.place)));
    return Fail(std::move(may.error()));
  }
  return true;
}

void Dispatcher::Admit(std::vector<jobs::Job> prepared, Claim claim, Done<Admitted> done) {
  auto counts = SubmissionClaims::CountOf(prepared);
  const auto admission = std::make_shared<Admission>();  // shared by its slices
  admission->several = AreSeveral(prepared);
  admission->prepared = std::move(prepared);
  admission->done = std::move(done);
  if (admission->prepared.size() <= kMaxAtOnce) {
    const auto checked = CheckSome(*admission, nullptr);
    if (!checked) return admission->done(Fail(checked.error()));
  }
  // From here on the jobs count exactly. Other submissions count in addition until these jobs wait in the
  // queue.
  claim.reset();
  if (auto may = claims_.MayQueue(counts); !may) return admission->done(Fail(may.error()));
  admission->claim = claims_.Take(std::move(counts));
  const auto finish = [](Admission& of) { of.done(Admitted{std::move(of.prepared), std::move(of.claim)}); };
  if (admission->prepared.size() <= kMaxAtOnce) return finish(*admission);
  slices_.Add(admission->prepared.front().owner->uid, [this, admission, finish](const base::TimeSlice& turn) {
    const auto checked = CheckSome(*admission, &turn);
    if (!checked) {
      admission->claim.reset();
      admission->done(Fail(checked.error()));
      return false;
    }
    if (!*checked) return true;
    finish(*admission);
    return false;
  });
}

void Dispatcher::Submit(std::vector<jobs::Job> prepared, Done<std::vector<JobId>> done, Claim taken) {
  Admit(std::move(prepared), std::move(taken), [this, done = std::move(done)](Result<Admitted> admitted) {
    if (!admitted) return done(Fail(admitted.error()));
    jobs_.Enqueue(std::move(admitted->jobs),
                  [done, claim = std::move(admitted->claim)](Result<std::vector<JobId>> ids) mutable {
                    claim.reset();
                    done(std::move(ids));
                  });
  });
}

// Puts the jobs into the updater with ids from `id` on, which no other jobs have.
void Dispatcher::PutOnTrial(queue::SnapshotUpdater& updater, const std::vector<jobs::Job>& prepared, JobId id,
                            queue::WallTime now) {
  const JobId first = id;
  std::shared_ptr<const spec::JobSpec> spec;  // the spec for which `state` holds
  auto state = queue::DependencyState::kMet;
  for (const auto& one : prepared) {
    queue::WaitingJob row{id, one.owner->user, now};
    ++id.value;
    row.held = one.state == spec::JobState::kHeld;
    const auto& list = one.spec->depends.list;
    if (spec != one.spec.pointer()) {
      state = list.empty()
                  ? queue::DependencyState::kMet
                  : queue::Judge(one.spec->depends, [this](JobId other) { return ProgressOf(other); });
      if (state == queue::DependencyState::kImpossible &&
          std::any_of(list.begin(), list.end(), [&](const auto& each) { return each.job >= first; }))
        state = queue::DependencyState::kWaits;  // for a job of this submission
      spec = one.spec.pointer();
    }
    row.dependency = state;
    row.array = ArrayOf(one);
    updater.PutWaiting(row, *one.spec);
  }
}

namespace {

// A trial, which a worker computes off the loop.
struct Trial {
  queue::SnapshotUpdater updater;
  JobId first{};
  base::MonoTime mono{};
  queue::WallTime now{};
  Dispatcher::SubmissionForecast forecast;
  Dispatcher::Claim claim{};  // counts the jobs of trials under way
};

// The place in the request of the submission that each job is of.
std::vector<std::size_t> SubmissionsOf(const std::vector<jobs::Job>& jobs) {
  std::vector<std::size_t> places(jobs.size(), 0);
  for (std::size_t i = 1; i < jobs.size(); ++i) places[i] = places[i - 1] + Begins(jobs[i], &jobs[i - 1]);
  return places;
}

void WorkOut(Trial& trial) {
  auto& forecast = trial.forecast;
  const std::size_t count = forecast.jobs.size();
  const auto& snapshot = trial.updater.View(trial.mono);
  const auto plan = queue::Pass(snapshot, trial.now);
  const auto estimates = queue::Forecast(snapshot, plan, trial.now, kForecasts);
  const queue::Dependents nobody;  // the jobs of the trial name what they wait for themselves
  const queue::Explainer explainer(snapshot, plan, trial.now, nobody);
  forecast.verdicts.resize(count);
  forecast.details.resize(count);
  forecast.starts.assign(count, queue::kNever);
  forecast.presumed.assign(count, false);
  forecast.gpus.resize(count);
  const auto place_of = [&](JobId id) -> std::optional<std::size_t> {
    const auto place = static_cast<std::size_t>(id.value - trial.first.value);
    return id < trial.first || place >= count ? std::nullopt : std::optional(place);
  };
  const auto submission = SubmissionsOf(forecast.jobs);
  // The ids of the trial are not those that the jobs will get.
  const auto name_of = [&](JobId id) {
    const auto place = place_of(id);
    if (!place) return queue::NameById(id);
    const auto& job = forecast.jobs[*place];
    if (job.tag.empty()) return fmt::format("jobs[{}]", submission[*place]);
    return job.array.array.value == 0 ? fmt::format("job '{}'", job.tag)
                                      : fmt::format("job '{}_{}'", job.tag, job.array.task);
  };
  for (std::size_t row = 0; row < snapshot.waiting.size(); ++row) {
    const auto place = place_of(snapshot.waiting[row].id);
    if (!place) continue;
    forecast.verdicts[*place] = plan.verdicts[row];
    const auto& depends = forecast.jobs[*place].spec->depends;
    forecast.details[*place] = IsForJobs(plan.verdicts[row].reason)
                                   ? queue::Explain(plan.verdicts[row].reason, depends, name_of)
                                   : explainer.Of(static_cast<queue::Index>(row));
    forecast.starts[*place] = estimates.starts[row];
    forecast.presumed[*place] = estimates.presumed[row];
  }
  for (const auto& start : plan.starts) {
    const auto place = place_of(start.job);
    if (!place) continue;
    for (std::size_t i = 0; i < snapshot.gpus.size(); ++i)
      if (start.gpus.test(i)) forecast.gpus[*place].push_back(snapshot.gpus[i].uuid);
  }
}

}  // namespace

// Works on a copy of the snapshot, so that the trial changes nothing. The copy is made when the trial's turn
// has come, so that waiting trials hold no copies. The copy of a long queue is a slice of its own.
void Dispatcher::TryOut(std::vector<jobs::Job> prepared, Done<SubmissionForecast> done, Claim taken,
                        std::function<bool()> is_cancelled) {
  Admit(std::move(prepared), std::move(taken),
        [this, done = std::move(done), is_cancelled = std::move(is_cancelled)](Result<Admitted> admitted) {
          if (!admitted) return done(Fail(admitted.error()));
          const auto trial = std::make_shared<Trial>();  // shared with the worker
          trial->forecast.jobs = std::move(admitted->jobs);
          trial->claim = std::move(admitted->claim);
          const auto& first = trial->forecast.jobs.front();
          const uid_t user = first.owner->uid;
          const auto begin = self_.Bind([trial, number = first.id](Dispatcher& me) {
            trial->updater = me.updater_;
            trial->first = number.value != 0 ? number : me.jobs_.index().NextId();
            trial->mono = me.clock_.Mono();
            trial->now = me.clock_.Wall();
            me.PutOnTrial(trial->updater, trial->forecast.jobs, trial->first, trial->now);
          });
          const auto try_out = [this, trial, user, begin, done, is_cancelled] {
            const auto waits = callbacks_.aside(
                user, {[trial] { WorkOut(*trial); }, [trial, done] { done(std::move(trial->forecast)); },
                       begin, is_cancelled});
            if (!waits) done(Fail(waits.error()));
          };
          if (updater_.snapshot().waiting.size() + trial->forecast.jobs.size() <= kCopiedAtOnce)
            return try_out();
          slices_.Add(user, [try_out](const base::TimeSlice&) {
            try_out();
            return false;
          });
        });
}

}  // namespace gpuman::daemon
