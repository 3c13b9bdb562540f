// info, stats, reserve, quota, gpu allow|restrict|ignore-process|choice: the queue as a whole.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/queue_client.h"
#include "api/queue_json.h"
#include "cli/queue/commands.h"
#include "cli/queue/queue_views.h"
#include "cli/queue/values.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;
using base::Result;
using base::SystemClock;
using Words = std::vector<std::string>;

template <typename T, typename Render>
Result<int> Show(Session& session, const T& value, Render render) {
  if (session.json)
    session.PrintJson(api::ToJson(value));
  else
    session.Print(render());
  return kExitDone;
}

// --- info, stats

Result<int> Info(Session& session, Flavour flavour) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto info, api::GetQueueInfo(daemon));
  return Show(session, info, [&] {
    return flavour == Flavour::kGflow ? RenderGflowInfo(info, session.look())
                                      : RenderInfo(info, session.look());
  });
}

struct StatsSettings {
  std::string by = "user";
  std::string output = "table";
  std::optional<std::string> user;
  bool all_users = false;
  std::optional<base::WallTime> since, until;
};

std::string GflowStats(const api::StatsRow& row, bool csv) {
  const auto seconds = [](base::Millis value) {
    return fmt::format("{}", static_cast<double>(value.count()) / 1000);
  };
  const std::vector<std::pair<std::string, std::string>> metrics{
      {"total_jobs", fmt::to_string(row.jobs)},
      {"completed_jobs", fmt::to_string(row.finished)},
      {"failed_jobs", fmt::to_string(row.failed + row.killed)},
      {"cancelled_jobs", fmt::to_string(row.cancelled)},
      {"timeout_jobs", fmt::to_string(row.timeout)},
      {"running_jobs", fmt::to_string(row.running)},
      {"queued_jobs", fmt::to_string(row.queued)},
      {"avg_wait_secs", seconds(row.wait_mean)},
      {"avg_runtime_secs", seconds(row.run_mean)},
      {"total_gpu_hours", fmt::format("{:.4f}", row.gpu_hours)},
      {"success_rate", row.success ? fmt::format("{:.4f}", *row.success) : std::string()}};
  std::string text = csv ? "metric,value\n" : "";
  for (const auto& [name, value] : metrics)
    text += csv ? fmt::format("{},{}\n", name, value)
                : fmt::format("{:<18}{}\n", name, value.empty() ? "-" : value);
  return text;
}

Result<int> Stats(Session& session, Flavour flavour, const StatsSettings& s) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(auto stats, api::GetStats(daemon, s.by, s.since, s.until));
  const bool gflow = flavour == Flavour::kGflow;
  std::optional<std::string> user = s.user;
  if (gflow && !user && !s.all_users) user = CallersName();
  if (user) {
    std::erase_if(stats.rows, [&](const auto& row) { return row.name != *user; });
    stats.total = stats.rows.empty() ? api::StatsRow{} : stats.rows.front();
    stats.total.name = *user;
  }
  if (session.json || s.output == "json")
    session.PrintJson(api::ToJson(stats));
  else if (gflow)
    session.Print(GflowStats(stats.total, s.output == "csv"));
  else
    session.Print(s.output == "csv" ? RenderStatsCsv(stats) : RenderStats(stats, session.look()));
  return kExitDone;
}

// --- reserve

struct ReserveSettings {
  api::ReservationRequest request;
  std::optional<base::WallTime> start;
  std::optional<base::Millis> duration;
  bool all = false, active = false, timeline = false;
  std::optional<std::string> user, status, range;
};

// "1h30m" is gflow's way; "1:30:00" and "90m" are everybody's.
Result<base::Millis> ParseSpan(const std::string& text) {
  if (const auto simple = base::ParseDuration(text)) return simple;
  const auto hour = text.find('h');
  if (hour == std::string::npos || hour + 1 == text.size()) return base::ParseDuration(text);
  GPUMAN_ASSIGN(const auto hours, base::ParseDuration(text.substr(0, hour + 1)));
  GPUMAN_ASSIGN(const auto rest, base::ParseDuration(text.substr(hour + 1)));
  return hours + rest;
}

