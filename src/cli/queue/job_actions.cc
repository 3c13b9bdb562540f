// job show, log, attach, wait, hold, release, update, redo.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "api/queue_client.h"
#include "api/queue_json.h"
#include "cli/job_output.h"
#include "cli/log_printer.h"
#include "cli/queue/commands.h"
#include "cli/queue/named_jobs.h"
#include "cli/queue/queue_views.h"
#include "cli/queue/submit.h"
#include "cli/queue/tool_compatibility.h"
#include "cli/queue/update.h"
#include "cli/queue/wording.h"
#include "cli/show.h"
#include "cli/take.h"
#include "cli/views.h"
#include "cli/wait.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;
using base::Result;
using base::SystemClock;
using JobWords = std::vector<std::string>;

// Calls `ask` for each job, or `ask_other` for one of the other queue; continues after an error, and returns
// the highest exit status. Jobs of the other queue need no daemon.
template <typename Ask, typename AskOther>
Result<int> ForEach(CommandContext& session, const ExternalQueue& other_queue, const JobWords& words, Ask ask,
                    AskOther ask_other) {
  GPUMAN_ASSIGN(const auto refs, JobsNamed(session, words));
  std::optional<api::Client> daemon;
  int status = kExitDone;
  for (const auto& ref : refs) {
    const auto other = other_queue.Find(session, ref);
    if (!other && !daemon) {
      GPUMAN_ASSIGN(daemon, session.Daemon());
    }
    const Result<int> one = other ? ask_other(*other) : ask(*daemon, ref);
    if (one) {
      status = std::max(status, *one);
      continue;
    }
    const auto error = other ? one.error() : WithNearestTag(*daemon, ref, one.error());
    if (refs.size() == 1) return base::Fail(error);
    session.PrintError(error);
    status = std::max(status, ExitStatusOf(error.code));
  }
  return status;
}

// The ids of the jobs that the name means: the name of an array means each of its tasks.
Result<JobWords> IdsOf(const api::Client& daemon, const std::string& ref, const api::JobView& job) {
  if (!job.queue || !job.queue->array_id) return JobWords{std::to_string(job.id)};
  api::QueueFilter filter;
  filter.jobs = {ref};
  filter.states = {"all"};
  GPUMAN_ASSIGN(const auto list, api::ListQueue(daemon, filter));
  std::vector<std::int64_t> ids;
  for (const auto& one : list.jobs) ids.push_back(one.id);
  std::sort(ids.begin(), ids.end());
  JobWords words;
  for (const auto id : ids) words.push_back(std::to_string(id));
  return words;
}

Result<int> PrintJob(CommandContext& session, std::string_view done, const Result<api::JobView>& job) {
  if (!job) return base::Fail(job.error());
  GPUMAN_TRY(cli::Show(session, *job, [&] { return fmt::format("{}{}\n", done, JobSentence(*job)); }));
  if (!spec::IsEnded(job->state))
    for (const auto& note : job->notes) session.Note(note);
  return kExitDone;
}

Result<int> Show(CommandContext& session, const ExternalQueue& others, const CommandDialect& dialect,
                 const JobWords& words) {
  std::vector<api::GpuView> gpus;
  bool first = true;
  const auto show = [&](const api::Client& daemon, const std::string& ref) -> Result<int> {
    GPUMAN_ASSIGN(api::JobView job, daemon.Job(ref));
    GPUMAN_ASSIGN(const auto ids, IdsOf(daemon, ref, job));
    if (first && !session.json)
      if (auto list = daemon.Gpus()) gpus = std::move(list->gpus);
    for (const auto& id : ids) {
      if (ids.size() > 1) {
        GPUMAN_ASSIGN(job, daemon.Job(id));
      }
      if (session.json)
        session.PrintJson(api::ToJson(job));
      else
        session.Print((first ? "" : "\n") +
                      dialect.render_job(job, gpus, session.style(), SystemClock().Wall()));
      first = false;
    }
    return kExitDone;
  };
  const auto show_other = [&](ExternalJobHandle& job) { return job.Show(std::exchange(first, false)); };
  return ForEach(session, others, words, show, show_other);
}

Result<int> Log(CommandContext& session, const ExternalQueue& others, const LogSettings& s,
                const JobWords& words) {
  const auto log = [&](const api::Client& daemon, const std::string& ref) -> Result<int> {
    api::LogOptions options;
    options.follow = s.follow;
    if (s.last) options.tail = static_cast<std::uint64_t>(*s.last);
    LogPrinter lines(session, s.first);
    GPUMAN_TRY(
        ShowLog(session, daemon, ref, options, [&](std::string_view piece) { return lines.Feed(piece); }));
    lines.Finish();
    TellOtherOutput(session, daemon, ref);
    return kExitDone;
  };
  return ForEach(session, others, words, log, [&](ExternalJobHandle& job) { return job.Log(s); });
}

