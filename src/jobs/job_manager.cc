#include "jobs/job_manager.h"

#include <boost/asio/post.hpp>
#include <set>
#include <variant>

namespace gpuman::jobs {
namespace {

// At once, for all users whose jobs start at the same time. The files of jobs that are gone are deleted
// beside it.
constexpr std::size_t kKeeperWork = 2;

template <typename Context>
base::Executor PostTo(Context& context) {
  return [&context](std::function<void()> act) { boost::asio::post(context, std::move(act)); };
}

}  // namespace

using base::Result;

JobManager::JobManager(boost::asio::io_context& loop, boost::asio::thread_pool& workers, StoreWorker& store,
                       const base::Clock& clock, const base::ProcessTable& table, JobManagerOptions options)
    : loop_(loop),
      store_(store),
      clock_(clock),
      table_(table),
      options_(std::move(options)),
      keeper_work_(PostTo(workers), PostTo(loop), {.of_all = kKeeperWork, .of_user = kKeeperWork}),
      files_(PostTo(workers), PostTo(loop), options_),
      waiters_(PostTo(loop)),
      keepers_(loop, keeper_work_, index_, options_, KeeperCallbacks()),
      attachments_(loop, keeper_work_, table, index_, options_, AttachmentCallbacks()),
      writer_(loop, store, index_, keepers_, callbacks_),
      enqueuer_(PostTo(loop), store, clock, index_, parts_,
                [this](const Job& job) { callbacks_.on_job_changed(job, {}); }),
      signals_(PostTo(loop), table, clock) {}

void JobManager::Adopt(StoreContents contents) {
  index_.SetLastId(contents.last_job_id);
  for (Job& job : contents.jobs) {
    parts_.Share(job);
    TellChanged(index_.Add(std::move(job)));
  }
  files_.Sweep(index_);
  for (const JobId id : std::set(index_.active_ids())) PickUp(index_.At(id));
  for (const JobId id : std::set(index_.ended_ids()))
    if (index_.At(id).remove_when_ended) Forget(id);
  ForgetOldOnes();
}

const VolatileState& JobManager::RuntimeOf(JobId id) const {
  static const VolatileState kNone;
  const auto it = runtimes_.find(id);
  return it == runtimes_.end() ? kNone : it->second;
}

void JobManager::ReportError(JobId id, const std::string& what) const {
  if (const Job* const job = Find(id)) callbacks_.on_error(*job, what);
}

bool JobManager::IsBeingStarted(JobId id) const {
  const Job* const job = Find(id);
  if (!job || job->attached || IsEnded(*job) || IsWaiting(*job)) return false;
  if (!keepers_.IsConnected(id)) return true;
  // After a failed first attempt the job waits for the next one, which may take long.
  return job->state == JobState::kStarting && !job->started_at && !job->verdict;
}

std::uint64_t JobManager::WaitForEnd(JobId id, std::function<void(const Job&)> ended) {
  const Job* const job = Find(id);
  return job ? waiters_.WaitForEnd(*job, std::move(ended)) : 0;
}

void JobManager::OnceStarted(JobId id, std::function<void()> act) {
  waiters_.WaitForStart(id, std::move(act));
  if (!IsBeingStarted(id)) waiters_.StartIsOver(id);
}

// Answers the requests for which the job has got far enough.
void JobManager::AnswerWaiters(JobId id) {
  waiters_.AnswerRuns(id, Find(id));
  if (waiters_.IsStartAwaited(id) && !IsBeingStarted(id)) waiters_.StartIsOver(id);
}

void JobManager::ApplyEvent(JobId id, const JobEvent& event, Done<void> stored) {
  if (std::holds_alternative<RootEnded>(event)) signals_.RunIsOver(id);  // as OnRecord does
  Transition t = Apply(index_.At(id), event);
  if (!t.changed) return Perform(id, t.effects);
  if (const auto peak = callbacks_.peak(id); peak && (!t.job.peak || *peak > *t.job.peak)) t.job.peak = peak;
  const Job before = index_.Replace(std::move(t.job));
  const Job& job = index_.At(id);
  const bool ended_now = IsEnded(job) && !IsEnded(before);
  const bool run_over = ended_now || (IsWaiting(job) && !IsWaiting(before));
  if (const auto* const recorded = std::get_if<RecordReceived>(&event))
    index_.Amend(id, [&](Job& now) { callbacks_.on_recorded(now, recorded->record); });
  if (run_over) stored = OnceRunIsOver(before, job, std::move(stored));
  if (t.run) callbacks_.on_run_ended(job, *t.run);
  RecordRows rows;
  rows.messages = callbacks_.messages_about(job, t.notices);
  if (t.run) rows.runs.push_back(std::move(*t.run));
  writer_.Write(id, std::move(stored), std::move(rows));
  for (const JobNotice& notice : t.notices) callbacks_.on_notice(job, notice);
  if (run_over) LeaveRun(job);
  TellChanged(job);
  AnswerWaiters(id);
  Perform(id, t.effects);
  if (!ended_now) return;
  const Job* const ended = Find(id);
  if (index_.ended_ids().size() > options_.keep_ended + options_.keep_ended / 20 ||
      (ended && index_.accounts().HasTooManyEnded(ended->owner->uid, options_.of_user)))
    ForgetOldOnes();
}

// Waiters learn of the end when it is on the disk: after a daemon that is killed before, the next daemon
// would find another state. A job that waits again keeps its directory until then: the next daemon relies on
// the journal; without it that daemon would run the command again, and would take the records of a new
// journal for known ones.
RecordWriter::Stored JobManager::OnceRunIsOver(const Job& before, const Job& now, Done<void> stored) {
  const bool ended = IsEnded(now);
  if (ended) waiters_.EndIsUnwritten(now.id);
  return [this, ended, job = ended ? now : before, stored = std::move(stored)](const Result<>& outcome) {
    if (ended) waiters_.EndIsKnown(job);
    if (!ended && outcome) files_.DeleteDirectory(job);
    if (stored) stored(outcome);
  };
}

// The caller may be the job's keeper itself. Nothing of the run stays for the next one.
void JobManager::LeaveRun(const Job& job) {
  keepers_.Leave(job.id);
  attachments_.Leave(job.id);
  if (!IsEnded(job)) runtimes_.erase(job.id);
}

void JobManager::Perform(JobId id, const std::vector<Effect>& effects) {
  for (const Effect effect : effects) {
    const Job* const job = Find(id);
    if (!job) return;
    if (effect == Effect::kOrderStop && job->attached) attachments_.End(id);
    if (effect == Effect::kOrderStop && !job->attached) keepers_.OrderStop(*job);
    if (effect == Effect::kForget) Forget(id);
    // The requests that launch and restart a job do that themselves.
  }
}

}  // namespace gpuman::jobs