Result<int> CreateReservation(Session& session, ReserveSettings s) {
  if (!s.start || !s.duration || s.request.user.empty())
    return base::Fail(ErrorCode::kInvalidArgument, "a reservation needs --user, --start and --duration",
                      "gpuman reserve create --user ada --gpus 2 --start 14:00 --duration 2h");
  s.request.start = *s.start;
  s.request.duration = *s.duration;
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto made, api::CreateReservation(daemon, s.request));
  return Show(session, made,
              [&] { return RenderReservations({made}, {}, session.look(), SystemClock().Wall()); });
}

Result<int> ListReservations(Session& session, const ReserveSettings& s,
                             const std::optional<std::string>& id) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(auto list, api::ListReservations(daemon, s.all || id || s.status));
  std::erase_if(list.reservations, [&](const auto& r) {
    return (id && std::to_string(r.id) != *id) || (s.user && r.user != *s.user) ||
           (s.active && r.state != "active") || (s.status && r.state != *s.status);
  });
  if (id && list.reservations.empty())
    return base::Fail(ErrorCode::kNotFound, fmt::format("there is no reservation {}", *id),
                      "gpuman reserve list --all shows them");
  return Show(session, list, [&] {
    const auto info = api::GetQueueInfo(daemon).value_or(api::QueueInfo{});
    return RenderReservations(list.reservations, info.gpus, session.look(), SystemClock().Wall());
  });
}

Result<int> CancelReservations(Session& session, const Words& ids) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  for (const auto& id : ids) {
    GPUMAN_ASSIGN(const auto gone, api::CancelReservation(daemon, id));
    if (session.json)
      session.PrintJson(api::ToJson(gone));
    else
      session.Print(fmt::format("Reservation {} of {} is cancelled.\n", gone.id, Printable(gone.user)));
  }
  return kExitDone;
}

// --- quota

struct QuotaSettings {
  std::optional<std::string> user, project;
  bool each_user = false, each_project = false;
  api::QuotaUpdate update;
};

struct Subject {
  std::string kind, name;
};
Result<Subject> SubjectOf(const QuotaSettings& s) {
  const int named = s.user.has_value() + s.project.has_value() + s.each_user + s.each_project;
  if (named != 1)
    return base::Fail(ErrorCode::kInvalidArgument,
                      "whose quota? Give one of --user, --project and the --default-…",
                      "gpuman quota set --user ada --gpus 4");
  if (s.user) return Subject{"user", *s.user};
  if (s.project) return Subject{"project", *s.project};
  return Subject{s.each_user ? "user" : "project", "*"};
}

Result<int> SetQuota(Session& session, const QuotaSettings& s) {
  GPUMAN_ASSIGN(const auto subject, SubjectOf(s));
  const auto& u = s.update;
  if (!u.running_jobs && !u.gpus && !u.queued_jobs && !u.gpu_hours && !u.clear_running_jobs &&
      !u.clear_gpus && !u.clear_queued_jobs && !u.clear_gpu_hours)
    return base::Fail(ErrorCode::kInvalidArgument, "there is nothing to limit",
                      "give --running-jobs, --gpus, --queued-jobs or --gpu-hours");
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto quota, api::SetQuota(daemon, subject.kind, subject.name, s.update));
  return Show(session, quota, [&] { return RenderQuotas({quota}, session.look()); });
}

Result<int> RemoveQuota(Session& session, const QuotaSettings& s) {
  GPUMAN_ASSIGN(const auto subject, SubjectOf(s));
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto quota, api::RemoveQuota(daemon, subject.kind, subject.name));
  return Show(session, quota, [&] {
    return fmt::format("No limits of their own any more: {} {}.\n", quota.subject, quota.name);
  });
}

Result<int> ListQuotas(Session& session, const Words&) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto list, api::ListQuotas(daemon));
  return Show(session, list, [&] { return RenderQuotas(list.quotas, session.look()); });
}

