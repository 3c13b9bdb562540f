#include "jobs/lifecycle.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace gpuman::jobs {
namespace {

using keeper::EndKind;
using keeper::Reason;

// Statuses that shells give a command they cannot find or execute, so that scripts know them.
constexpr int kStatusNotFound = 127;
constexpr int kStatusNotExecutable = 126;

// How a keeper words the end of a run that its predecessor did not live to see (keeper/machine.cc).
constexpr std::string_view kKeeperLost = "keeper_lost";
constexpr std::string_view kMachineRestarted = "machine_restarted";

bool IsLossOfKeeper(const Reason& reason) {
  return reason.word == kKeeperLost || reason.word == kMachineRestarted;
}

std::string SignalName(int number) {
  const char* name = ::sigabbrev_np(number);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

void Explain(Job& job, Reason reason) {
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

std::string Because(const Job& job) {
  if (job.reason_detail) return *job.reason_detail;
  return job.reason.value_or("finished");
}

void OnRecord(Transition& t, const keeper::Record&, const keeper::KeeperStarted& started) {
  Job& job = t.job;
  const bool another_boot = !job.boot_id.empty() && job.boot_id != started.boot_id;
  const bool had_one = job.keeper.has_value();
  job.keeper = started.keeper;
  job.cgroup = started.cgroup.string();
  job.boot_id = started.boot_id;
  if (!had_one) return;
  // Its predecessor was killed. What that means for the run is in the records that follow.
  const bool ordered = job.state == JobState::kStopping && job.reason;
  if (!ordered)
    Explain(job, another_boot ? Reason{"reboot", "the machine was started again while the job ran"}
                              : Reason{"keeper_lost",
                                       "the keeper of the job was killed; what became of the "
                                       "command is unknown"});
  t.notices.push_back({another_boot ? "reboot" : "keeper_lost",
                       another_boot ? "the machine was started again" : "the job's keeper was killed"});
}

void OnRecord(Transition& t, const keeper::Record& record, const keeper::RunStarted& started) {
  Job& job = t.job;
  // An order may have been given before its run was known to have started.
  if (job.state != JobState::kStopping) {
    ClearOutcome(job);
    job.state = JobState::kRunning;
  }
  job.process = started.process;
  job.started_at = record.wall;
  ++job.runs;
  job.restarts = job.runs > 0 ? job.runs - 1 : 0;
  Notice notice{job.runs == 1 ? "job_started" : "job_restarted",
                fmt::format("started as process {}", started.process.pid),
                {{"pid", started.process.pid}, {"run", job.runs}}};
  for (const std::string& note : started.notes) notice.message += "; " + note;
  t.notices.push_back(std::move(notice));
}

void OnRecord(Transition& t, const keeper::Record&, const keeper::StartFailed& failure) {
  Job& job = t.job;
  // The same run had its RunStarted already when only execve failed.
  if (job.verdict == std::nullopt && job.state == JobState::kRunning) {
    --job.runs;
    job.restarts = job.runs > 0 ? job.runs - 1 : 0;
  }
  Reason reason = ReasonOf(failure);
  if (reason.word == "command_not_found") job.exit_code = kStatusNotFound;
  if (reason.word == "command_not_executable") job.exit_code = kStatusNotExecutable;
  job.process.reset();
  job.verdict = JobState::kFailed;
  if (job.state == JobState::kRunning) job.state = JobState::kStarting;
  Explain(job, std::move(reason));
}

void OnRecord(Transition& t, const keeper::Record&, const keeper::RunEnded& ended) {
  Job& job = t.job;
  std::optional<Reason> ordered = ended.ordered;
  std::optional<Reason> lost;
  if (ended.kind == EndKind::kUnknown && ordered && IsLossOfKeeper(*ordered))
    lost = std::exchange(ordered, {});
  if (!ordered && job.state == JobState::kStopping && job.reason)
    ordered = Reason{*job.reason, job.reason_detail.value_or("")};
  job.exit_code.reset();
  job.signal.reset();
  if (ended.kind == EndKind::kExited) job.exit_code = ended.code;
  if (ended.kind == EndKind::kSignalled) job.signal = ended.code;

  if (ordered) {
    job.verdict = JobState::kKilled;
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
    Explain(job, {"signal", fmt::format("ended by {}{}", SignalName(ended.code),
                                        ended.core_dumped ? ", core dumped" : "")});
  } else if (ended.code != 0) {
    job.verdict = JobState::kFailed;
    Explain(job, {"exit_status", fmt::format("ended with exit status {}", ended.code)});
  } else {
    job.verdict = JobState::kFinished;
    job.reason.reset();
    job.reason_detail.reset();
  }
  job.state = JobState::kStopping;
}

void OnRecord(Transition& t, const keeper::Record&, const keeper::StopOrdered& stop) {
  t.job.state = JobState::kStopping;
  Explain(t.job, stop.reason);
}

void OnRecord(Transition& t, const keeper::Record&, const keeper::RestartScheduled& restart) {
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

void OnRecord(Transition&, const keeper::Record&, const keeper::SettingsChanged&) {}

void OnRecord(Transition& t, const keeper::Record& record, const keeper::JobEnded& ended) {
  Job& job = t.job;
  job.state = ended.why == "stopped" ? JobState::kKilled : job.verdict.value_or(JobState::kFailed);
  if (ended.why == "restarts_exhausted") job.reason_detail = Because(job) + "; no restarts are left";
  job.ended_at = record.wall;
  Notice notice{"job_" + std::string(ToString(job.state)), Because(job)};
  if (job.exit_code) notice.data["exit_code"] = *job.exit_code;
  if (job.signal) notice.data["signal"] = *job.signal;
  t.notices.push_back(std::move(notice));
  if (job.remove_when_ended) t.effects.push_back(Effect::kForget);
}

void OnEvent(Transition& t, const Recorded& recorded) {
  if (recorded.record.seq <= t.job.journal_seq || IsEnded(t.job)) return;
  t.changed = true;
  t.job.journal_seq = recorded.record.seq;
  std::visit([&](const auto& body) { OnRecord(t, recorded.record, body); }, recorded.record.body);
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
  Explain(job, asked.reason);
  job.state = JobState::kStarting;
  job.submitted_at = asked.at;
  job.started_at.reset();
  job.process.reset();
  job.keeper.reset();
  job.boot_id.clear();
  job.cgroup.clear();
  job.peak.reset();
  job.stop_wanted = false;
  job.updated = false;
  ++job.incarnation;
  job.journal_seq = 0;
  t.changed = true;
  t.effects.push_back(Effect::kLaunch);
}

void OnEvent(Transition& t, const GuardOrdered& ordered) {
  if (IsEnded(t.job) || t.job.state == JobState::kStopping) return;
  t.job.state = JobState::kStopping;
  Explain(t.job, ordered.reason);
  t.changed = true;
}

void OnEvent(Transition& t, const CannotStart& cannot) {
  Job& job = t.job;
  if (IsEnded(job)) return;
  job.state = JobState::kFailed;
  job.process.reset();
  job.ended_at = cannot.at;
  Explain(job, {"start_failed", cannot.message});
  t.changed = true;
  t.notices.push_back({"job_failed", cannot.message});
  if (job.remove_when_ended) t.effects.push_back(Effect::kForget);
}

}  // namespace

Reason ReasonOf(const keeper::StartFailed& failure) {
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

Transition Apply(const Job& job, const JobEvent& event) {
  Transition t{.job = job};
  std::visit([&](const auto& e) { OnEvent(t, e); }, event);
  return t;
}

}  // namespace gpuman::jobs
