// logs, events: what happened before, and what happens now.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/json_lines.h"
#include "cli/views.h"
#include "cli/wait.h"

namespace gpuman::cli {
namespace {

struct LogsOptions {
  std::string job;
  api::LogOptions log;
};

base::Result<int> Logs(Session& session, const LogsOptions& options) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  JsonLines lines(session);
  const auto show = [&](std::string_view piece) {
    if (session.json)
      lines.Feed(piece);
    else
      session.PrintOutput(piece);
    session.Flush();
    return true;
  };
  const auto shown = ShowLog(session, daemon, options.job, options.log, show);
  if (!shown) return base::Fail(WithNearestTag(daemon, options.job, shown.error()));
  lines.Finish();
  return kExitDone;
}

struct EventsOptions {
  api::EventOptions events;
  bool follow = false;
};

constexpr int kEventsBefore = 10;  // events that are shown before the followed ones

// Follows events over restarts of the daemon: the ids of events continue after a restart.
base::Result<> FollowEvents(Session& session, const api::Client& daemon, api::EventOptions options) {
  // After a reconnect, the next daemon is asked for the events after the last one that was shown.
  const auto show = [&](const api::EventView& event) {
    if (session.json)
      session.PrintJson(api::ToJson(event));
    else
      session.Print(RenderEvent(event, session.style()));
    session.Flush();
    options.since = event.id;
    options.limit.reset();
    return true;
  };
  // A person wants to see what led to the present state; a program that follows gets new events only.
  const bool shows_some = options.limit ? *options.limit > 0 : !session.json;
  const auto follow = [&](const api::Client& from) -> base::Result<> {
    if (!options.since) {
      GPUMAN_ASSIGN(
          const auto last,
          from.Events({.since = std::nullopt, .limit = std::max(options.limit.value_or(kEventsBefore), 1)}));
      options.since = last.events.empty() ? 0 : last.events.back().id;
      options.limit.reset();
      if (shows_some)
        for (const auto& event : last.events) show(event);
    }
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

base::Result<int> Events(Session& session, const EventsOptions& options) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
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

}  // namespace

void AddLogs(const Registry& registry) {
  const auto o = std::make_shared<LogsOptions>();  // shared by the parser's bindings and the action
  auto* logs = registry.Add("logs", "Print the output of a job", "gpuman logs train -f",
                            [o](Session& session) { return Logs(session, *o); });
  AddJobArgument(logs, o->job);
  logs->add_flag("-f,--follow", o->log.follow, "Follow the output until the job ends");
  logs->add_option("-n,--tail", o->log.tail, "Print only the last N lines")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{INT64_MAX}).description(""));
}

void AddEvents(const Registry& registry) {
  const auto o = std::make_shared<EventsOptions>();  // shared by the parser's bindings and the action
  auto* events = registry.Add(
      "events", "Print events: jobs that start and end, limits that are exceeded, GPUs that fail",
      "gpuman events -f", [o](Session& session) { return Events(session, *o); });
  events->add_flag("-f,--follow", o->follow,
                   "Print the last 10 events, then new ones as they happen (with --json only new ones)");
  events->add_option("-s,--since", o->events.since, "Print only events after the one with this id")
      ->type_name("ID");
  events->add_option("-n,--limit", o->events.limit, "Print at most the last N events")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000).description(""));
}

}  // namespace gpuman::cli
