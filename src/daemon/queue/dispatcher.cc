#include "daemon/queue/dispatcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "queue/admission.h"
#include "queue/explain.h"
#include "queue/forecast.h"
#include "spec/json.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::JobId;
using base::Result;
using queue::WallTime;

constexpr base::Millis kAfterStoreError{5'000};
constexpr int kJobsPerSlice = 200;  // so many have their memory chosen in some milliseconds

std::vector<std::string> NamesOf(const queue::GpuSet& set, const queue::Snapshot& snapshot) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < snapshot.gpus.size(); ++i)
    if (set.test(i)) names.push_back(snapshot.gpus[i].uuid);
  return names;
}

queue::Host HostOf() {
  queue::Host host;
  const auto pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && size > 0)
    host.memory = base::Bytes{static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(size)};
  const auto processors = ::sysconf(_SC_NPROCESSORS_ONLN);
  if (processors > 0) host.cpus = static_cast<int>(processors);
  return host;
}

}  // namespace

Dispatcher::Dispatcher(boost::asio::io_context& loop, const base::Clock& clock, jobs::JobManager& jobs,
                       const guard::Guard& guard, DispatcherCallbacks callbacks)
    : loop_(loop),
      clock_(clock),
      jobs_(jobs),
      references_(jobs),
      guard_(guard),
      callbacks_(std::move(callbacks)),
      claims_(jobs, updater_, dependents_),
      snapshots_(
          loop, clock, [this] { return CopySnapshot(); },
          [this](base::FairTaskExecutor::Task task) {
            (void)callbacks_.aside(base::kEveryUser, std::move(task));  // which takes each of them
          }),
      timer_(loop, [this] { Wake(); }),
      pause_(loop),
      slices_([&loop](std::function<void()> act) { boost::asio::post(loop, std::move(act)); }, clock) {
  updater_.SetHost(HostOf());
}

void Dispatcher::Begin() {
  begun_ = true;
  Wake();
}

// --- Passes ---

void Dispatcher::MarkChanged() {
  dirty_ = true;
  snapshots_.OnChanged();
}

void Dispatcher::Wake() {
  MarkChanged();
  if (!begun_ || pass_posted_) return;
  pass_posted_ = true;
  const auto pass = self_.Bind([](Dispatcher& me) { me.Pass(); });
  if (clock_.Mono() >= next_pass_) return boost::asio::post(loop_, pass);
  pause_.expires_at(next_pass_);
  pause_.async_wait([pass](boost::system::error_code error) {
    if (!error) pass();
  });
}

void Dispatcher::Pass() {
  pass_posted_ = false;
  const auto began = clock_.Mono();
  if (began < stuck_until_) {
    next_pass_ = stuck_until_;
    return Wake();
  }
  const WallTime now = clock_.Wall();
  FollowClock(now);
  UpdateWindows(now);
  const auto& snapshot = updater_.View(began);
  // A question since the last change may have made a plan of the same snapshot already.
  if (dirty_) {
    plan_ = queue::Pass(snapshot, now);
    dirty_ = forecast_ = false;
  }
  timer_.SetTime(plan_.wake_at);
  Apply(plan_, snapshot, now);
  const auto ended = clock_.Mono();
  next_pass_ = ended + kRestPerPass * (ended - began);
}

// Orders change the snapshot, so they take what they need out of it first.
void Dispatcher::Apply(const queue::Plan& plan, const queue::Snapshot& snapshot, WallTime now) {
  std::vector<std::function<void()>> orders;
  std::optional<queue::Explainer> explainer;
  if (!plan.cancels.empty()) explainer.emplace(snapshot, plan, now, dependents_);
  for (const auto& cancel : plan.cancels)
    orders.emplace_back([this, job = cancel.job, word = std::string(ToString(cancel.reason)),
                         why = explainer->Of(cancel.waiting)] {
      jobs_.Cancel(job, {word, why}, [](const Result<jobs::Job>&) {});
    });
  for (const auto& preempt : plan.preempts) orders.emplace_back([this, preempt] { Preempt(preempt); });
  for (const auto& move : plan.moves)
    orders.emplace_back([this, job = move.job, from = NamesOf(move.from, snapshot),
                         to = NamesOf(move.to, snapshot)] { Move(job, from, to); });
  for (const auto& resume : plan.resumes)
    orders.emplace_back(
        [this, job = resume.job, gpus = NamesOf(resume.gpus, snapshot)] { Resume(job, gpus); });
  for (const auto& start : plan.starts)
    orders.emplace_back([this, job = start.job, gpus = NamesOf(start.gpus, snapshot)] { Start(job, gpus); });
  for (const auto& order : orders) order();
}

bool Dispatcher::ChoosesMemory(JobId id) {
  if (choosing_.contains(id)) return true;
  const auto* const job = jobs_.Find(id);
  if (!job || !job->spec->memory_auto) return false;
  auto choice = callbacks_.choose_memory(*job);
  if (!choice) return false;
  choosing_.insert(id);
  const jobs::Shared<spec::JobSpec> spec(std::move(choice->spec));
  jobs_.Change(
      id, [&](jobs::Job& changed) { changed.spec = spec; },
      self_.Bind([id, note = std::move(choice->note)](Dispatcher& me, const Result<jobs::Job>& changed) {
        me.choosing_.erase(id);
        if (changed) me.callbacks_.on_memory_chosen(*changed, note);
        if (!changed && changed.error().code != ErrorCode::kConflict)
          me.stuck_until_ = me.clock_.Mono() + kAfterStoreError;
        me.Wake();
      }));
  return true;
}

