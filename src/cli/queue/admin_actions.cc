// info, stats, gpu allow|restrict|ignore-process|choice: commands about the queue as a whole.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/queue/commands.h"
#include "cli/queue/queue_views.h"
#include "cli/show.h"
#include "cli/take.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;
using base::Result;
using base::SystemClock;
using Words = std::vector<std::string>;

// --- info, stats

Result<int> Info(CommandContext& session, bool topology = false) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto info, api::AskWithoutTimeout(daemon, api::routes::kQueueInfo));
  return Show(session, info, [&] {
    if (topology) return RenderTopology(info, session.style());
    const auto kept =
        api::AskWithoutTimeout(daemon, api::routes::kReservations).value_or(api::ReservationList{});
    return RenderInfo(info, kept.reservations, session.style(), SystemClock().Wall());
  });
}

struct StatsSettings {
  std::string by = "user";
  std::string output = "table";
  std::optional<std::string> user;
  bool waste = false;
  std::optional<base::WallTime> since, until;
};

Result<int> Stats(CommandContext& session, const StatsSettings& s) {
  // The answer counts runs that ended from `since` to `until`.
  api::Query query = api::Query().Add("by", s.by).Add("since", s.since).Add("until", s.until);
  if (s.user && s.by != "user") query.Add("user", std::string_view(*s.user));
  GPUMAN_ASSIGN(auto stats, AskDaemon(session, api::routes::kStats, {{}, query}, {}, api::NoTimeout()));
  if (s.user && s.by == "user") KeepUser(stats, *s.user);
  if (session.json || s.output == "json")
    session.PrintJson(api::ToJson(stats));
  else
    session.Print(s.output == "csv" ? RenderStatsCsv(stats)
                  : s.waste         ? RenderWaste(stats, session.style())
                                    : RenderStats(stats, session.style()));
  return kExitDone;
}

// --- gpu

Result<int> SetAllowed(CommandContext& session, const Words& words, bool restrict_them) {
  api::QueueSettingsUpdate update;
  const bool all = words.size() == 1 && words.front() == "all";
  if (all && !restrict_them) {
    update.clear_allowed = true;
  } else if (all) {
    update.allowed.emplace();
  } else {
    // The daemon changes the list as it is then, so that changes at the same time are all kept.
    auto& named = restrict_them ? update.restrict_these : update.allow;
    for (const auto& word : words) {
      GPUMAN_ASSIGN(const auto some, ParseGpus(word));
      named.insert(named.end(), some.begin(), some.end());
    }
  }
  GPUMAN_TRY(AskDaemon(session, api::routes::kSetQueue, {}, update, api::NoTimeout()));
  return Info(session);
}

struct IgnoreSettings {
  api::IgnoreRuleView rule;
  std::optional<std::string> remove;
};

Result<int> Ignore(CommandContext& session, const IgnoreSettings& s) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  if (s.remove) {
    GPUMAN_ASSIGN(const auto gone, api::AskWithoutTimeout(daemon, api::routes::kStopIgnoring, {{*s.remove}}));
    return Show(session, gone, [&] { return fmt::format("Rule {} was removed.\n", gone.id); });
  }
  if (!s.rule.pid && !s.rule.user && !s.rule.name) {
    GPUMAN_ASSIGN(const auto list, api::AskWithoutTimeout(daemon, api::routes::kIgnoredProcesses));
    return Show(session, list, [&] { return RenderIgnored(list.ignored, GpusOf(daemon), session.style()); });
  }
  GPUMAN_ASSIGN(const auto rule, api::AskWithoutTimeout(daemon, api::routes::kIgnoreProcess, {}, s.rule));
  if (s.rule.user) NoteStranger(session, *s.rule.user);
  return Show(session, rule, [&] { return RenderIgnored({rule}, GpusOf(daemon), session.style()); });
}

Result<int> Change(CommandContext& session, const api::QueueSettingsUpdate& update) {
  GPUMAN_ASSIGN(const auto settings,
                AskDaemon(session, api::routes::kSetQueue, {}, update, api::NoTimeout()));
  return Show(session, settings, [&] {
    return fmt::format("Of several free GPUs the queue takes: {}.{}\n", settings.choice,
                       settings.paused ? " It is paused." : "");
  });
}

