// Routes of the administrators' settings of the queue (reservations, quotas, processes to ignore) and of
// statistics.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "api/queue_json.h"
#include "base/parse_number.h"
#include "daemon/queue/requests.h"
#include "daemon/queue/stats.h"
#include "queue/admission.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

Result<std::int64_t> NumberOf(const std::string& text) {
  if (const auto number = base::ParseNumber<std::int64_t>(text)) return *number;
  return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no number", text));
}

// A change of the settings that answers with a value. `decide` makes the change and the value from the
// settings as they are when its turn comes. The answer is sent once the change is on the disk.
template <typename T>
struct Decision {
  T answer;
  QueueAdminSettingsWriter::Change change;
};
template <typename Body, typename T, typename Decide>
base::Result<> Do(QueueModule& queue, const Call<Body, T>& call, Decide decide) {
  const auto answer = std::make_shared<std::optional<T>>();
  queue.writer().Do(
      [answer, decide = std::move(decide)](
          const QueueAdminSettings& admin) -> Result<QueueAdminSettingsWriter::Change> {
        Result<Decision<T>> decided = decide(admin);
        if (!decided) return Fail(std::move(decided.error()));
        *answer = std::move(decided->answer);
        return std::move(decided->change);
      },
      call.After([answer] { return **answer; }));
  return {};
}

// --- Reservations ---

api::Reservation WithState(api::Reservation reservation, base::WallTime now) {
  reservation.state = now < reservation.start ? "pending" : now < reservation.end ? "active" : "ended";
  return reservation;
}

api::ReservationList ListReservations(QueueModule& queue,
                                      const Call<api::NoBody, api::ReservationList>& call) {
  const bool all = FlagParameter(call.request(), "all");
  api::ReservationList list;
  for (const auto& [id, kept] : queue.admin_settings().reservations)
    if (auto one = WithState(kept, queue.core().clock().Wall()); all || one.state != "ended")
      list.reservations.push_back(one);
  return list;
}

Result<api::Reservation> ReservationFrom(QueueModule& queue, const QueueAdminSettings& admin,
                                         const api::ReservationRequest& asked, std::string by) {
  api::Reservation kept;
  kept.id = admin.last_number + 1;
  kept.user = asked.user;
  kept.start = asked.start;
  kept.end = asked.start + asked.duration;
  kept.created_by = std::move(by);
  if (kept.end <= queue.core().clock().Wall())
    return Fail(ErrorCode::kInvalidArgument, "start: the reservation would be over already");
  const auto& snapshot = queue.dispatcher().updater().snapshot();
  if (asked.devices.empty()) {
    GPUMAN_ASSIGN(const auto set, queue::PickReserved(snapshot, asked.count, kept.start, kept.end,
                                                      queue.core().clock().Wall()));
    for (std::size_t i = 0; i < snapshot.gpus.size(); ++i)
      if (set.test(i)) kept.devices.push_back(snapshot.gpus[i].uuid);
  } else {
    GPUMAN_ASSIGN(const auto gpus, gpu::SelectAll(queue.core().inventory().gpus, asked.devices));
    for (const auto& gpu : gpus) kept.devices.push_back(gpu.uuid);
    for (const auto& [id, other] : admin.reservations)
      if (kept.start < other.end && other.start < kept.end &&
          std::find_first_of(kept.devices.begin(), kept.devices.end(), other.devices.begin(),
                             other.devices.end()) != kept.devices.end())
        return Fail(ErrorCode::kConflict,
                    fmt::format("reservation {} has one of these GPUs at that time", id));
  }
  kept.count = static_cast<int>(kept.devices.size());
  return WithState(kept, queue.core().clock().Wall());
}

Result<> CreateReservation(QueueModule& queue, const Call<api::ReservationRequest, api::Reservation>& call) {
  return Do(queue, call,
            [&queue, asked = call.body(), by = UserName(call.peer().uid)](
                const QueueAdminSettings& admin) -> Result<Decision<api::Reservation>> {
              GPUMAN_ASSIGN(const auto kept, ReservationFrom(queue, admin, asked, by));
              return Decision<api::Reservation>{kept, {{Entry(kept)}, [kept](QueueAdminSettings& changed) {
                                                         changed.last_number = kept.id;
                                                         changed.reservations[kept.id] = kept;
                                                       }}};
            });
}

