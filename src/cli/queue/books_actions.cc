// reserve, quota: GPUs that are reserved for users, and the quotas of users.
#include <fmt/format.h>

#include "base/parse_number.h"
#include "cli/queue/commands.h"
#include "cli/queue/queue_views.h"
#include "cli/queue/wording.h"
#include "cli/show.h"
#include "cli/take.h"
#include "spec/option_rules.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;
using base::Result;
using base::SystemClock;

// --- reserve

struct ReserveSettings {
  api::ReservationRequest request;
  std::optional<std::string> start, zone;
  std::optional<base::Millis> duration;
  bool all = false, active = false;
  std::optional<std::string> user, status;
};

// "1h30m" is gflow's form; "1:30:00" and "90m" are common forms.
Result<base::Millis> ParseSpan(const std::string& text) {
  if (auto simple = base::ParseDuration(text)) return simple;
  const auto hour = text.find('h');
  if (hour == std::string::npos || hour + 1 == text.size()) return base::ParseDuration(text);
  GPUMAN_ASSIGN(const auto hours, base::ParseDuration(text.substr(0, hour + 1)));
  GPUMAN_ASSIGN(const auto rest, base::ParseDuration(text.substr(hour + 1)));
  return hours + rest;
}

Result<int> CreateReservation(CommandContext& session, ReserveSettings s) {
  if (!s.start || !s.duration || s.request.user.empty())
    return base::Fail(ErrorCode::kInvalidArgument, "a reservation needs --user, --start and --duration",
                      "gpuman reserve create --user ada --gpus 2 --start 14:00 --duration 2h");
  const auto now = SystemClock().Wall();
  GPUMAN_ASSIGN(s.request.start, s.zone ? ParseTimeIn(*s.zone, *s.start, now) : ParseTime(*s.start, now));
  s.request.duration = *s.duration;
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  const auto made = api::AskWithoutTimeout(daemon, api::routes::kReserve, {}, s.request);
  if (!made) return base::Fail(WithReservationOptions(made.error()));
  NoteStranger(session, made->user);
  return Show(session, *made, [&] {
    return RenderReservations({*made}, GpusOf(daemon), session.style(), SystemClock().Wall());
  });
}

Result<int> ListReservations(CommandContext& session, const ReserveSettings& s,
                             const std::optional<std::string>& id) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  const auto query = api::Query().AddFlag("all", s.all || id || s.status);
  GPUMAN_ASSIGN(auto list, api::AskWithoutTimeout(daemon, api::routes::kReservations, {{}, query}));
  std::erase_if(list.reservations, [&](const auto& r) {
    return (id && std::to_string(r.id) != *id) || (s.user && r.user != *s.user) ||
           (s.active && r.state != "active") || (s.status && r.state != *s.status);
  });
  if (id && list.reservations.empty())
    return base::Fail(ErrorCode::kNotFound, fmt::format("there is no reservation {}", *id),
                      "gpuman reserve list --all shows those that are kept; a cancelled one is not");
  return Show(session, list, [&] {
    return RenderReservations(list.reservations, GpusOf(daemon), session.style(), SystemClock().Wall());
  });
}

Result<int> CancelReservations(CommandContext& session, const CommandLine& line) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  for (const auto& id : line.words) {
    GPUMAN_ASSIGN(const auto gone, api::AskWithoutTimeout(daemon, api::routes::kCancelReservation, {{id}}));
    GPUMAN_TRY(Show(session, gone, [&] {
      return fmt::format("Reservation {} of {} is cancelled.\n", gone.id, Printable(gone.user));
    }));
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
    return base::Fail(
        ErrorCode::kInvalidArgument,
        "it is not said whose quota: give --user, --project, --default-user or --default-project",
        "gpuman quota set --user ada --gpus 4");
  if (s.user) return Subject{"user", *s.user};
  if (s.project) return Subject{"project", *s.project};
  return Subject{s.each_user ? "user" : "project", "*"};
}

Result<int> SetQuota(CommandContext& session, const QuotaSettings& s) {
  GPUMAN_ASSIGN(const auto subject, SubjectOf(s));
  if (s.update == api::QuotaUpdate{})
    return base::Fail(ErrorCode::kInvalidArgument, "no limit is given",
                      "give --running-jobs, --gpus, --queued-jobs, --gpu-hours or --shares");
  GPUMAN_ASSIGN(const auto quota, AskDaemon(session, api::routes::kSetQuota, {{subject.kind, subject.name}},
                                            s.update, api::NoTimeout()));
  if (s.user) NoteStranger(session, *s.user);
  return Show(session, quota, [&] { return RenderQuotas({quota}, session.style()); });
}

Result<int> RemoveQuota(CommandContext& session, const QuotaSettings& s) {
  GPUMAN_ASSIGN(const auto subject, SubjectOf(s));
  GPUMAN_ASSIGN(const auto quota, AskDaemon(session, api::routes::kRemoveQuota,
                                            {{subject.kind, subject.name}}, {}, api::NoTimeout()));
  return Show(session, quota, [&] {
    return fmt::format("The limits of {} {} were removed.\n", quota.subject,
                       quota.name == "*" ? "(each other)" : Printable(quota.name));
  });
}

Result<int> ListQuotas(CommandContext& session, const CommandLine&) {
  GPUMAN_ASSIGN(const auto list, AskDaemon(session, api::routes::kQuotas, {}, {}, api::NoTimeout()));
  return Show(session, list, [&] { return RenderQuotas(list.quotas, session.style()); });
}

