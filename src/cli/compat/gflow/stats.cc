// gstats: what one user used, by default the caller.
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/compat/gflow/commands.h"
#include "cli/compat/gflow/views.h"
#include "cli/queue/queue_views.h"
#include "cli/show.h"
#include "cli/take.h"

namespace gpuman::cli::gflow {
namespace {

using base::Result;

struct StatsSettings {
  std::string output = "table";
  std::optional<std::string> user;
  bool all_users = false;
  std::optional<base::WallTime> since;
  std::optional<std::string> since_text;
};

Result<int> Stats(CommandContext& session, const StatsSettings& s) {
  const api::Query query = api::Query().Add("by", "user").Add("since", s.since);
  GPUMAN_ASSIGN(auto stats, AskDaemon(session, api::routes::kStats, {{}, query}, {}, api::NoTimeout()));
  std::optional<std::string> user = s.user;
  if (!user && !s.all_users) user = queue::CallersName();
  if (user == "all") user.reset();
  if (user) queue::KeepUser(stats, *user);
  if (session.json || s.output == "json")
    session.PrintJson(api::ToJson(stats));
  else if (s.output == "csv")
    session.Print(RenderStatsCsv(stats.total));
  else
    session.Print(
        RenderStats(stats.total, user.value_or("all"), s.since_text.value_or("all time"), session.style()));
  return kExitDone;
}

}  // namespace

Command Gstats() {
  const auto s = std::make_shared<StatsSettings>();  // shared by the options and the action
  return {"gstats",
          "Show how much users and projects used, and how busy GPUs were",
          "gstats --since 7d",
          {},
          {{"-u,--user", "NAME", "Only this user", take::Text(s->user)},
           {"-t,--since", "TIME", "Only jobs that ended since 1h, 7d, today, 2026-02-01",
            [s, now = base::SystemClock().Wall()](const std::string& text) -> Result<> {
              GPUMAN_ASSIGN(s->since, ParseSince(text, now));
              s->since_text = text;
              return {};
            }},
           {"-o,--output", "table|json|csv", "Format of the output", take::Text(s->output)},
           {"-a,--all-users", "", "All users", take::Flag(s->all_users)}},
          [s](CommandContext& session, const auto&) { return Stats(session, *s); }};
}

}  // namespace gpuman::cli::gflow