Result<> CancelReservation(QueueModule& queue, const Call<api::NoBody, api::Reservation>& call) {
  GPUMAN_ASSIGN(const auto id, NumberOf(call.Parameter("ref")));
  return Do(queue, call, [id](const QueueAdminSettings& admin) -> Result<Decision<api::Reservation>> {
    const auto it = admin.reservations.find(id);
    if (it == admin.reservations.end())
      return Fail(ErrorCode::kNotFound, fmt::format("there is no reservation {}", id),
                  "`gpuman reserve list` lists them");
    auto gone = it->second;
    gone.state = "cancelled";
    return Decision<api::Reservation>{
        std::move(gone), {{{KeyOfReservation(id), std::nullopt}}, [id](QueueAdminSettings& changed) {
                            changed.reservations.erase(id);
                          }}};
  });
}

// --- Quotas ---

api::Quota QuotaView(QueueModule& queue, const QuotaKey& key, const api::QuotaLimits& limits) {
  api::Quota view{key.subject, key.name, limits, {}};
  if (key.name == "*") return view;
  const bool project = key.subject == "project";
  int running = 0, queued = 0, gpus = 0;
  const auto mine = [&](const jobs::Job& job) {
    return project ? job.spec->project.value_or("") == key.name : job.owner->user == key.name;
  };
  for (const auto* const job : queue.core().jobs().Active()) {
    if (!job->queued || !mine(*job)) continue;
    ++running;
    gpus += static_cast<int>(job->gpus.size());
  }
  auto& updater = queue.dispatcher().updater();
  const auto kind = project ? queue::AccountKind::kProject : queue::AccountKind::kUser;
  queued = updater.Queued(kind, key.name);
  const auto& accounts = project ? updater.snapshot().projects : updater.snapshot().users;
  // A question must not create an account for an unknown name: else users could create any number of them.
  const auto row = std::find_if(accounts.begin(), accounts.end(),
                                [&](const queue::QueueAccount& account) { return account.name == key.name; });
  const double seconds = row == accounts.end() ? 0 : row->window_gpu_seconds;
  view.used = {running, gpus, queued, seconds / 3600, std::nullopt};
  return view;
}

template <typename Body>
Result<QuotaKey> KeyFrom(const Call<Body, api::Quota>& call) {
  QuotaKey key{call.Parameter("subject"), call.Parameter("name")};
  if (key.subject != "user" && key.subject != "project")
    return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is neither user nor project", key.subject));
  return key;
}

api::QuotaList ListQuotas(QueueModule& queue) {
  api::QuotaList list;
  for (const auto& [key, limits] : queue.admin_settings().quotas)
    list.quotas.push_back(QuotaView(queue, key, limits));
  return list;
}

Result<api::Quota> ShowQuota(QueueModule& queue, const Call<api::NoBody, api::Quota>& call) {
  GPUMAN_ASSIGN(const auto key, KeyFrom(call));
  const auto& quotas = queue.admin_settings().quotas;
  const auto it = quotas.find(key);
  return QuotaView(queue, key, it == quotas.end() ? api::QuotaLimits{} : it->second);
}

Result<> SetQuota(QueueModule& queue, const Call<api::QuotaUpdate, api::Quota>& call) {
  GPUMAN_ASSIGN(const auto key, KeyFrom(call));
  return Do(
      queue, call,
      [&queue, key, update = call.body()](const QueueAdminSettings& admin) -> Result<Decision<api::Quota>> {
        const auto it = admin.quotas.find(key);
        auto limits = it == admin.quotas.end() ? api::QuotaLimits{} : it->second;
        GPUMAN_TRY(api::SetLimits(update, limits));
        return Decision<api::Quota>{QuotaView(queue, key, limits),
                                    {{Entry(key, limits)}, [key, limits](QueueAdminSettings& changed) {
                                       changed.quotas[key] = limits;
                                     }}};
      });
}

Result<> RemoveQuota(QueueModule& queue, const Call<api::NoBody, api::Quota>& call) {
  GPUMAN_ASSIGN(const auto key, KeyFrom(call));
  return Do(queue, call, [&queue, key](const QueueAdminSettings& admin) -> Result<Decision<api::Quota>> {
    const auto it = admin.quotas.find(key);
    if (it == admin.quotas.end())
      return Fail(ErrorCode::kNotFound, fmt::format("the {} {} has no limits", key.subject, key.name),
                  "`gpuman quota list` lists them");
    return Decision<api::Quota>{
        QuotaView(queue, key, it->second),
        {{{KeyOf(key), std::nullopt}}, [key](QueueAdminSettings& changed) { changed.quotas.erase(key); }}};
  });
}

// --- Processes to ignore ---

api::IgnoreRuleView RuleView(const IgnoreRule& rule) {
  api::IgnoreRuleView view;
  view.id = rule.id;
  if (rule.process) view.pid = rule.process->pid;
  view.user = rule.user;
  view.name = rule.name;
  view.gpu = rule.gpu;
  return view;
}

