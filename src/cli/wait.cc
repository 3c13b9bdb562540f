#include "cli/wait.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "api/ask.h"
#include "cli/log_printer.h"
#include "cli/queue/when.h"
#include "cli/signal_watch.h"
#include "cli/views.h"

namespace gpuman::cli {
namespace {

// Sends the signal to the job's whole process group, as a terminal would.
bool PassOn(const api::Client& daemon, const std::string& job, int signal) {
  const auto now = daemon.Job(job);
  if (!now || !now->pid || spec::IsEnded(now->state)) return false;
  return ::kill(-*now->pid, signal) == 0 || ::kill(*now->pid, signal) == 0;
}

// Takes the job out of the queue, if it still waits there; true: it was taken out.
bool TakeOut(const api::Client& daemon, const std::string& job) {
  const auto now = daemon.Job(job);
  const bool waits = now && spec::IsWaiting(now->state);
  return waits && api::AskWithoutTimeout(daemon, api::routes::kCancelJob, {{job}}).has_value();
}

}  // namespace

base::Result<> ShowLog(CommandContext& session, const api::Client& daemon, const std::string& job,
                       api::LogOptions options, const api::BodySink& show,
                       const api::WaitCancellation& wake) {
  bool enough = false;
  std::uint64_t at = options.offset.value_or(0);
  options.begins = [&](std::uint64_t offset) { at = offset; };
  const auto count = [&](std::string_view piece) {
    at += piece.size();
    enough = !show(piece);
    return !enough;
  };
  auto shown = daemon.Log(job, options, count, wake);
  while (!shown && options.follow && !enough) {
    GPUMAN_ASSIGN(const api::Client next, NextDaemon(session, shown.error(), wake));
    options.tail.reset();
    options.offset = at;
    shown = next.Log(job, options, count, wake);
  }
  return shown;
}

base::Result<api::Client> NextDaemon(CommandContext& session, const base::Error& lost,
                                     const api::WaitCancellation& wake) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kPatience = std::chrono::minutes(1);
  constexpr int kPollMillis = 200;
  const auto until = Clock::now() + kPatience;
  bool told = false;
  while (lost.code == base::ErrorCode::kUnavailable && Clock::now() < until) {
    // Also before the first look: a daemon that is there may have too much to do.
    pollfd woken{wake.fd, POLLIN, 0};
    if (::poll(&woken, 1, kPollMillis) == 1 && wake.on_wake && !wake.on_wake())
      return base::Fail(base::ErrorCode::kConflict, "interrupted");
    if (auto next = session.RunningDaemon()) return next;
    if (!std::exchange(told, true))
      session.Note("the daemon is not reachable; waiting for it, jobs continue");
  }
  return base::Fail(lost);
}

base::Result<api::JobView> WaitForEnd(CommandContext& session, const api::Client& daemon,
                                      const std::string& job, const api::WaitCancellation& wake) {
  auto ended = daemon.Wait(job, wake);
  while (!ended) {
    GPUMAN_ASSIGN(const api::Client next, NextDaemon(session, ended.error(), wake));
    ended = next.Wait(job, wake);
  }
  return ended;
}

void TellNotes(CommandContext& session, const api::JobView& ended, const std::vector<std::string>& told) {
  for (const std::string& note : ended.notes)
    if (std::find(told.begin(), told.end(), note) == told.end())
      session.Note(fmt::format("job {} '{}': {}", ended.id, ended.tag, note));
}

int ExitStatusOfJob(const api::JobView& job) {
  if (job.signal) return 128 + *job.signal;
  return job.exit_code.value_or(job.state == spec::JobState::kFinished ? kExitDone : kExitFailed);
}

base::Result<int> WaitForJob(CommandContext& session, const api::Client& daemon, const api::JobView& job,
                             InterruptPolicy interrupted) {
  const std::string id = std::to_string(job.id);
  SignalWatch signals{SIGINT, SIGTERM};
  int first_signal = 0;
  int last_signal = 0;
  api::WaitCancellation wake;
  wake.fd = signals.fd();
  wake.on_wake = [&] {
    const int signal = signals.Take();
    if (signal == 0) return true;
    last_signal = signal;
    if (first_signal != 0) return false;
    first_signal = signal;
    if (interrupted == InterruptPolicy::kCancelsWaiting && TakeOut(daemon, id)) return true;
    const bool passed = PassOn(daemon, id, signal);
    session.Note(fmt::format(
        "{} job {} '{}'; press Ctrl-C again to leave it running",
        passed ? fmt::format("passed SIG{} on to", ::sigabbrev_np(signal)) : "waiting for", job.id, job.tag));
    return true;
  };
  const auto left = [&](const base::Error& error) -> base::Result<int> {
    if (error.code != base::ErrorCode::kConflict || last_signal == 0) return base::Fail(error);
    session.Note(
        fmt::format("job {} '{}' continues; stop it with: gpuman remove {}", job.id, job.tag, job.id));
    return 128 + last_signal;
  };

  if (!session.json) {
    api::LogOptions whole;
    whole.follow = true;
    LogPrinter lines(session);
    const auto shown = ShowLog(
        session, daemon, id, whole, [&](std::string_view piece) { return lines.Feed(piece); }, wake);
    if (!shown) return left(shown.error());
  }
  const auto ended = WaitForEnd(session, daemon, id, wake);
  if (!ended) return left(ended.error());
  if (session.json)
    session.PrintJson(api::ToJson(*ended));
  else if (ended->state != spec::JobState::kFinished)
    session.Note(JobSentence(*ended) +
                 (ended->reason_detail ? ": " + queue::WithLocalTimes(*ended->reason_detail) : ""));
  TellNotes(session, *ended, job.notes);
  return ExitStatusOfJob(*ended);
}

}  // namespace gpuman::cli