Options SubjectOptions(QuotaSettings& s) {
  return {{"-u,--user", "NAME", "Of this user", TakeText(s.user)},
          {"-P,--project", "NAME", "Of this project", TakeText(s.project)},
          {"--default-user", "", "Of each user without a quota of their own", TakeFlag(s.each_user)},
          {"--default-project", "", "Of each project without a quota of its own", TakeFlag(s.each_project)}};
}

template <typename T, typename Parse>
std::function<Result<>(const std::string&)> Limit(std::optional<T>& limit, bool& clear, Parse parse) {
  return [&limit, &clear, parse](const std::string& text) -> Result<> {
    clear = text == "none";
    if (clear) return {};
    GPUMAN_ASSIGN(limit, parse(text));
    return {};
  };
}

Result<double> ParseHours(const std::string& text) {
  char* end = nullptr;
  const double hours = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || !(hours >= 0 && hours < 1e12))
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no number of hours", text),
                      "write 100 or 0.5");
  return hours;
}

// --- gpu

Result<int> SetAllowed(Session& session, const Words& words, bool restrict_them) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  api::QueueSettingsUpdate update;
  const bool all = words.size() == 1 && words.front() == "all";
  if (all && !restrict_them) {
    update.clear_allowed = true;
  } else if (all) {
    update.allowed.emplace();
  } else {
    GPUMAN_ASSIGN(const auto info, api::GetQueueInfo(daemon));
    std::vector<std::string> named;
    for (const auto& word : words) {
      GPUMAN_ASSIGN(const auto some, ParseGpus(word));
      named.insert(named.end(), some.begin(), some.end());
    }
    // "allow" adds to what is allowed, "restrict" takes away from it; the daemon knows which names there are.
    auto& allowed = update.allowed.emplace();
    for (const auto& gpu : info.gpus) {
      const auto& before = info.settings.allowed;
      bool is_allowed = !before || std::find(before->begin(), before->end(), gpu.uuid) != before->end();
      for (auto& name : named) {
        const bool meant = !name.empty() &&
                           ((gpu.index && std::to_string(*gpu.index) == name) || gpu.uuid.starts_with(name));
        if (!meant) continue;
        is_allowed = !restrict_them;
        name.clear();
      }
      if (is_allowed) allowed.push_back(gpu.uuid);
    }
    for (const auto& name : named)
      if (!name.empty())
        return base::Fail(ErrorCode::kNotFound, fmt::format("there is no GPU {}", name),
                          "gpuman info shows them");
    if (allowed.size() == info.gpus.size()) {
      update.allowed.reset();
      update.clear_allowed = true;
    }
  }
  GPUMAN_TRY(api::SetQueueSettings(daemon, update));
  return Info(session, Flavour::kGpuman);
}

struct IgnoreSettings {
  api::IgnoredProcess rule;
  bool list = false;
  std::optional<std::string> remove;
};

Result<int> Ignore(Session& session, const IgnoreSettings& s) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  if (s.remove) {
    GPUMAN_ASSIGN(const auto gone, api::StopIgnoring(daemon, *s.remove));
    return Show(session, gone, [&] { return fmt::format("Rule {} is gone.\n", gone.id); });
  }
  if (!s.rule.pid && !s.rule.user && !s.rule.name) {
    GPUMAN_ASSIGN(const auto list, api::ListIgnoredProcesses(daemon));
    return Show(session, list, [&] { return RenderIgnored(list.ignored, session.look()); });
  }
  GPUMAN_ASSIGN(const auto rule, api::IgnoreProcess(daemon, s.rule));
  return Show(session, rule, [&] { return RenderIgnored({rule}, session.look()); });
}

Result<int> Change(Session& session, const api::QueueSettingsUpdate& update) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto settings, api::SetQueueSettings(daemon, update));
  return Show(session, settings, [&] {
    return fmt::format("Of several free GPUs the queue takes: {}.{}\n", settings.choice,
                       settings.paused ? " It is paused." : "");
  });
}