api::IgnoreRuleList ListIgnored(QueueModule& queue) {
  api::IgnoreRuleList list;
  for (const auto& rule : queue.dispatcher().state().ignored)
    if (!rule.process || base::IsAlive(*rule.process)) list.ignored.push_back(RuleView(rule));
  return list;
}

Result<> Ignore(QueueModule& queue, const Call<api::IgnoreRuleView, api::IgnoreRuleView>& call) {
  const api::IgnoreRuleView& asked = call.body();
  IgnoreRule rule;
  rule.user = asked.user;
  rule.name = asked.name;
  if (asked.pid) {
    rule.process = base::IdentityOf(*asked.pid);
    if (!rule.process) return Fail(ErrorCode::kNotFound, fmt::format("there is no process {}", *asked.pid));
  }
  if (asked.gpu) {
    GPUMAN_ASSIGN(const auto gpu, gpu::Select(queue.core().inventory().gpus, *asked.gpu));
    rule.gpu = gpu.uuid;
  }
  return Do(queue, call, [rule](const QueueAdminSettings& admin) -> Result<Decision<api::IgnoreRuleView>> {
    auto numbered = rule;
    numbered.id = admin.last_number + 1;
    return Decision<api::IgnoreRuleView>{RuleView(numbered),
                                         {{Entry(numbered)}, [numbered](QueueAdminSettings& changed) {
                                            changed.last_number = numbered.id;
                                            changed.state.ignored.push_back(numbered);
                                          }}};
  });
}

Result<> StopIgnoring(QueueModule& queue, const Call<api::NoBody, api::IgnoreRuleView>& call) {
  GPUMAN_ASSIGN(const auto id, NumberOf(call.Parameter("ref")));
  return Do(queue, call, [id](const QueueAdminSettings& admin) -> Result<Decision<api::IgnoreRuleView>> {
    const auto& rules = admin.state.ignored;
    const auto it = std::find_if(rules.begin(), rules.end(), [&](const auto& rule) { return rule.id == id; });
    if (it == rules.end())
      return Fail(ErrorCode::kNotFound, fmt::format("there is no rule {}", id),
                  "`gpuman gpu ignore-process` lists them");
    return Decision<api::IgnoreRuleView>{RuleView(*it),
                                         {{{KeyOf(*it), std::nullopt}}, [id](QueueAdminSettings& changed) {
                                            std::erase_if(changed.state.ignored,
                                                          [&](const auto& rule) { return rule.id == id; });
                                          }}};
  });
}

// --- Statistics ---

Result<base::WallTime> TimeParameter(const http::Request& request, std::string_view name,
                                     base::WallTime otherwise) {
  const auto text = request.Query(name);
  if (!text) return otherwise;
  auto time = base::ParseIso8601(*text);
  if (!time) return Fail(std::move(time.error()).In(name));
  return time;
}

Result<> ShowStats(QueueModule& queue, const Call<api::NoBody, api::StatsView>& call) {
  const auto& request = call.request();
  GPUMAN_ASSIGN(const auto by, ParseStatsBy(request.Query("by").value_or("user")));
  const auto user = request.Query("user");
  GPUMAN_ASSIGN(const auto since, TimeParameter(request, "since", base::WallTime{}));
  GPUMAN_ASSIGN(const auto until,
                TimeParameter(request, "until", base::WallTime(base::Millis(INT64_MAX / 2))));
  const auto gone = std::make_shared<bool>(false);
  call.exchange()->OnGone([gone] { *gone = true; });
  // The answer may be long: a user may name a new project for each run.
  queue.AddUp(Stats(by, user ? std::optional<std::string>(*user) : std::nullopt, queue.core().config().cost),
              since, until, request.party, gone,
              call.After([&queue, call](const api::StatsView& view) { call.SendAside(queue.core(), view); }));
  return {};
}

}  // namespace

void QueueModule::AddAdminSettingsRoutes(http::Router& router) {
  const auto serve = RouteRegistrar(*this, router);
  serve(api::routes::kReservations, ListReservations);
  serve(api::routes::kReserve, CreateReservation);
  serve(api::routes::kCancelReservation, CancelReservation);
  serve(api::routes::kQuotas, ListQuotas);
  serve(api::routes::kQuota, ShowQuota);
  serve(api::routes::kSetQuota, SetQuota);
  serve(api::routes::kRemoveQuota, RemoveQuota);
  serve(api::routes::kIgnoredProcesses, ListIgnored);
  serve(api::routes::kIgnoreProcess, Ignore);
  serve(api::routes::kStopIgnoring, StopIgnoring);
  serve(api::routes::kStats, ShowStats);
}

}  // namespace gpuman::daemon
