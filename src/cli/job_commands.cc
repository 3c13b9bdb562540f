// update, restart, remove, suspend, resume, move: commands that change a job.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/queue/command_dialect.h"
#include "cli/queue/named_jobs.h"
#include "cli/queue/update.h"
#include "cli/queue/wording.h"
#include "cli/show.h"
#include "cli/take.h"
#include "cli/views.h"

namespace gpuman::cli {
namespace {

// Asks the daemon for something about each job that the command line names, and prints its new state.
template <typename Ask>
base::Result<int> WithJob(CommandContext& session, const CommandLine& line, std::string_view done, Ask ask,
                          std::string (*sentence)(const api::JobView&) = JobSentence) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto jobs, queue::JobsNamed(session, line.words));
  return queue::ForEachJob(session, jobs, [&](const std::string& job) -> base::Result<int> {
    const base::Result<api::JobView> view = ask(daemon, job);
    if (!view)
      return base::Fail(queue::WithOptionNames(WithNearestTag(daemon, job, view.error()), queue::kGpuman));
    GPUMAN_TRY(Show(session, *view, [&] { return fmt::format("{}{}\n", done, sentence(*view)); }));
    if (!spec::IsEnded(view->state))
      for (const auto& note : view->notes) session.Note(note);
    return kExitDone;
  });
}

// The sentence for a job that gpuman no longer manages, so nothing enforces its limit.
std::string SentenceWithoutLimit(const api::JobView& job) {
  api::JobView unlimited = job;
  unlimited.memory.limit.reset();
  return JobSentence(unlimited);
}

// A job of the queue comes back in the queue's next pass, also where there is room now.
std::string SentenceOfResumed(const api::JobView& job) {
  if (job.state != spec::JobState::kSuspended) return JobSentence(job);
  return fmt::format("job {} '{}' comes back as soon as there is room for it", job.id, Printable(job.tag));
}

}  // namespace

Argument JobArgument() { return {.value = kJobValue, .help = "Tag or id of the job", .names = "-t,--tag"}; }

Command UpdateCommand() {
  const auto s = std::make_shared<queue::JobUpdateSettings>();  // shared by the options and the action
  return {"update",
          "Change the limits of a job, also while it runs",
          "gpuman update train --memory 12GiB",
          {JobArgument()},
          queue::RunningOptions(*s),
          [s](CommandContext& session, const CommandLine& line) -> base::Result<int> {
            if (s->Empty())
              return base::Fail(base::ErrorCode::kInvalidArgument, "there is nothing to change",
                                fmt::format("gpuman update {} --memory 8GiB", line.words.front()));
            return WithJob(session, line, "updated: ", [&](const auto& daemon, const auto& job) {
              return api::Ask(daemon, api::routes::kUpdateJob, {{job}}, {s->update.job, {}});
            });
          }};
}

Command RestartCommand() {
  const auto s = std::make_shared<queue::JobUpdateSettings>();  // shared by the options and the action
  return {"restart",
          "Stop a job and start it again",
          "gpuman restart train --memory 12GiB",
          {JobArgument()},
          queue::LimitOptions(*s),
          [s](CommandContext& session, const CommandLine& line) {
            return WithJob(session, line, "restarted: ", [&](const auto& daemon, const auto& job) {
              return daemon.Restart(job, s->update.job);
            });
          }};
}

Command RemoveCommand() {
  const auto keep_running = std::make_shared<bool>(false);  // shared by the options and the action
  return {"remove",
          "Stop a job and remove it from the list",
          "gpuman remove train",
          {JobArgument()},
          {{"-k,--keep-running", "", "Let its processes continue without limits", take::Flag(*keep_running)}},
          [keep_running](CommandContext& session, const CommandLine& line) {
            return WithJob(
                session, line, *keep_running ? "no longer managed: " : "removed: ",
                [&](const auto& daemon, const auto& job) {
                  const auto query = api::Query().AddFlag("keep_running", *keep_running);
                  return api::AskWithoutTimeout(daemon, api::routes::kRemoveJob, {{job}, query});
                },
                *keep_running ? SentenceWithoutLimit : JobSentence);
          }};
}

Command SuspendCommand() {
  return {"suspend",
          "Take a job off its GPUs; its data is kept in the machine's memory",
          "gpuman suspend train",
          {JobArgument()},
          {},
          [](CommandContext& session, const CommandLine& line) {
            return WithJob(session, line, "off its GPUs: ", [](const auto& daemon, const auto& job) {
              return api::AskWithoutTimeout(daemon, api::routes::kSuspendJob, {{job}});
            });
          }};
}

Command ResumeCommand() {
  const auto o = std::make_shared<api::ResumeOrMoveRequest>();  // shared by the options and the action
  return {"resume",
          "Bring a suspended job back to a GPU as soon as there is room",
          "gpuman resume train --gpu 1",
          {JobArgument()},
          {{"-g,--gpu", kGpuValue, "Another GPU of the same model (default: the one it was on)",
            take::Text(o->gpu)}},
          [o](CommandContext& session, const CommandLine& line) {
            return WithJob(
                session, line, "",
                [&](const auto& daemon, const auto& job) {
                  return api::AskWithoutTimeout(daemon, api::routes::kResumeJob, {{job}}, *o);
                },
                SentenceOfResumed);
          }};
}

Command MoveCommand() {
  const auto o = std::make_shared<api::ResumeOrMoveRequest>();  // shared by the options and the action
  return {"move",
          "Move a job to another GPU of the same model; it continues there",
          "gpuman move train --to 1",
          {JobArgument()},
          {{.names = "--to",
            .value = kGpuValue,
            .help = "The GPU, by index or UUID",
            .take = take::Text(o->gpu),
            .required = true}},
          [o](CommandContext& session, const CommandLine& line) {
            return WithJob(session, line, "", [&](const auto& daemon, const auto& job) {
              return api::AskWithoutTimeout(daemon, api::routes::kMoveJob, {{job}}, *o);
            });
          }};
}

}  // namespace gpuman::cli
