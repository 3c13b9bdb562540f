// Starts and follows keepers, and gives them orders.
#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "base/boot.h"
#include "jobs/job_manager.h"
#include "keeper/process_tree.h"

namespace gpuman::jobs {
namespace {

// The guard acts before the job manager, also if it gives grace.
constexpr base::Millis kGuardsLead{2000};

}  // namespace

using base::ErrorCode;
using base::Fail;
using base::Result;

keeper::UpdateSettings JobManager::SettingsOf(const Job& job) {
  keeper::UpdateSettings settings;
  settings.restart = keeper::RestartPolicy{};
  settings.restart->mode = job.spec->restart;
  settings.stop_grace = job.spec->grace;
  if (job.queued) settings.time_limit = job.spec->time_limit.value_or(base::Millis{0});
  return settings;
}

Result<JobManager::Entry*> JobManager::Existing(JobId id) {
  auto it = entries_.find(id);
  if (it == entries_.end()) return Fail(NoSuchJob(std::to_string(id.value)));
  return &it->second;
}

Result<JobManager::Entry*> JobManager::Kept(JobId id) {
  auto found = Existing(id);
  if (found && (*found)->forgotten_soon) return Fail(NoSuchJob(std::to_string(id.value)));
  return found;
}

void JobManager::MakeLink(Entry& entry) {
  if (entry.link) entry.link->Stop();
  const JobId id = entry.job.id;
  // Callbacks of a link of an earlier incarnation are ignored.
  const auto with_me = [self = self_, id, incarnation = entry.job.incarnation](auto body) {
    if (!*self) return;
    const Job* const job = (*self)->Find(id);
    if (job && job->incarnation == incarnation) body(**self);
  };
  KeeperLink::Callbacks callbacks;
  callbacks.on_record = [with_me, id](const keeper::JournalRecord& record) {
    with_me([&](JobManager& me) { me.OnRecord(id, record); });
  };
  callbacks.on_connected = [with_me, id] { with_me([&](JobManager& me) { me.OnConnected(id); }); };
  callbacks.on_failed = [with_me, id](const base::Error& error) {
    with_me([&](JobManager& me) { me.OnFailed(id, error); });
  };
  callbacks.on_trouble = [with_me, id](const std::string& what) {
    with_me([&](JobManager& me) { me.Trouble(id, what); });
  };
  const auto in_turn = [self = self_, user = entry.job.owner->uid](std::function<void()> work) {
    if (*self) (*self)->keeper_work_.Add(user, {std::move(work)});
  };
  entry.link = std::make_shared<KeeperLink>(loop_, in_turn, options_.keeper_program,
                                            JobDirectory(options_.jobs_dir, entry.job), entry.job.journal_seq,
                                            std::move(callbacks));
}

void JobManager::Launch(Entry& entry) {
  MakeLink(entry);
  LaunchSettings settings = options_.launch;
  settings.all_gpus = callbacks_.all_gpus();
  settings.gpu_indices = callbacks_.gpu_indices();
  settings.mps = callbacks_.mps_variables(entry.job);
  entry.link->Prepare(PlanLaunch(entry.job, settings));
}

// Undoes Launch. If preparing failed, the link is gone already.
void JobManager::Discard(Entry& entry) {
  if (entry.link)
    entry.link->Discard();
  else
    DeleteFiles(entry.job.owner->uid, {JobDirectory(options_.jobs_dir, entry.job)});
}

// For any state of the job: preparing again leaves a prepared directory alone, and starting a keeper finds
// out whether one is needed.
void JobManager::PickUp(Entry& entry) {
  if (entry.job.attached) return WatchRoot(entry);
  Launch(entry);
  entry.link->Start();
}

namespace {

// Settings as this version writes them: an older keeper wrote the same fields in another order.
std::string AsWrittenHere(const std::string& settings) {
  const auto parsed = keeper::ParseSettings(settings);
  return parsed ? keeper::SerializeSettings(*parsed) : settings;
}

}  // namespace

void JobManager::OnRecord(JobId id, const keeper::JournalRecord& record) {
  auto it = entries_.find(id);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  if (const auto* started = std::get_if<keeper::KeeperStarted>(&record.body))
    entry.runtime.key = started->key;
  if (std::holds_alternative<keeper::RunStarted>(record.body))
    entry.runtime.run_started = base::MonoTime(record.mono);
  // RunIsOver comes before the end is applied: the signal came first.
  if (std::holds_alternative<keeper::RunEnded>(record.body)) signals_.RunIsOver(id);
  if (std::holds_alternative<keeper::StopOrdered>(record.body)) entry.stop_in_journal = true;
  if (const auto* changed = std::get_if<keeper::SettingsChanged>(&record.body))
    entry.settings_in_journal = AsWrittenHere(changed->settings);
  std::optional<KernelKill> kill;
  if (IsUnexplainedFailure(entry.job, record)) kill = callbacks_.kernel_kill(entry.job, record);
  ApplyEvent(id, Recorded{record, std::move(kill)});
}

void JobManager::OnConnected(JobId id) {
  auto it = entries_.find(id);
  if (it == entries_.end() || IsEnded(it->second.job)) return;
  Entry& entry = it->second;
  callbacks_.on_job_changed(entry.job, entry.runtime);
  // Settings that an earlier connection carried are in the journal by now, or never will be. And the change
  // may have been undone since.
  entry.settings_sent.reset();
  if (entry.job.updated || entry.settings_in_journal) SendSettings(entry);
  // The job left its GPU, or came back, while daemon or keeper was away.
  if (const bool off = callbacks_.is_off_gpu(id); off != entry.job.off_since.has_value()) SetOffGpu(id, off);
  if (entry.job.stop_wanted && !entry.stop_in_journal) {
    SendStop(entry);
  } else if (entry.job.state == JobState::kStopping && !entry.job.verdict && entry.job.reason &&
             !entry.stop_in_journal) {
    // The guard had ordered this end, and the daemon was killed before the end was carried out. If the keeper
    // cannot be told, or has no run to end any more, the job is ended all the same.
    (void)Order(entry,
                keeper::AnnounceReason{0, {*entry.job.reason, entry.job.reason_detail.value_or("")}, false},
                [](JobManager&, Entry&, const Result<>&) {});
    (void)Signal(id, SIGKILL);
  }
  CarryOutLater(id);
}

// The new keeper has ended what it knew of. The daemon may know of more: a journal that is gone names
// nothing.
void JobManager::OnLost(Entry& entry, const base::Error& error) {
  const Job& job = entry.job;
  const JobId id = job.id;
  const auto end = [this, id, incarnation = job.incarnation, error] {
    const Job* const lost = Find(id);
    if (!lost || lost->incarnation != incarnation) return;
    ApplyEvent(id, Lost{fmt::format("{}; the command was not run again, and what was left of it was ended; "
                                    "gpuman restart {} starts it again",
                                    error.message, NameOf(*lost)),
                        clock_.Wall()});
  };
  if (!job.keeper || job.boot_id != base::BootId()) return end();
  keeper_work_.Add(job.owner->uid,
                   {[keeper = *job.keeper, cgroup = job.cgroup, key = entry.runtime.key, &table = table_] {
                      (void)base::SendSignal(keeper, SIGKILL);
                      keeper::EndLeftovers(cgroup, key, table);
                    },
                    end});
}

void JobManager::OnFailed(JobId id, const base::Error& error) {
  auto it = entries_.find(id);
  if (it == entries_.end()) return;
  const Job& job = it->second.job;
  if (error.code == ErrorCode::kCorrupt) return OnLost(it->second, error);
  Trouble(id, "starting the keeper: " + error.message);
  // If a keeper was there before, it may have left processes, and the end of its run is not known yet. A job
  // of the queue has waited for this start, and others wait behind it: a disk that is full for a while fails
  // none of them.
  const bool is_for_now = job.queued && error.code == ErrorCode::kExhausted && !job.stop_wanted;
  if (job.keeper || is_for_now) return it->second.link->TryAgain();
  ApplyEvent(id, CannotStart{error.message, clock_.Wall()});
}

void JobManager::Trouble(JobId id, const std::string& what) {
  if (const Job* job = Find(id)) callbacks_.on_trouble(*job, what);
}

Result<> JobManager::Order(Entry& entry, keeper::Command command, Answered answered) {
  if (!entry.link) return Fail(ErrorCode::kUnavailable, "the job has no keeper");
  return entry.link->Send(
      std::move(command), [self = self_, id = entry.job.id, link = std::weak_ptr(entry.link),
                           answered = std::move(answered)](const Result<>& outcome) {
        if (!*self) return;
        const auto it = (*self)->entries_.find(id);
        if (it != (*self)->entries_.end() && it->second.link && it->second.link == link.lock())
          answered(**self, it->second, outcome);
      });
}

// If the order cannot be sent or gets no answer, OnConnected sends it again, until the order is in the
// journal. The keeper refuses the order only if the job has ended, and a journal record reports that.
void JobManager::SendStop(Entry& entry) {
  if (entry.job.attached) return StopAttached(entry.job.id);
  (void)Order(entry,
              keeper::StopJob{{entry.job.reason.value_or("stopped"), entry.job.reason_detail.value_or("")},
                              {},
                              entry.job.spec->grace},
              [](JobManager& me, Entry& stopped, const Result<>& outcome) {
                if (!outcome && outcome.error().code != ErrorCode::kUnavailable)
                  me.Trouble(stopped.job.id, "its keeper does not stop it: " + outcome.error().message);
              });
}

void JobManager::SendSettings(Entry& entry) {
  if (!entry.link || IsEnded(entry.job)) return;
  keeper::UpdateSettings settings = SettingsOf(entry.job);
  const spec::RestartMode mode = settings.restart->mode;
  settings.restart = options_.launch.restart;
  settings.restart->mode = mode;
  auto text = keeper::SerializeSettings(settings);
  const auto& known = entry.settings_sent ? entry.settings_sent : entry.settings_in_journal;
  if (known && *known == text) return;
  const auto sent = Order(entry, settings, [](JobManager& me, Entry& told, const Result<>& outcome) {
    if (outcome || outcome.error().code == ErrorCode::kUnavailable) return;  // OnConnected tells again
    told.settings_sent.reset();
    me.Trouble(told.job.id, "its keeper did not take its settings: " + outcome.error().message);
  });
  if (sent) entry.settings_sent = std::move(text);
}

void JobManager::Announce(JobId id, const keeper::Reason& reason) {
  auto it = entries_.find(id);
  if (it == entries_.end() || IsEnded(it->second.job)) return;
  const Job& job = it->second.job;
  GuardRefused undo{reason, job.state, {}};
  if (job.reason) undo.before_reason = keeper::Reason{*job.reason, job.reason_detail.value_or("")};
  // The reason comes before the signal. A keeper that cannot be told finds the reason in the stored record.
  (void)Order(it->second, keeper::AnnounceReason{0, reason, false},
              [undo, seq = job.journal_seq](JobManager& me, Entry& told, const Result<>& outcome) {
                if (outcome || outcome.error().code == ErrorCode::kUnavailable) return;
                // Its run was over already, and the journal records since then say so. Without such records
                // there was no run.
                if (told.job.journal_seq == seq && undo.before == JobState::kStarting)
                  me.ApplyEvent(told.job.id, undo);
              });
  // The guard ends the processes within its grace time, and may call this again meanwhile.
  if (it->second.job.state != JobState::kStopping) EndAttachedAfter(it->second, kGuardsLead);
  ApplyEvent(id, GuardOrdered{reason});
}

Result<> JobManager::Signal(JobId id, int signal, TreeSignals::Done done) {
  GPUMAN_ASSIGN(Entry * entry, Existing(id));
  if (!entry->job.keeper) return Fail(ErrorCode::kConflict, "the job has no keeper yet");
  SignalOrder order;
  order.tree = {*entry->job.keeper, entry->job.cgroup};
  order.signal = signal;
  if (!entry->job.attached) {
    order.has_runs = true;
    order.run = entry->job.process;
    order.is_over = [directory = JobDirectory(options_.jobs_dir, entry->job), process = entry->job.process] {
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
  auto it = entries_.find(id);
  if (it == entries_.end() || it->second.job.attached) return;
  const auto lost = [line](JobManager& me, Entry& entry, const Result<>& outcome) {
    if (!outcome && !IsEnded(entry.job))
      me.Trouble(entry.job.id, fmt::format("its log lacks \"{}\": {}", line, outcome.error().message));
  };
  if (const auto sent = Order(it->second, keeper::WriteNote{line}, lost); !sent)
    lost(*this, it->second, sent);
}

}  // namespace gpuman::jobs