// With the size that they were submitted with these jobs may not fit, so nobody asks again at their start. An
// array's tasks, and the jobs of a sweep, have ids one after the other.
void Dispatcher::ChooseMemoryAfter(const jobs::Job& job) {
  auto choose =
      self_.Bind([id = job.id, user = job.owner->uid, name = jobs::AccountName(job)](Dispatcher& me) {
        std::vector<JobId> alike;
        const auto* next = me.jobs_.index().After(id);
        for (int jobs = 0; next && jobs < kJobsPerSlice; ++jobs, next = me.jobs_.index().After(next->id))
          if (jobs::IsWaiting(*next) && next->spec->memory_auto && next->owner->uid == user &&
              jobs::AccountName(*next) == name)
            alike.push_back(next->id);
        for (const JobId each : alike) me.ChoosesMemory(each);
      });
  boost::asio::post(loop_, std::move(choose));
}

void Dispatcher::Start(JobId id, std::vector<std::string> gpus) {
  if (ChoosesMemory(id)) return;
  jobs_.Start(id, std::move(gpus), self_.Bind([](Dispatcher& me, const Result<jobs::Job>& started) {
    if (started || started.error().code == ErrorCode::kConflict) return;
    me.stuck_until_ = me.clock_.Mono() + kAfterStoreError;
  }));
  // The GPUs belong to the job from here on, not only once its start is on the disk.
  if (const auto* const job = jobs_.Find(id)) OnJobChanged(*job);
}

void Dispatcher::Preempt(const queue::PreemptDecision& order) {
  const auto it = active_.find(order.job);
  if (it == active_.end()) return;
  Active& active = it->second;
  std::string why = fmt::format("it made room for job {}", order.for_job.value);
  if (order.left.count > 0)
    why += fmt::format(", for which too much of it would have stayed if it had been suspended: {}",
                       base::FormatBytes(order.left));
  active.row.phase = queue::RunningPhase::kLeaving;
  if (order.requeue) {  // nothing of it stays
    active.unsuspendable = true;
    active.row.suspendable = active.row.movable = false;
  }
  Refresh(active);
  if (order.requeue) return jobs_.Requeue(order.job, {"preempted", why});
  const bool idle = callbacks_.is_idle(order.job);
  active.row.wants_back = !idle;
  Refresh(active);
  active.preempting = true;
  const auto answer = self_.Bind([id = order.job, idle](Dispatcher& me, const Result<>& there) {
    const auto found = me.active_.find(id);
    if (found == me.active_.end()) return;
    found->second.preempting = false;
    if (there) return;
    // It stays where it is; the next one that needs room ends it. One that was idle may just have made a
    // call.
    if (!idle) {
      found->second.unsuspendable = true;
      found->second.row.suspendable = found->second.row.movable = false;
    }
    found->second.row.wants_back = false;
    found->second.row.phase = queue::RunningPhase::kRunning;
    me.Refresh(found->second);
    me.Wake();
  });
  callbacks_.preempt(order.job, idle, why, answer);
}

void Dispatcher::Resume(JobId id, std::vector<std::string> gpus, DispatcherCallbacks::Done done) {
  const auto it = active_.find(id);
  if (it == active_.end()) return;
  Active& active = it->second;
  const auto before = active.row.gpus;
  active.row.phase = queue::RunningPhase::kRunning;
  active.row.gpus = gpus;
  active.row.on_since = clock_.Mono();
  Refresh(active);
  const auto* const job = jobs_.Find(id);
  const bool elsewhere = gpus.size() == 1 && job && job->gpus != gpus;
  const auto resumed = self_.Bind(
      [id, before](Dispatcher& me, const Result<>& there) { me.Resumed(id, before, there.has_value()); });
  callbacks_.resume(id, elsewhere ? std::optional(gpus.front()) : std::nullopt,
                    [resumed, done = std::move(done)](const Result<>& there) {
                      resumed(there);
                      if (done) done(there);
                    });
}

// If the job could not come back, the next change lets a pass try again.
void Dispatcher::Resumed(JobId id, const std::vector<std::string>& before, bool there) {
  const auto it = active_.find(id);
  if (it == active_.end()) return;
  queue::RunningJob& row = it->second.row;
  if (there) {
    row.wants_back = false;
  } else {
    row.phase = queue::RunningPhase::kSuspended;
    row.gpus = before;
    row.on_since.reset();
  }
  Refresh(it->second);
  if (there) Wake();
}

void Dispatcher::Move(JobId id, std::vector<std::string> from, std::vector<std::string> to,
                      DispatcherCallbacks::Done done) {
  const auto it = active_.find(id);
  if (it == active_.end() || to.size() != 1) return;
  queue::RunningJob& row = it->second.row;
  const auto before = row.gpus;
  row.phase = queue::RunningPhase::kMoving;
  row.gpus = from;
  row.gpus.insert(row.gpus.end(), to.begin(), to.end());
  row.leaving = std::move(from);
  Refresh(it->second);
  const auto moved = self_.Bind([id, before, to](Dispatcher& me, const Result<>& there) {
    me.Moved(id, there ? to : before, there.has_value());
  });
  callbacks_.move_to(id, to.front(), [moved, done = std::move(done)](const Result<>& there) {
    moved(there);
    if (done) done(there);
  });
}

void Dispatcher::Moved(JobId id, const std::vector<std::string>& gpus, bool there) {
  const auto it = active_.find(id);
  if (it == active_.end()) return;
  Active& active = it->second;
  active.row.phase = queue::RunningPhase::kRunning;
  active.row.gpus = gpus;
  active.row.leaving.clear();
  if (!there) {
    active.unsuspendable = true;
    active.row.suspendable = active.row.movable = false;
  }
  Refresh(active);
  Wake();
}

}  // namespace gpuman::daemon