Options SubjectOptions(QuotaSettings& s) {
  return {
      {"-u,--user", "NAME", "Of this user", take::Text(s.user)},
      {"-P,--project", "NAME", "Of this project", take::Text(s.project)},
      {"--default-user", "", "For each user without a quota of their own", take::Flag(s.each_user)},
      {"--default-project", "", "For each project without a quota of its own", take::Flag(s.each_project)}};
}

Result<double> ParseHours(const std::string& text) {
  const auto hours = base::ParseNumber<double>(text);
  if (!hours || !(*hours >= 0 && *hours < 1e12))
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a number of hours", text),
                      "write 100 or 0.5");
  return *hours;
}

Result<double> ParseShares(const std::string& text) {
  const auto shares = base::ParseNumber<double>(text);
  if (!shares || !(*shares >= 0.001 && *shares <= 1e9))
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a number of shares", text),
                      "write 2 or 0.5");
  return *shares;
}

// Takes a limit, by its name in the API; "none" takes it away.
template <typename Parse>
Take Limit(api::QuotaUpdate& update, const char* name, Parse parse) {
  return [&update, name, parse](const std::string& text) -> Result<> {
    auto& limit = update.fields[name];
    limit = nullptr;
    if (text == "none") return {};
    GPUMAN_ASSIGN(limit, parse(text));
    return {};
  };
}

// Each option that sets a field of the request names that field.
Options CreateOptions(ReserveSettings& s) {
  Options options;
  const auto add = [&](const char* names, const char* value, const char* help, Take take, const char* sets) {
    options.push_back({names, value, help, std::move(take), {}, sets});
  };
  auto& request = s.request;
  add("-u,--user", "NAME", "For this user", take::Text(request.user), "user");
  add("-g,--gpus", "N", "Number of GPUs, any of them", take::Integer(request.count, 1, spec::kMaxGpusOfJob),
      "count");
  add(
      "--gpu,--gpu-spec", "GPUS", "Exactly these GPUs: 0,2 or 0-3; repeat for more",
      [&request](const std::string& text) -> base::Result<> {
        GPUMAN_ASSIGN(const auto more, ParseGpus(text));
        request.devices.insert(request.devices.end(), more.begin(), more.end());
        return {};
      },
      "devices");
  add("--start", "TIME", "Start of the reservation: 14:00, '2026-01-28 14:00', now", take::Text(s.start),
      "start");
  add("--duration", "TIME", "Length of the reservation: 2h, 30m, 1h30m", take::Into(s.duration, ParseSpan),
      "duration_s");
  add("--timezone", "ZONE", "Time zone of --start: Europe/Berlin", take::Text(s.zone), "");
  return options;
}

}  // namespace

std::vector<Command> ReserveCommands() {
  const auto s = std::make_shared<ReserveSettings>();  // shared by the options and the actions
  return {{"create",
           "Reserve GPUs for a user",
           "gpuman reserve create --user ada --gpus 2 --start 14:00 --duration 2h",
           {},
           CreateOptions(*s),
           [s](CommandContext& session, const auto&) { return CreateReservation(session, *s); }},
          {"list",
           "List reservations",
           "gpuman reserve list",
           {},
           {{"-a,--all", "", "Also reservations that have ended; cancelled ones are not kept",
             take::Flag(s->all)},
            {"--active", "", "Only reservations that are active now", take::Flag(s->active)},
            {"--user", "NAME", "Only reservations of this user", take::Text(s->user)},
            {"--status", "pending|active|ended|cancelled",
             "Only reservations in this state; cancelled ones are not kept, so none is shown",
             take::Text(s->status)},
            {"--timeline", "", "", take::Nothing()},
            {"--range", "TIME", "", take::Nothing()},
            {"--from,--to", "TIME", "", take::Nothing()}},
           [s](CommandContext& session, const auto&) { return ListReservations(session, *s, std::nullopt); }},
          {"get",
           "Show one reservation",
           "gpuman reserve get 3",
           {UsualArgument("ID")},
           {},
           [s](CommandContext& session, const auto& line) {
             return ListReservations(session, *s, line.words.front());
           }},
          {"cancel",
           "Cancel a reservation; gpuman does not keep it",
           "gpuman reserve cancel 3",
           {UsualArgument("ID", kAnyNumber)},
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
      {{"--running-jobs,--max-running-jobs", "N", "Jobs that run at once, or none for no limit",
        Limit(u, "running_jobs", integer)},
       {"-g,--gpus,--max-running-gpus", "N", "GPUs in use at once", Limit(u, "gpus", integer)},
       {"--queued-jobs,--max-queued-jobs", "N", "Jobs that wait at once", Limit(u, "queued_jobs", integer)},
       {"--gpu-hours", "HOURS", "GPU time in hours", Limit(u, "gpu_hours", ParseHours)},
       {"--shares", "N", "Not a limit: weight in the fair share; others have 1",
        Limit(u, "shares", ParseShares)}});
  return {{"set",
           "Limit what a user or a project may use",
           "gpuman quota set --user ada --gpus 4 --gpu-hours 500",
           {},
           std::move(set),
           [s](CommandContext& session, const auto&) { return SetQuota(session, *s); }},
          {"list", "List the limits, and how much of them is used", "gpuman quota list", {}, {}, ListQuotas},
          {"remove",
           "Remove all limits of a user or a project",
           "gpuman quota remove --user ada",
           {},
           SubjectOptions(*s),
           [s](CommandContext& session, const auto&) { return RemoveQuota(session, *s); }}};
}

}  // namespace gpuman::cli::queue
