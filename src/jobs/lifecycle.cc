#include "jobs/lifecycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace gpuman::jobs {
namespace {

using keeper::EndKind;
using keeper::EndReason;

// The statuses that shells use for a command that they cannot find or execute; scripts know them.
constexpr int kStatusNotFound = 127;
constexpr int kStatusNotExecutable = 126;

// The reasons that a keeper gives for a run whose end its predecessor did not see (keeper/state_machine.cc).
constexpr std::string_view kKeeperLost = "keeper_lost";
constexpr std::string_view kMachineRestarted = "machine_restarted";

// The reasons of a run that ended by itself.
constexpr std::string_view kExitStatusWord = "exit_status";
constexpr std::string_view kSignalWord = "signal";

bool IsLossOfKeeper(const EndReason& reason) {
  return reason.word == kKeeperLost || reason.word == kMachineRestarted;
}

std::string SignalName(int number) {
  const char* name = ::sigabbrev_np(number);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

void Explain(Job& job, EndReason reason) {
  job.reason = std::move(reason.word);
  job.reason_detail.reset();
  if (!reason.detail.empty()) job.reason_detail = std::move(reason.detail);
}

void ClearOutcome(Job& job) {
  job.reason.reset();
  job.reason_detail.reset();
  job.exit_code.reset();
  job.signal.reset();
  job.verdict.reset();
  job.ended_at.reset();
}

JobState OrderedEnd(std::string_view word) {
  if (word == kCancelledWord) return JobState::kCancelled;
  if (word == kTimeLimitWord) return JobState::kTimeout;
  return JobState::kKilled;
}

// Forgets everything of the earlier run; the next run has a journal of its own.
void ForgetRun(Job& job) {
  job.started_at.reset();
  job.process.reset();
  job.keeper.reset();
  job.boot_id.clear();
  job.cgroup.clear();
  job.suspension.clear();
  job.stop_wanted = false;
  job.requeue_when_ended = false;
  job.cancel_wanted = false;
  job.updated = false;
  ++job.incarnation;
  job.journal_seq = 0;
  job.suspended = base::Millis{0};
  job.off_since.reset();
}

bool WantsRetry(const Job& job) {
  const auto& retries = job.spec->retries;
  if (job.state != JobState::kFailed || job.stop_wanted || job.attempts >= retries.count) return false;
  const auto& codes = retries.on_exit_codes;
  return codes.empty() ||
         (job.exit_code && std::find(codes.begin(), codes.end(), *job.exit_code) != codes.end());
}

void BackToQueue(Job& job, base::WallTime at) {
  ForgetRun(job);
  job.gpus.clear();
  job.verdict.reset();
  job.state = JobState::kQueued;
  job.waiting_since = at;
  job.not_before.reset();
}

std::string Because(const Job& job) {
  if (job.reason_detail) return *job.reason_detail;
  return job.reason.value_or("finished");
}

void OnRecord(Transition& t, const keeper::JournalRecord&, const keeper::KeeperStarted& started) {
  Job& job = t.job;
  const bool another_boot = !job.boot_id.empty() && job.boot_id != started.boot_id;
  const bool had_one = job.keeper.has_value();
  job.keeper = started.keeper;
  job.cgroup = started.cgroup.string();
  job.boot_id = started.boot_id;
  if (!had_one) return;
  // The earlier keeper was killed. The records that follow say what happened to the run.
  const bool ordered = job.state == JobState::kStopping && job.reason;
  if (!ordered)
    Explain(job, another_boot ? EndReason{"reboot", "the machine was started again while the job ran"}
                              : EndReason{"keeper_lost",
                                          "the keeper of the job was killed; what became of the "
                                          "command is unknown"});
  t.notices.push_back({another_boot ? "reboot" : "keeper_lost",
                       another_boot ? "the machine was started again" : "the job's keeper was killed"});
}

void OnRecord(Transition& t, const keeper::JournalRecord& record, const keeper::RunStarted& started) {
  Job& job = t.job;
  // An order may have come before the run was known to have started.
  if (job.state != JobState::kStopping) {
    ClearOutcome(job);
    job.state = JobState::kRunning;
  }
  job.process = started.process;
  job.started_at = record.wall;
  job.notes = started.notes;
  job.refusal.reset();
  job.energy_used.reset();
  job.suspended = base::Millis{0};
  job.off_since.reset();
  ++job.runs;
  job.restarts = job.runs > 0 ? job.runs - 1 : 0;
  JobNotice notice{job.runs == 1 ? "job_started" : "job_restarted",
                   fmt::format("started as process {}", started.process.pid),
                   {{"pid", started.process.pid}, {"run", job.runs}}};
  for (const std::string& note : started.notes) notice.message += "; " + note;
  t.notices.push_back(std::move(notice));
}

// The account of a run. If the clock was set back during it, the account is too short, but not
// negative.
RunAccount AccountOf(const Job& job, base::WallTime started, base::WallTime ended) {
  RunAccount run;
  run.job = job.id;
  run.user = job.owner->user;
  run.project = job.spec->project.value_or("");
  run.name = AccountName(job);
  run.gpus = job.gpus;
  run.peak = job.peak;
  run.started = started;
  run.ended = ended;
  run.waited = std::max(run.started - (job.queued ? job.waiting_since : job.submitted_at), base::Millis{0});
  run.ran = std::max(run.ended - run.started - job.suspended, base::Millis{0});
  run.outcome = ToString(job.verdict == JobState::kKilled && job.reason == kRemovedWord
                             ? JobState::kCancelled
                             : job.verdict.value_or(JobState::kFailed));
  return run;
}

// A job that fails before its first run has a run of no length in the accounts: statistics count it as
// failed.
void AccountForNoRun(Transition& t, base::WallTime at) {
  if (t.job.runs == 0 && !t.job.cancel_wanted) t.run = AccountOf(t.job, at, at);
}

void OnRecord(Transition& t, const keeper::JournalRecord& record, const keeper::StartFailed& failure) {
  Job& job = t.job;
  // If only execve failed, this run had its RunStarted already.
  if (job.verdict == std::nullopt && job.state == JobState::kRunning) {
    --job.runs;
    job.restarts = job.runs > 0 ? job.runs - 1 : 0;
  }
  // The run was ended while it started, as ordered.
  const bool was_ended = failure.stage == "killed" || failure.stage == "stopped";
  if (was_ended && job.state == JobState::kStopping && job.reason) {
    job.process.reset();
    job.verdict = job.cancel_wanted ? JobState::kCancelled : OrderedEnd(*job.reason);
    return;
  }
  EndReason reason = ReasonOf(failure);
  if (reason.word == "command_not_found") job.exit_code = kStatusNotFound;
  if (reason.word == "command_not_executable") job.exit_code = kStatusNotExecutable;
  job.process.reset();
  job.verdict = JobState::kFailed;
  if (job.state == JobState::kRunning) job.state = JobState::kStarting;
  Explain(job, std::move(reason));
  AccountForNoRun(t, record.wall);
}

void BackOnGpu(Job& job, base::WallTime at) {
  if (job.off_since) job.suspended += std::max(at - *job.off_since, base::Millis{0});
  job.off_since.reset();
}

void OnRecord(Transition& t, const keeper::JournalRecord& record, const keeper::RunEnded& ended) {
  Job& job = t.job;
  std::optional<EndReason> ordered = ended.ordered;
  std::optional<EndReason> lost;
  if (ended.kind == EndKind::kUnknown && ordered && IsLossOfKeeper(*ordered))
    lost = std::exchange(ordered, {});
  // A run that finished before it was told to make room has finished.
  const bool finished = job.requeue_when_ended && ended.kind == EndKind::kExited && ended.code == 0;
  if (!ordered && job.state == JobState::kStopping && job.reason && !finished)
    ordered = EndReason{*job.reason, job.reason_detail.value_or("")};
  job.exit_code.reset();
  job.signal.reset();
  if (ended.kind == EndKind::kExited) job.exit_code = ended.code;
  if (ended.kind == EndKind::kSignalled) job.signal = ended.code;

  if (ordered && job.cancel_wanted) {
    job.verdict = JobState::kCancelled;
  } else if (ordered) {
    job.verdict = OrderedEnd(ordered->word);
    Explain(job, *ordered);
  } else if (ended.kind == EndKind::kUnknown) {
    job.verdict = JobState::kFailed;
    if (lost && lost->word == kMachineRestarted)
      Explain(job, {"reboot", lost->detail});
    else
      Explain(job,
              {"keeper_lost", lost ? lost->detail : "the keeper was killed; nobody saw the exit status"});
  } else if (ended.kind == EndKind::kSignalled) {
    job.verdict = JobState::kFailed;
    Explain(job, {std::string(kSignalWord), fmt::format("ended by {}{}", SignalName(ended.code),
                                                        ended.core_dumped ? ", core dumped" : "")});
  } else if (ended.code != 0) {
    job.verdict = JobState::kFailed;
    Explain(job, {std::string(kExitStatusWord), fmt::format("ended with exit status {}", ended.code)});
  } else {
    job.verdict = JobState::kFinished;
    job.reason.reset();
    job.reason_detail.reset();
  }
  job.state = JobState::kStopping;
  BackOnGpu(job, record.wall);
  if (!job.started_at) return;
  t.run = AccountOf(job, *job.started_at, record.wall);
  // The keeper's measure does not depend on changes of the wall clock.
  if (ended.lasted.count() > 0) t.run->ran = std::max(ended.lasted - job.suspended, base::Millis{0});
}

void OnRecord(Transition& t, const keeper::JournalRecord&, const keeper::StopOrdered& stop) {
  t.job.state = JobState::kStopping;
  if (!t.job.cancel_wanted) Explain(t.job, stop.reason);
}

void OnRecord(Transition&, const keeper::JournalRecord&, const keeper::RestartOrdered&) {}

void OnRecord(Transition& t, const keeper::JournalRecord&, const keeper::RestartScheduled& restart) {
  Job& job = t.job;
  job.state = JobState::kStarting;
  if (restart.ordered) Explain(job, *restart.ordered);
  const std::string when = restart.delay.count() == 0
                               ? std::string("starts again now")
                               : "starts again in " + base::FormatDuration(restart.delay);
  t.notices.push_back({"job_restarting",
                       Because(job) + "; " + when,
                       {{"run", restart.run}, {"delay_ms", restart.delay.count()}}});
  job.reason_detail = Because(job) + "; " + when;
}

void OnRecord(Transition&, const keeper::JournalRecord&, const keeper::JobSettingsChanged&) {}

void OnRecord(Transition& t, const keeper::JournalRecord& record, const keeper::ClockPauseChanged& clock) {
  Job& job = t.job;
  if (clock.paused && !job.off_since) job.off_since = record.wall;
  if (!clock.paused) BackOnGpu(job, record.wall);
}

// The next limit of a job that may run once more since its last limit refused it memory; nullptr: there is
// none. The user's retries do not count it.
MoreMemory* MoreMemoryFor(Job& job) {
  if (!job.more_memory || job.more_memory->granted || job.stop_wanted) return nullptr;
  const bool ended_by_limit = job.state == JobState::kKilled && job.reason == kMemoryLimitWord;
  return job.state == JobState::kFailed || ended_by_limit ? &*job.more_memory : nullptr;
}

std::string Sentence(const MoreMemory& more) {
  using base::FormatBytes;
  const std::string refused =
      more.asked.count == 0 ? fmt::format("used more than its limit of {}", FormatBytes(more.had))
                            : fmt::format("refused {} at {}", FormatBytes(more.asked), FormatBytes(more.had));
  return fmt::format("{}; queued once more with {}", refused, FormatBytes(more.next));
}

void QueueWithMore(Transition& t, MoreMemory& more, base::WallTime at) {
  more.granted = true;
  BackToQueue(t.job, at);
  t.job.spec.Change([&](spec::JobSpec& spec) {
    spec.memory = base::SizeSpec{more.next, 0};
    spec.memory_on_each = more.next;
  });
  Explain(t.job, {std::string(kMemoryRefusedWord), Sentence(more)});
  t.notices.push_back(
      {"job_requeued", *t.job.reason_detail, {{"memory", static_cast<std::int64_t>(more.next.count)}}});
}

// If a job of the queue must go back to the queue instead of ending, puts it back and returns true.
bool RunsAgain(Transition& t, base::WallTime at) {
  Job& job = t.job;
  if (job.requeue_when_ended && job.state == JobState::kKilled) {
    BackToQueue(job, at);
    t.notices.push_back({"job_requeued", Because(job) + "; it waits to run again"});
    return true;
  }
  if (auto* const more = MoreMemoryFor(job)) {
    QueueWithMore(t, *more, at);
    return true;
  }
  if (!WantsRetry(job)) return false;
  ++job.attempts;
  BackToQueue(job, at);
  const auto& retries = job.spec->retries;
  if (retries.delay.count() > 0) job.not_before = at + retries.delay;
  job.reason_detail = fmt::format("{}; retry {} of {}", Because(job), job.attempts, retries.count);
  t.notices.push_back({"job_requeued", *job.reason_detail, {{"attempt", job.attempts}}});
  return true;
}

void OnRecord(Transition& t, const keeper::JournalRecord& record, const keeper::JobEnded& ended) {
  Job& job = t.job;
  if (ended.why != "stopped")
    job.state = job.verdict.value_or(JobState::kFailed);
  else
    job.state = job.cancel_wanted ? JobState::kCancelled : OrderedEnd(job.reason.value_or(""));
  // The record of its run's end was lost.
  if (!job.verdict && !job.reason && ended.last_run > 0)
    Explain(job, {std::string(kKeeperLost), "the record of how its command ended cannot be read"});
  if (ended.why == "restarts_exhausted") job.reason_detail = Because(job) + "; no restarts are left";
  if (job.queued && !job.remove_when_ended && RunsAgain(t, record.wall)) return;
  job.ended_at = record.wall;
  JobNotice notice{"job_" + std::string(ToString(job.state)), Because(job)};
  if (job.exit_code) notice.data["exit_code"] = *job.exit_code;
  if (job.signal) notice.data["signal"] = *job.signal;
  t.notices.push_back(std::move(notice));
  if (job.remove_when_ended) t.effects.push_back(Effect::kForget);
}

void OnEvent(Transition& t, const RecordReceived& recorded) {
  if (recorded.record.seq <= t.job.journal_seq || IsEnded(t.job)) return;
  const bool unexplained = IsUnexplainedFailure(t.job, recorded.record);
  t.changed = true;
  t.job.journal_seq = recorded.record.seq;
  std::visit([&](const auto& body) { OnRecord(t, recorded.record, body); }, recorded.record.body);
  if (unexplained && recorded.kill) Explain(t.job, ReasonOf(*recorded.kill));
}

void EndUnstarted(Transition& t, const EndReason& reason, base::WallTime at) {
  t.job.state = JobState::kCancelled;
  t.job.ended_at = at;
  Explain(t.job, reason);
  t.changed = true;
  t.notices.push_back({"job_cancelled", Because(t.job)});
  if (t.job.remove_when_ended) t.effects.push_back(Effect::kForget);
}

void OnEvent(Transition& t, const StopAsked& asked) {
  if (asked.remove && !t.job.remove_when_ended) {
    t.job.remove_when_ended = true;
    t.changed = true;
  }
  if (IsEnded(t.job)) {
    if (asked.remove) t.effects.push_back(Effect::kForget);
    return;
  }
  if (IsWaiting(t.job)) return EndUnstarted(t, asked.reason, asked.at);
  t.job.requeue_when_ended = false;
  if (t.job.state != JobState::kStopping) {
    t.job.state = JobState::kStopping;
    Explain(t.job, asked.reason);
    t.changed = true;
  }
  if (!t.job.stop_wanted) {
    t.job.stop_wanted = true;
    t.changed = true;
  }
  t.effects.push_back(Effect::kOrderStop);
}

void OnEvent(Transition& t, const RestartAsked& asked) {
  Job& job = t.job;
  if (!IsEnded(job)) {
    t.effects.push_back(Effect::kOrderRestart);
    return;
  }
  ClearOutcome(job);
  job.submitted_at = asked.at;
  job.peak.reset();
  job.peak_parts.reset();
  job.peaks.reset();
  job.refusal.reset();
  job.more_memory.reset();
  job.attempts = 0;
  t.changed = true;
  if (job.queued) {
    BackToQueue(job, asked.at);
    Explain(job, asked.reason);
    return;
  }
  ForgetRun(job);
  Explain(job, asked.reason);
  job.state = JobState::kStarting;
  t.effects.push_back(Effect::kLaunch);
}

void OnEvent(Transition& t, const GuardOrdered& ordered) {
  if (IsEnded(t.job) || IsWaiting(t.job) || t.job.state == JobState::kStopping) return;
  t.job.state = JobState::kStopping;
  Explain(t.job, ordered.reason);
  t.changed = true;
}

void OnEvent(Transition& t, const GuardOrderRefused& refused) {
  Job& job = t.job;
  if (job.state != JobState::kStopping || job.stop_wanted || job.reason != refused.reason.word) return;
  job.state = refused.before;
  job.reason.reset();
  job.reason_detail.reset();
  if (refused.before_reason) Explain(job, *refused.before_reason);
  t.changed = true;
}

void OnEvent(Transition& t, const HoldAsked& asked) {
  if (t.job.state != JobState::kQueued) return;
  t.job.state = JobState::kHeld;
  Explain(t.job, asked.reason);
  t.changed = true;
  t.notices.push_back({"job_held", Because(t.job)});
}

void OnEvent(Transition& t, const ReleaseAsked&) {
  if (t.job.state != JobState::kHeld) return;
  t.job.state = JobState::kQueued;
  t.job.reason.reset();
  t.job.reason_detail.reset();
  t.changed = true;
  t.notices.push_back({"job_released", "released"});
}

void OnEvent(Transition& t, const CancelAsked& asked) {
  if (IsWaiting(t.job)) return EndUnstarted(t, asked.reason, asked.at);
  if (IsEnded(t.job)) return;
  const EndReason reason{std::string(kCancelledWord), asked.reason.detail};
  OnEvent(t, StopAsked{reason, false, asked.at});
  // The order replaces the reason of any end that was ordered before.
  Explain(t.job, reason);
  t.job.cancel_wanted = true;
  t.changed = true;
}

void OnEvent(Transition& t, const StartOrdered& ordered) {
  if (t.job.state != JobState::kQueued) return;
  ClearOutcome(t.job);
  t.job.state = JobState::kStarting;
  t.job.gpus = ordered.gpus;
  t.job.not_before.reset();
  t.changed = true;
  t.effects.push_back(Effect::kLaunch);
}

void OnEvent(Transition& t, const RequeueAsked& asked) {
  if (!t.job.queued || (t.job.state != JobState::kRunning && t.job.state != JobState::kStarting)) return;
  OnEvent(t, StopAsked{asked.reason, false, {}});
  t.job.requeue_when_ended = true;
}

void OnEvent(Transition& t, const RootEnded& ended) {
  Job& job = t.job;
  if (!job.attached || IsEnded(job)) return;
  if (job.state == JobState::kStopping && job.reason) {
    job.state = job.cancel_wanted ? JobState::kCancelled : OrderedEnd(*job.reason);
  } else if (ended.another_boot) {
    job.state = JobState::kFailed;
    Explain(job, {"reboot", "the machine was started again while the job ran"});
  } else {
    job.state = JobState::kFinished;
    Explain(job, {"status_unknown",
                  "its processes have ended; gpuman did not start them, so their exit status is not known"});
  }
  job.verdict = job.state;
  job.ended_at = ended.at;
  t.changed = true;
  BackOnGpu(job, ended.at);
  if (job.started_at) t.run = AccountOf(job, *job.started_at, ended.at);
  t.notices.push_back({"job_" + std::string(ToString(job.state)), Because(job)});
  if (job.remove_when_ended) t.effects.push_back(Effect::kForget);
}

void OnEvent(Transition& t, const RecordsLost& lost) {
  Job& job = t.job;
  if (IsEnded(job) || IsWaiting(job)) return;
  job.exit_code.reset();
  job.signal.reset();
  const bool end_ordered = job.state == JobState::kStopping && !job.requeue_when_ended;
  if (end_ordered && job.reason && !job.verdict) {
    job.state = job.cancel_wanted ? JobState::kCancelled : OrderedEnd(*job.reason);
    job.reason_detail = Because(job) + "; " + lost.message;
  } else {
    job.state = JobState::kFailed;
    Explain(job, {std::string(kKeeperLost), lost.message});
  }
  const bool is_open = !job.verdict;
  job.verdict = job.state;
  job.ended_at = lost.at;
  t.changed = true;
  BackOnGpu(job, lost.at);
  if (is_open && job.started_at)
    t.run = AccountOf(job, *job.started_at, lost.at);
  else if (is_open && job.state == JobState::kFailed)
    AccountForNoRun(t, lost.at);
  t.notices.push_back({"job_" + std::string(ToString(job.state)), Because(job)});
  if (job.remove_when_ended) t.effects.push_back(Effect::kForget);
}

void OnEvent(Transition& t, const CannotStart& cannot) {
  Job& job = t.job;
  if (IsEnded(job)) return;
  job.state = job.cancel_wanted ? JobState::kCancelled : JobState::kFailed;
  job.process.reset();
  job.ended_at = cannot.at;
  if (!job.cancel_wanted) Explain(job, {"start_failed", cannot.message});
  AccountForNoRun(t, cannot.at);
  t.changed = true;
  t.notices.push_back({"job_" + std::string(ToString(job.state)), Because(job)});
  if (job.remove_when_ended) t.effects.push_back(Effect::kForget);
}

}  // namespace

EndReason ReasonOf(const keeper::StartFailed& failure) {
  const bool is_command = failure.stage == "command" || failure.stage == "exec";
  const std::string detail = failure.message.empty()
                                 ? fmt::format("{}: {}", failure.stage, std::strerror(failure.error_number))
                                 : failure.message;
  if (is_command && (failure.error_number == ENOENT || failure.error_number == ENOTDIR))
    return {"command_not_found", detail};
  if (is_command) return {"command_not_executable", detail};
  if (failure.stage == "directory") return {"directory_unusable", detail};
  return {"start_failed", detail};
}

bool IsInterpreter(std::string_view program) {
  return program.starts_with("python") || program == "bash" || program == "sh" || program == "torchrun" ||
         program == "accelerate";
}

std::string ProgramName(const std::vector<std::string>& command) {
  const auto base_of = [](const std::string& word) { return word.substr(word.rfind('/') + 1); };
  if (command.empty()) return {};
  std::string program = base_of(command.front());
  if (!IsInterpreter(program)) return program;
  for (auto word = command.begin() + 1; word != command.end(); ++word) {
    if (*word == "-c") break;  // its own text follows
    const bool is_file = word->ends_with(".py") || word->ends_with(".sh");
    if (is_file || (*std::prev(word) == "-m" && !word->starts_with('-'))) return base_of(*word);
  }
  return program;
}

bool FailedByItself(const Job& job) {
  return job.verdict == JobState::kFailed &&
         (job.reason == kExitStatusWord || job.reason == kSignalWord || job.reason == kMemoryRefusedWord);
}

std::optional<base::Bytes> NeededMemory(const Job& job, base::WallTime ended) {
  const bool was_refused = job.refusal && job.refusal->by == "limit" && job.refusal->MayHaveEnded(ended);
  if (!FailedByItself(job) || !was_refused) return std::nullopt;
  return job.refusal->used + job.refusal->asked;
}

// Whether nobody gave the job or array its name: then it has its own number as its name, or, if it was queued
// again, that of an earlier one. The jobs of a dry run have no name.
static bool IsMadeUp(std::string_view name, const Job& job) {
  constexpr std::string_view kBegin = "job-";
  const base::JobId head = job.array.array.value != 0 ? job.array.array : job.id;
  if (name.empty() || name == fmt::format("{}{}", kBegin, head.value)) return true;
  return job.redo_of.value != 0 && name.starts_with(kBegin) && base::AreDigits(name.substr(kBegin.size()));
}

// An array's task has the array's name, and may have its number there behind it.
std::string AccountName(const Job& job) {
  std::string name = job.tag;
  const std::string number = fmt::format("_{}", job.array.task);
  if (job.array.array.value != 0 && name.ends_with(number)) name.resize(name.size() - number.size());
  return IsMadeUp(name, job) ? ProgramName(CommandOfUser(job)) : name;
}

bool IsUnexplainedFailure(const Job& job, const keeper::JournalRecord& record) {
  const auto* const ended = std::get_if<keeper::RunEnded>(&record.body);
  const bool known = record.seq <= job.journal_seq || IsEnded(job);
  const bool failed = ended && ((ended->kind == EndKind::kSignalled && ended->code == SIGKILL) ||
                                (ended->kind == EndKind::kExited && ended->code != 0));
  return failed && !known && !ended->ordered && job.state != JobState::kStopping;
}

Transition Apply(const Job& job, const JobEvent& event) {
  Transition t{.job = job};
  std::visit([&](const auto& e) { OnEvent(t, e); }, event);
  return t;
}

}  // namespace gpuman::jobs
