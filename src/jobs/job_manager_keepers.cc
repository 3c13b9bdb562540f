// What the job manager does for keepers, and what it wants of them.
#include <fmt/format.h>

#include <csignal>
#include <utility>
#include <variant>

#include "base/boot.h"
#include "jobs/clock_answer.h"
#include "jobs/job_manager.h"
#include "keeper/client.h"
#include "keeper/process_tree.h"

namespace gpuman::jobs {
namespace {

// The guard acts before the job manager, also if it gives grace.
constexpr base::Millis kGuardsLead{2000};

}  // namespace

using base::ErrorCode;
using base::Fail;
using base::Result;

JobKeepers::Callbacks JobManager::KeeperCallbacks() {
  return {[this](JobId id, const keeper::JournalRecord& record) { OnRecord(id, record); },
          [this](JobId id) { OnConnected(id); },
          [this](JobId id, const base::Error& error) { OnFailed(id, error); },
          [this](JobId id, const std::string& what) { ReportError(id, what); }};
}

void JobManager::Launch(const Job& job) {
  LaunchSettings settings = options_.launch;
  settings.all_gpus = callbacks_.all_gpus();
  settings.gpu_indices = callbacks_.gpu_indices();
  settings.mps = callbacks_.mps_variables(job);
  keepers_.Prepare(job, settings);
}

// After Launch.
void JobManager::StartKeeper(const Job& job) {
  callbacks_.before_start(job, self_.Bind([id = job.id, incarnation = job.incarnation](JobManager& me) {
    const Job* const now = me.Find(id);
    if (now && now->incarnation == incarnation && !IsEnded(*now)) me.keepers_.Start(id);
  }));
}

// Undoes Launch. If preparing failed, there is no keeper any more.
void JobManager::Discard(const Job& job) {
  if (!keepers_.Discard(job.id)) files_.DeleteDirectory(job);
}

// For any state of the job: preparing again leaves a prepared directory alone, and starting a keeper finds
// out whether one is needed.
void JobManager::PickUp(const Job& job) {
  if (job.attached) return WatchAttached(job);
  Launch(job);
  if (job.keeper) return keepers_.Start(job.id);  // its programs run, or did
  StartKeeper(job);
}

void JobManager::OnRecord(JobId id, const keeper::JournalRecord& record) {
  const Job* const job = Find(id);
  if (!job) return;
  if (const auto* started = std::get_if<keeper::KeeperStarted>(&record.body))
    runtimes_[id].key = started->key;
  if (std::holds_alternative<keeper::RunStarted>(record.body))
    runtimes_[id].run_started = base::MonoTime(record.mono);
  // RunIsOver comes before the end is applied: the signal came first.
  if (std::holds_alternative<keeper::RunEnded>(record.body)) signals_.RunIsOver(id);
  std::optional<KernelKill> kill;
  if (IsUnexplainedFailure(*job, record)) kill = callbacks_.kernel_kill(*job, record);
  ApplyEvent(id, RecordReceived{record, std::move(kill)});
}

void JobManager::OnConnected(JobId id) {
  const Job* const job = Find(id);
  if (!job || IsEnded(*job)) return;
  TellChanged(*job);
  keepers_.SyncSettings(*job);
  if (const auto file = callbacks_.held_file(id)) keepers_.Hold(id, *file);
  // The job left its GPU, or came back, while daemon or keeper was away.
  if (const bool off = callbacks_.is_off_gpu(id); off != job->off_since.has_value()) SetOffGpu(id, off);
  if (job->stop_wanted && !keepers_.IsStopInJournal(id)) {
    keepers_.OrderStop(*job);
  } else if (job->state == JobState::kStopping && !job->verdict && job->reason &&
             !keepers_.IsStopInJournal(id)) {
    // The guard had ordered this end, and the daemon was killed before the end was carried out. If the keeper
    // cannot be told, or has no run to end any more, the job is ended all the same.
    (void)keepers_.Order(id, keeper::SetEndReason{0, {*job->reason, job->reason_detail.value_or("")}, false},
                         [](const Job&, const Result<>&) {});
    (void)Signal(id, SIGKILL);
  }
  AnswerWaiters(id);
}

// The new keeper has ended what it knew of. The daemon may know of more: a journal that is gone names
// nothing.
void JobManager::OnLost(const Job& job, const base::Error& error) {
  const auto end = [this, id = job.id, incarnation = job.incarnation, error] {
    const Job* const lost = Find(id);
    if (!lost || lost->incarnation != incarnation) return;
    ApplyEvent(
        id, RecordsLost{fmt::format("{}; the command was not run again, and what was left of it was ended; "
                                    "gpuman restart {} starts it again",
                                    error.message, index_.NameOf(*lost)),
                        clock_.Wall()});
  };
  if (!job.keeper || job.boot_id != base::BootId()) return end();
  keeper_work_.Add(job.owner->uid, {[keeper = *job.keeper, cgroup = job.cgroup, key = RuntimeOf(job.id).key,
                                     &table = table_] {
                                      (void)base::SendSignal(keeper, SIGKILL);
                                      keeper::EndLeftovers(cgroup, key, table);
                                    },
                                    end});
}

void JobManager::OnFailed(JobId id, const base::Error& error) {
  const Job* const job = Find(id);
  if (!job) return;
  if (error.code == ErrorCode::kCorrupt) return OnLost(*job, error);
  ReportError(id, "starting the keeper: " + error.message);
  // If a keeper was there before, it may have left processes, and the end of its run is not known yet. A job
  // of the queue has waited for this start, and others wait behind it: a disk that is full for a while fails
  // none of them.
  const bool is_for_now = job->queued && error.code == ErrorCode::kExhausted && !job->stop_wanted;
  if (job->keeper || is_for_now) return keepers_.TryAgain(id);
  ApplyEvent(id, CannotStart{error.message, clock_.Wall()});
}

void JobManager::Announce(JobId id, const keeper::EndReason& reason) {
  const Job* const job = Find(id);
  if (!job || IsEnded(*job)) return;
  GuardOrderRefused undo{reason, job->state, {}};
  if (job->reason) undo.before_reason = keeper::EndReason{*job->reason, job->reason_detail.value_or("")};
  // The reason comes before the signal. A keeper that cannot be told finds the reason in the stored record.
  (void)keepers_.Order(id, keeper::SetEndReason{0, reason, false},
                       [this, undo, seq = job->journal_seq](const Job& told, const Result<>& outcome) {
                         if (outcome || outcome.error().code == ErrorCode::kUnavailable) return;
                         // Its run was over already, and the journal records since then say so. Without such
                         // records there was no run.
                         if (told.journal_seq == seq && undo.before == JobState::kStarting)
                           ApplyEvent(told.id, undo);
                       });
  // The guard ends the processes within its grace time, and may call this again meanwhile.
  if (job->state != JobState::kStopping) attachments_.KillAfterGrace(id, kGuardsLead);
  ApplyEvent(id, GuardOrdered{reason});
}

Result<> JobManager::Signal(JobId id, int signal, TreeSignals::Done done) {
  GPUMAN_ASSIGN(const Job* const job, index_.Existing(id));
  if (!job->keeper) return Fail(ErrorCode::kConflict, "the job has no keeper yet");
  SignalOrder order;
  order.tree = {*job->keeper, job->cgroup};
  order.signal = signal;
  if (!job->attached) {
    order.has_runs = true;
    order.run = job->process;
    order.is_over = [directory = files_.DirectoryOf(*job), process = job->process] {
      std::optional<base::ProcessId> last;
      const auto read = keeper::EachRecord(directory, [&](const keeper::JournalRecord& record) {
        if (const auto* const started = std::get_if<keeper::RunStarted>(&record.body))
          last = started->process;
      });
      return read && last && process && *last != *process;
    };
  }
  signals_.Send(id, std::move(order), std::move(done));
  return {};
}

void JobManager::Note(JobId id, const std::string& line) {
  const Job* const job = Find(id);
  if (!job || job->attached) return;
  const auto lost = [this, line](const Job& now, const Result<>& outcome) {
    if (!outcome && !IsEnded(now))
      ReportError(now.id, fmt::format("its log lacks \"{}\": {}", line, outcome.error().message));
  };
  if (const auto sent = keepers_.Order(id, keeper::WriteLogNote{line}, lost); !sent) lost(*job, sent);
}

void JobManager::HoldFile(JobId id, const base::Fd& file) { keepers_.Hold(id, file); }

Result<std::string> JobManager::SavedHeldOf(const Job& job) const {
  return keeper::ReadSavedHeld(files_.DirectoryOf(job));
}

void JobManager::SetOffGpu(JobId id, bool off) {
  // If no answer comes, OnConnected corrects this by the journal.
  (void)keepers_.Order(id, keeper::SetClockPaused{off}, [this, off](const Job& job, const Result<>& outcome) {
    if (const auto text = ClockErrorText(off, outcome, job.state)) ReportError(job.id, *text);
  });
}

}  // namespace gpuman::jobs