Result<int> Attach(CommandContext& session, const ExternalQueue& others, const JobWords& words) {
  const auto attach = [&](const api::Client& daemon, const std::string& ref) -> Result<int> {
    GPUMAN_ASSIGN(const api::JobView job, daemon.Job(ref));
    return WaitForJob(session, daemon, job);
  };
  return ForEach(session, others, words, attach, std::mem_fn(&ExternalJobHandle::Attach));
}

Result<int> Wait(CommandContext& session, const ExternalQueue& others, const JobWords& words) {
  const auto wait = [&](const api::Client& daemon, const std::string& ref) -> Result<int> {
    auto named = daemon.Job(ref);
    while (!named) {
      GPUMAN_ASSIGN(const api::Client next, NextDaemon(session, named.error(), {}));
      named = next.Job(ref);
    }
    GPUMAN_ASSIGN(const auto ids, IdsOf(daemon, ref, *named));
    int status = kExitDone;
    for (const auto& id : ids) {
      GPUMAN_ASSIGN(const api::JobView job, WaitForEnd(session, daemon, id));
      GPUMAN_TRY(PrintJob(session, "", job));
      TellNotes(session, job);
      session.Flush();
      status = std::max(status, ExitStatusOfJob(job));
    }
    return status;
  };
  return ForEach(session, others, words, wait, std::mem_fn(&ExternalJobHandle::Wait));
}

Result<int> Release(CommandContext& session, const ExternalQueue& others, std::optional<base::WallTime> at,
                    const JobWords& words) {
  const auto release = [&](const api::Client& daemon, const std::string& ref) -> Result<int> {
    if (at) {
      spec::JobRequest options;
      options.begin = at;
      api::JobUpdate update;
      api::AddOption(options, "begin", update);
      GPUMAN_TRY(api::AskWithoutTimeout(daemon, api::routes::kUpdateJob, {{ref}}, update));
    }
    return PrintJob(session, "", api::AskWithoutTimeout(daemon, api::routes::kReleaseJob, {{ref}}));
  };
  return ForEach(session, others, words, release, [&](ExternalJobHandle& job) { return job.Release(at); });
}

// The result of a change; an error names the options that the user typed.
template <typename T>
Result<T> Changed(Result<T> result, const CommandDialect& dialect) {
  if (!result) return base::Fail(WithOptionNames(std::move(result.error()), dialect));
  return result;
}

Result<api::JobUpdate> ResolvedUpdateOf(CommandContext& session, JobUpdateSettings s,
                                        const api::JobView& job) {
  if (s.depends) GPUMAN_TRY(SweepResolver(session).Resolve(*s.depends));
  return UpdateOf(s, job);
}

Result<int> Update(CommandContext& session, const ExternalQueue& others, const CommandDialect& dialect,
                   const JobUpdateSettings& s, const JobWords& words) {
  if (s.Empty())
    return base::Fail(ErrorCode::kInvalidArgument, "there is nothing to change",
                      fmt::format("gpuman job update {} --gpus 2 --time 4h", words.front()));
  const auto update = [&](const api::Client& daemon, const std::string& ref) -> Result<int> {
    GPUMAN_ASSIGN(const api::JobView job, daemon.Job(ref));
    GPUMAN_ASSIGN(const auto changes, ResolvedUpdateOf(session, s, job));
    return PrintJob(
        session, "updated: ",
        Changed(api::AskWithoutTimeout(daemon, api::routes::kUpdateJob, {{ref}}, changes), dialect));
  };
  const auto refuse = [](ExternalJobHandle& job) -> Result<int> { return base::Fail(job.RefuseUpdate()); };
  return ForEach(session, others, words, update, refuse);
}

Result<int> Redo(CommandContext& session, const ExternalQueue& others, const CommandDialect& dialect,
                 const JobUpdateSettings& s, const JobWords& words) {
  const auto redo = [&](const api::Client& daemon, const std::string& ref) -> Result<int> {
    GPUMAN_ASSIGN(const api::JobView job, daemon.Job(ref));
    GPUMAN_ASSIGN(auto update, ResolvedUpdateOf(session, s, job));
    GPUMAN_ASSIGN(const auto answer, Changed(api::AskWithoutTimeout(daemon, api::routes::kRedoJob, {{ref}},
                                                                    {std::move(update), s.cascade}),
                                             dialect));
    for (const auto& note : answer.notes) session.Note(note);
    if (session.json)
      session.PrintJson(JsonOf(answer));
    else if (dialect.submitted != nullptr)
      for (const auto& one : answer.jobs) session.Print(dialect.submitted(std::to_string(one.id), one.tag));
    else
      session.Print(RenderSubmitted({}, answer, {}, {}, SystemClock().Wall()));
    return kExitDone;
  };
  const auto refuse = [](ExternalJobHandle& job) -> Result<int> { return base::Fail(job.RefuseRedo()); };
  return ForEach(session, others, words, redo, refuse);
}