Result<int> Choose(Session& session, const Words& words) {
  api::QueueSettingsUpdate update;
  for (const auto& word : words) {
    if (word == "pause" || word == "resume")
      update.paused = word == "pause";
    else
      update.choice = word;
  }
  if (update.choice && *update.choice != "sequential" && *update.choice != "random" &&
      *update.choice != "topology")
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no way to choose", *update.choice),
                      "sequential, random or topology");
  return Change(session, update);
}

auto AsSince(base::WallTime now) {
  return [now](const std::string& text) { return ParseSince(text, now); };
}

}  // namespace

Command InfoCommand(Flavour flavour) {
  const bool gflow = flavour == Flavour::kGflow;
  Command info{gflow ? "ginfo" : "info",
               "Show the GPUs as the queue sees them: who has them, what keeps them",
               gflow ? "ginfo" : "gpuman info",
               "",
               0,
               0,
               {},
               [flavour](Session& session, const Words&) { return Info(session, flavour); }};
  if (gflow) info.options = {{"--config", "FILE", "", [](const std::string&) -> Result<> { return {}; }}};
  return info;
}

Command StatsCommand(Flavour flavour) {
  const auto s = std::make_shared<StatsSettings>();  // shared by the options and the action
  const auto now = SystemClock().Wall();
  const bool gflow = flavour == Flavour::kGflow;
  Command stats{
      gflow ? "gstats" : "stats",
      "Show what users, projects and GPUs had of the machine",
      gflow ? "gstats --since 7d" : "gpuman stats --by project --since 30d",
      "",
      0,
      0,
      {{"-u,--user", "NAME", "Of this user alone", TakeText(s->user)},
       {"-t,--since", "TIME", "Of jobs that ended since 1h, 7d, today, 2026-02-01",
        TakeInto(s->since, AsSince(now))},
       {"-o,--output", "table|json|csv", "How it is printed", TakeWord(s->output, {"table", "json", "csv"})}},
      [s, flavour](Session& session, const Words&) { return Stats(session, flavour, *s); }};
  if (gflow) {
    stats.options.push_back({"-a,--all-users", "", "Of all users", TakeFlag(s->all_users)});
  } else {
    stats.options.push_back({"--until", "TIME", "And until", TakeInto(s->until, AsSince(now))});
    stats.options.push_back(
        {"-b,--by", "user|project|gpu", "A line for each", TakeWord(s->by, {"user", "project", "gpu"})});
  }
  return stats;
}

std::vector<Command> ReserveCommands() {
  const auto s = std::make_shared<ReserveSettings>();  // shared by the options and the actions
  const auto now = SystemClock().Wall();
  auto& request = s->request;
  return {
      {"create",
       "Keep GPUs for a user",
       "gpuman reserve create --user ada --gpus 2 --start 14:00 --duration 2h",
       "",
       0,
       0,
       {{"-u,--user", "NAME", "For this user", TakeText(request.user)},
        {"-g,--gpus", "N", "So many GPUs",
         TakeInto(request.count, [](const std::string& t) { return ParseInteger(t, 1, 1024); })},
        {"--gpu,--gpu-spec", "GPUS", "Or exactly these: 0,2 or 0-3",
         TakeInto(request.devices, [](const std::string& t) { return ParseGpus(t); })},
        {"--start", "TIME", "From: 14:00, '2026-01-28 14:00', now",
         TakeInto(s->start, [now](const std::string& t) { return ParseTime(t, now); })},
        {"--duration", "TIME", "So long: 2h, 30m, 1h30m", TakeInto(s->duration, ParseSpan)},
        {"--timezone", "ZONE", "", [](const std::string&) -> Result<> { return {}; }}},
       [s](Session& session, const Words&) { return CreateReservation(session, *s); }},
      {"list",
       "List reservations",
       "gpuman reserve list",
       "",
       0,
       0,
       {{"-a,--all", "", "Ended ones too", TakeFlag(s->all)},
        {"--active", "", "Only those that hold now", TakeFlag(s->active)},
        {"--user", "NAME", "Only of this user", TakeText(s->user)},
        {"--status", "pending|active|ended|cancelled", "Only those", TakeText(s->status)},
        {"--timeline", "", "", TakeFlag(s->timeline)},
        {"--range", "TIME", "", TakeText(s->range)},
        {"--from,--to", "TIME", "", TakeText(s->range)}},
       [s](Session& session, const Words&) { return ListReservations(session, *s, std::nullopt); }},
      {"get",
       "Show one reservation",
       "gpuman reserve get 3",
       "ID",
       1,
       1,
       {},
       [s](Session& session, const Words& words) { return ListReservations(session, *s, words.front()); }},
      {"cancel",
       "Give reserved GPUs back",
       "gpuman reserve cancel 3",
       "ID",
       1,
       kAnyNumber,
       {},
       CancelReservations}};
}

