// logs, events: what happened before, and what happens now.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/job_output.h"
#include "cli/log_printer.h"
#include "cli/queue/named_jobs.h"
#include "cli/take.h"
#include "cli/views.h"
#include "cli/wait.h"

namespace gpuman::cli {
namespace {

base::Result<int> LogOf(CommandContext& session, const api::Client& daemon, const std::string& job,
                        const api::LogOptions& options) {
  LogPrinter lines(session);
  const auto shown =
      ShowLog(session, daemon, job, options, [&](std::string_view piece) { return lines.Feed(piece); });
  if (!shown) return base::Fail(WithNearestTag(daemon, job, shown.error()));
  lines.Finish();
  TellOtherOutput(session, daemon, job);
  return kExitDone;
}

base::Result<int> Logs(CommandContext& session, const CommandLine& line, const api::LogOptions& options) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto jobs, queue::JobsNamed(session, line.words));
  return queue::ForEachJob(session, jobs, [&](const std::string& job) {
    if (jobs.size() > 1) session.Note(fmt::format("the output of job {}:", job));
    return LogOf(session, daemon, job, options);
  });
}

struct EventsOptions {
  api::EventOptions events;
  bool follow = false;
};

constexpr int kEventsBefore = 10;  // events that are shown before the followed ones

// Follows events over restarts of the daemon: the ids of events continue after a restart.
base::Result<> FollowEvents(CommandContext& session, const api::Client& daemon, api::EventOptions options) {
  // After a reconnect, the next daemon is asked for the events after the last one that was shown.
  const auto show = [&](const api::EventView& event) {
    if (session.json)
      session.PrintJson(api::ToJson(event));
    else
      session.Print(RenderEvent(event, session.style()));
    session.Flush();
    options.since = event.id;
    options.from.reset();
    options.limit.reset();
    return session.output_error() == 0;
  };
  // A person wants to see what led to the present state; a program that follows gets new events only.
  const bool shows_some = options.limit ? *options.limit > 0 : !session.json;
  const auto follow = [&](const api::Client& from) -> base::Result<> {
    if (!options.since && !options.from) {
      GPUMAN_ASSIGN(const auto last, from.Events({.since = {},
                                                  .limit = std::max(options.limit.value_or(kEventsBefore), 1),
                                                  .jobs = options.jobs}));
      options.since = last.events.empty() ? 0 : last.events.back().id;
      options.limit.reset();
      if (shows_some)
        for (const auto& event : last.events) show(event);
    }
    if (session.output_error() != 0) return {};
    if (options.limit == 0) options.limit.reset();  // the limit counts only events of the past
    return from.FollowEvents(options, show);
  };
  auto followed = follow(daemon);
  while (!followed) {
    GPUMAN_ASSIGN(const api::Client next, NextDaemon(session, followed.error(), {}));
    followed = follow(next);
  }
  return {};
}

// The ids of the jobs. An id may be that of a job of which the daemon knows nothing but events.
base::Result<std::vector<std::string>> IdsOf(CommandContext& session, const api::Client& daemon,
                                             const std::vector<std::string>& words) {
  GPUMAN_ASSIGN(auto jobs, queue::JobsNamed(session, words));
  for (auto& job : jobs) {
    if (job.find_first_not_of("0123456789") == std::string::npos) continue;
    auto found = daemon.Job(job);
    if (!found) return base::Fail(WithNearestTag(daemon, job, found.error()));
    job = std::to_string(found->id);
  }
  return jobs;
}

base::Result<int> Events(CommandContext& session, const CommandLine& line, EventsOptions options) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(options.events.jobs, IdsOf(session, daemon, line.words));
  if (options.follow) {
    GPUMAN_TRY(FollowEvents(session, daemon, options.events));
    return kExitDone;
  }
  api::EventList list;
  if (options.events.limit != 0) {
    GPUMAN_ASSIGN(list, daemon.Events(options.events));
  }
  if (session.json) {
    session.PrintJson(api::ToJson(list));
  } else {
    for (const auto& event : list.events) session.Print(RenderEvent(event, session.style()));
  }
  return kExitDone;
}

// A number is the id of an event; everything else is a time.
Take TakeSince(api::EventOptions& options) {
  return [&options](const std::string& text) -> base::Result<> {
    options.since.reset();
    options.from.reset();
    if (base::AreDigits(text)) return take::Integer(options.since, 0, INT64_MAX)(text);
    GPUMAN_ASSIGN(options.from, ParseSince(text, base::SystemClock().Wall()));
    return {};
  };
}

}  // namespace

Command LogsCommand() {
  const auto o = std::make_shared<api::LogOptions>();  // shared by the options and the action
  return {"logs",
          "Print the output of a job",
          "gpuman logs train -f",
          {JobArgument()},
          {{"-f,--follow", "", "Follow the output until the job ends", take::Flag(o->follow)},
           {"-n,--tail", "N", "Print only the last N lines", take::Integer(o->tail, 0, INT64_MAX)}},
          [o](CommandContext& session, const CommandLine& line) { return Logs(session, line, *o); }};
}

Command EventsCommand() {
  const auto o = std::make_shared<EventsOptions>();  // shared by the options and the action
  return {
      "events",
      "Print events: jobs that start and end, limits that are exceeded, GPUs that fail",
      "gpuman events -f",
      {{kJobValue, 0, kAnyNumber, "Only events of these jobs, by tag or id (default: all events)"}},
      {{"-f,--follow", "",
        "Print the last 10 events, then new ones as they happen (with --json only new ones)",
        take::Flag(o->follow)},
       {"-s,--since", kTimeValue,
        "Print only events since 1h, 2d, today, yesterday, 2026-02-01, or after the one with this id",
        TakeSince(o->events)},
       {"-n,--limit", "N", "Print at most the last N events", take::Integer(o->events.limit, 0, 1'000'000)}},
      [o](CommandContext& session, const CommandLine& line) { return Events(session, line, *o); }};
}

}  // namespace gpuman::cli