Result<int> Hold(CommandContext& session, const ExternalQueue& others, const JobWords& words) {
  const auto hold = [&](const api::Client& daemon, const std::string& ref) {
    return PrintJob(session, "", api::AskWithoutTimeout(daemon, api::routes::kHoldJob, {{ref}}));
  };
  return ForEach(session, others, words, hold, std::mem_fn(&ExternalJobHandle::Hold));
}

// The action of a command without options.
auto ActionOf(const ExternalQueue& others,
              Result<int> (*act)(CommandContext&, const ExternalQueue&, const JobWords&)) {
  return [&others, act](CommandContext& session, const CommandLine& line) {
    return act(session, others, line.words);
  };
}

Arguments OneJob() { return {UsualArgument(kJobValue)}; }
Arguments SeveralJobs() { return {UsualArgument(kJobValue, kAnyNumber)}; }

Command LogCommand(const ExternalQueue& others) {
  const auto s = std::make_shared<LogSettings>();  // shared by the options and the action
  const auto lines = [](std::optional<int>& target) { return take::Integer(target, 0, 1'000'000'000); };
  return {"log",
          "Print the output of a job",
          "gpuman job log train -f",
          OneJob(),
          {{"-f,--follow", "", "Follow the output until the job ends", take::Flag(s->follow)},
           {"-n,--tail,--last", "N", "Print only the last N lines", lines(s->last)},
           {"--first", "N", "Print only the first N lines", lines(s->first)}},
          [s, &others](CommandContext& session, const auto& line) {
            return Log(session, others, *s, line.words);
          }};
}

Command ReleaseCommand(const ExternalQueue& others) {
  const auto at = std::make_shared<std::optional<base::WallTime>>();  // shared by the option and the action
  return {"release",
          "Release held jobs, so that they can start",
          "gpuman job release 7 --at 22:00",
          SeveralJobs(),
          {{"--at", "TIME", "Start no earlier than this: 22:00, now+1h",
            take::Into(*at, [](const std::string& text) { return ParseTime(text, SystemClock().Wall()); })}},
          [at, &others](CommandContext& session, const auto& line) {
            return Release(session, others, *at, line.words);
          }};
}

Command UpdateCommand(const ExternalQueue& others, const CommandDialect& dialect) {
  const auto s = std::make_shared<JobUpdateSettings>();  // shared by the options and the action
  return {"update",
          "Change waiting jobs",
          "gpuman job update train --gpus 2 --time 4h --priority 200",
          SeveralJobs(),
          UpdateOptions(*s, dialect, UpdatePurpose::kUpdate, SystemClock().Wall()),
          [s, &dialect, &others](CommandContext& session, const auto& line) {
            return Update(session, others, dialect, *s, line.words);
          }};
}

Command RedoCommand(const ExternalQueue& others, const CommandDialect& dialect) {
  const auto s = std::make_shared<JobUpdateSettings>();  // shared by the options and the action
  return {"redo",
          "Queue an ended job again, with changes if options are given",
          "gpuman job redo 7 --gpus 2",
          SeveralJobs(),
          UpdateOptions(*s, dialect, UpdatePurpose::kRedo, SystemClock().Wall()),
          [s, &dialect, &others](CommandContext& session, const auto& line) {
            return Redo(session, others, dialect, *s, line.words);
          }};
}

}  // namespace

std::vector<Command> JobCommands(const CommandDialect& dialect, const ToolCompatibility& tools) {
  const ExternalQueue& others = tools.queue;
  return {{"show",
           "Show all details of jobs",
           "gpuman job show 7",
           SeveralJobs(),
           {},
           [&dialect, &others](CommandContext& session, const auto& line) {
             return Show(session, others, dialect, line.words);
           }},
          LogCommand(others),
          {"attach",
           "Show a job's output from the beginning and exit with its exit status; Ctrl-C is passed on to it",
           "gpuman job attach 7",
           OneJob(),
           {},
           ActionOf(others, Attach)},
          {"hold",
           "Keep waiting jobs from starting",
           "gpuman job hold 7 10-12",
           SeveralJobs(),
           {},
           ActionOf(others, Hold)},
          ReleaseCommand(others),
          UpdateCommand(others, dialect),
          RedoCommand(others, dialect),
          {"wait",
           "Wait until jobs have ended, and exit with their exit status",
           "gpuman job wait 7",
           SeveralJobs(),
           {},
           ActionOf(others, Wait)}};
}

}  // namespace gpuman::cli::queue