std::vector<Command> QuotaCommands() {
  const auto s = std::make_shared<QuotaSettings>();  // shared by the options and the actions
  const auto integer = [](const std::string& text) { return ParseInteger(text, 0, 1'000'000'000); };
  auto& u = s->update;
  Options set = SubjectOptions(*s);
  set.insert(
      set.end(),
      {{"--running-jobs,--max-running-jobs", "N", "So many jobs run at once, or none for no limit",
        Limit(u.running_jobs, u.clear_running_jobs, integer)},
       {"-g,--gpus,--max-running-gpus", "N", "On so many GPUs", Limit(u.gpus, u.clear_gpus, integer)},
       {"--queued-jobs,--max-queued-jobs", "N", "So many wait",
        Limit(u.queued_jobs, u.clear_queued_jobs, integer)},
       {"--gpu-hours", "HOURS", "So much time of GPUs", Limit(u.gpu_hours, u.clear_gpu_hours, ParseHours)}});
  return {
      {"set", "Limit what a user or a project may have",
       "gpuman quota set --user ada --gpus 4 --gpu-hours 500", "", 0, 0, std::move(set),
       [s](Session& session, const Words&) { return SetQuota(session, *s); }},
      {"list", "List the limits, and what is used of them", "gpuman quota list", "", 0, 0, {}, ListQuotas},
      {"remove", "Take all limits of a user or a project away", "gpuman quota remove --user ada", "", 0, 0,
       SubjectOptions(*s), [s](Session& session, const Words&) { return RemoveQuota(session, *s); }}};
}

std::vector<Command> GpuCommands() {
  const auto s = std::make_shared<IgnoreSettings>();  // shared by the options and the action
  return {
      {"allow",
       "Let the queue use GPUs again, or all",
       "gpuman gpu allow 0,2",
       "GPU",
       1,
       kAnyNumber,
       {},
       [](Session& session, const Words& words) { return SetAllowed(session, words, false); }},
      {"restrict",
       "Keep the queue from using GPUs; what runs there goes on",
       "gpuman gpu restrict 3",
       "GPU",
       1,
       kAnyNumber,
       {},
       [](Session& session, const Words& words) { return SetAllowed(session, words, true); }},
      {"ignore-process",
       "Hand a GPU out although a process that gpuman does not manage uses it; without options: the rules",
       "gpuman gpu ignore-process --gpu 0 --pid 1234",
       "",
       0,
       0,
       {{"--pid", "PID", "This process",
         TakeInto(s->rule.pid, [](const std::string& t) { return ParseInteger(t, 1, INT32_MAX); })},
        {"--user", "NAME", "All of this user", TakeText(s->rule.user)},
        {"--name", "NAME", "All of this name", TakeText(s->rule.name)},
        {"--gpu", "GPU", "On this GPU only", TakeText(s->rule.gpu)},
        {"--list", "", "List the rules", TakeFlag(s->list)},
        {"--remove", "ID", "Take a rule away", TakeText(s->remove)}},
       [s](Session& session, const Words&) { return Ignore(session, *s); }},
      {"choice",
       "Which of several free GPUs the queue takes: sequential, random or topology; pause, resume",
       "gpuman gpu choice topology",
       "WORD",
       1,
       2,
       {},
       Choose}};
}

}  // namespace gpuman::cli::queue