Result<int> Choose(CommandContext& session, const CommandLine& line) {
  api::QueueSettingsUpdate update;
  for (const auto& word : line.words) {
    if (word == "pause" || word == "resume")
      update.paused = word == "pause";
    else
      update.choice = word;
  }
  if (update.choice && *update.choice != "sequential" && *update.choice != "random" &&
      *update.choice != "topology")
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a way to choose", *update.choice),
                      "sequential, random or topology");
  return Change(session, update);
}

}  // namespace

Command InfoCommand() {
  const auto topology = std::make_shared<bool>(false);  // shared by the option and the action
  return {"info",
          "Show GPUs as the queue sees them: which are free, who has the others, and why",
          "gpuman info",
          {},
          {{"--topology", "", "Show how the GPUs are connected to each other", take::Flag(*topology)}},
          [topology](CommandContext& session, const auto&) { return Info(session, *topology); }};
}

Command StatsCommand() {
  const auto s = std::make_shared<StatsSettings>();  // shared by the options and the action
  const auto since = [now = SystemClock().Wall()](const std::string& text) { return ParseSince(text, now); };
  return {
      "stats",
      "Show how much users and projects used, and how busy GPUs were",
      "gpuman stats --by project --since 30d",
      {},
      {{"-u,--user", "NAME", "Only this user", take::Text(s->user)},
       {"-t,--since", "TIME", "Only jobs that ended since 1h, 7d, today, 2026-02-01",
        take::Into(s->since, since)},
       {"-o,--output", "table|json|csv", "Format of the output", take::Text(s->output)},
       {"--until", "TIME", "Only jobs that ended until this time", take::Into(s->until, since)},
       {"-b,--by", "user|project|name|gpu|day",
        "One line for each user, project, name of jobs (with the memory that they used), GPU or day (UTC)",
        take::Text(s->by)},
       {"--waste", "", "The memory that jobs had for themselves and never used, the most first",
        take::Flag(s->waste)}},
      [s](CommandContext& session, const auto&) { return Stats(session, *s); }};
}

std::vector<Command> GpuCommands() {
  const auto s = std::make_shared<IgnoreSettings>();  // shared by the options and the action
  return {
      {"allow",
       "Let the queue use these GPUs, or all",
       "gpuman gpu allow 0,2",
       {UsualArgument(kGpuValue, kAnyNumber)},
       {},
       [](CommandContext& session, const auto& line) { return SetAllowed(session, line.words, false); }},
      {"restrict",
       "Do not let the queue use these GPUs; running jobs continue",
       "gpuman gpu restrict 3",
       {UsualArgument(kGpuValue, kAnyNumber)},
       {},
       [](CommandContext& session, const auto& line) { return SetAllowed(session, line.words, true); }},
      {"ignore-process",
       "Let the queue use a GPU although a process outside gpuman uses it; without options: list the rules",
       "gpuman gpu ignore-process --gpu 0 --pid 1234",
       {},
       {{"--pid", "PID", "This process", take::Integer(s->rule.pid, 1, INT32_MAX)},
        {"--user", "NAME", "All processes of this user", take::Text(s->rule.user)},
        {"--name", "NAME", "All processes of this name", take::Text(s->rule.name)},
        {"--gpu", "GPU", "Only on this GPU", take::Text(s->rule.gpu)},
        {"--list", "", "List the rules", take::Nothing()},
        {"--remove", "ID", "Remove the rule with this id", take::Text(s->remove)}},
       [s](CommandContext& session, const auto&) { return Ignore(session, *s); }},
      {"choice",
       "Set which of several free GPUs the queue takes, or pause the queue and resume it",
       "gpuman gpu choice topology",
       {{"WORD", 1, 2, "One of sequential, random and topology; or pause or resume; or one of each"}},
       {},
       Choose}};
}

}  // namespace gpuman::cli::queue
