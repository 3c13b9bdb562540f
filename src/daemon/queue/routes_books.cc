// What administrators tell the queue: reservations, quotas, processes to ignore; and what it all came to.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "api/queue_json.h"
#include "daemon/queue/requests.h"
#include "daemon/queue/stats.h"
#include "queue/admission.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using http::ExchangePtr;
using http::PathParameters;

Result<std::int64_t> NumberOf(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no number", text));
}

// A change of the books that answers with a value: `decide` makes both, of the books as they are when its
// turn comes; the answer comes once it is on the disk.
template <typename T>
struct Decision {
  T answer;
  BookWriter::Change change;
};
template <typename T, typename Decide>
void Do(QueueModule& queue, const ExchangePtr& exchange, Decide decide, unsigned status = 200) {
  const auto answer = std::make_shared<std::optional<T>>();
  queue.writer().Do(
      [answer, decide = std::move(decide)](const QueueBooks& books) -> Result<BookWriter::Change> {
        Result<Decision<T>> decided = decide(books);
        if (!decided) return Fail(std::move(decided.error()));
        *answer = std::move(decided->answer);
        return std::move(decided->change);
      },
      [exchange, answer, status](const Result<>& stored) {
        if (!stored) return SendError(exchange, stored.error());
        SendJson(exchange, api::Encode(**answer), status);
      });
}

// --- Reservations ---

api::Reservation WithState(api::Reservation reservation, base::WallTime now) {
  reservation.state = now < reservation.start ? "pending" : now < reservation.end ? "active" : "ended";
  return reservation;
}

void ListReservations(QueueModule& queue, const ExchangePtr& exchange) {
  const bool all = FlagParameter(exchange->request(), "all");
  api::ReservationList list;
  for (const auto& [id, kept] : queue.books().reservations)
    if (auto one = WithState(kept, queue.core().clock().Wall()); all || one.state != "ended")
      list.reservations.push_back(one);
  SendJson(exchange, api::Encode(list));
}

Result<api::Reservation> ReservationFrom(QueueModule& queue, const QueueBooks& books,
                                         const api::ReservationRequest& asked, std::string by) {
  api::Reservation kept;
  kept.id = books.last_number + 1;
  kept.user = asked.user;
  kept.start = asked.start;
  kept.end = asked.start + asked.duration;
  kept.created_by = std::move(by);
  if (kept.end <= queue.core().clock().Wall())
    return Fail(ErrorCode::kInvalidArgument, "start: the reservation would be over already");
  const auto& snapshot = queue.dispatcher().book().snapshot();
  if (asked.devices.empty()) {
    GPUMAN_ASSIGN(const auto set, queue::PickReserved(snapshot, asked.count, kept.start, kept.end,
                                                      queue.core().clock().Wall()));
    for (std::size_t i = 0; i < snapshot.gpus.size(); ++i)
      if (set.test(i)) kept.devices.push_back(snapshot.gpus[i].uuid);
  } else {
    GPUMAN_ASSIGN(const auto gpus, gpu::SelectAll(queue.core().inventory().gpus, asked.devices));
    for (const auto& gpu : gpus) kept.devices.push_back(gpu.uuid);
    for (const auto& [id, other] : books.reservations)
      if (kept.start < other.end && other.start < kept.end &&
          std::find_first_of(kept.devices.begin(), kept.devices.end(), other.devices.begin(),
                             other.devices.end()) != kept.devices.end())
        return Fail(ErrorCode::kConflict,
                    fmt::format("reservation {} has one of these GPUs at that time", id));
  }
  kept.count = static_cast<int>(kept.devices.size());
  return WithState(kept, queue.core().clock().Wall());
}

void CreateReservation(QueueModule& queue, const ExchangePtr& exchange) {
  const auto& request = exchange->request();
  if (auto may = queue.core().Check(request.peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  const auto asked = api::Decode<api::ReservationRequest>(request.body);
  if (!asked) return SendError(exchange, asked.error());
  Do<api::Reservation>(
      queue, exchange,
      [&queue, asked = *asked,
       by = UserName(request.peer.uid)](const QueueBooks& books) -> Result<Decision<api::Reservation>> {
        GPUMAN_ASSIGN(const auto kept, ReservationFrom(queue, books, asked, by));
        return Decision<api::Reservation>{kept, {{Entry(kept)}, [kept](QueueBooks& changed) {
                                                   changed.last_number = kept.id;
                                                   changed.reservations[kept.id] = kept;
                                                 }}};
      },
      201);
}

void CancelReservation(QueueModule& queue, const ExchangePtr& exchange, const std::string& ref) {
  if (auto may = queue.core().Check(exchange->request().peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  const auto id = NumberOf(ref);
  if (!id) return SendError(exchange, id.error());
  Do<api::Reservation>(
      queue, exchange, [id = *id](const QueueBooks& books) -> Result<Decision<api::Reservation>> {
        const auto it = books.reservations.find(id);
        if (it == books.reservations.end())
          return Fail(ErrorCode::kNotFound, fmt::format("there is no reservation {}", id),
                      "`gpuman reserve list` lists them");
        auto gone = it->second;
        gone.state = "cancelled";
        return Decision<api::Reservation>{std::move(gone),
                                          {{{KeyOfReservation(id), std::nullopt}},
                                           [id](QueueBooks& changed) { changed.reservations.erase(id); }}};
      });
}

// --- Quotas ---

api::Quota QuotaView(QueueModule& queue, const QuotaKey& key, const api::QuotaLimits& limits) {
  api::Quota view{key.subject, key.name, limits, {}};
  if (key.name == "*") return view;
  const bool project = key.subject == "project";
  int running = 0, queued = 0, gpus = 0;
  const auto mine = [&](const jobs::Job& job) {
    return project ? job.queue_spec->project == key.name : job.owner->user == key.name;
  };
  for (const auto* const job : queue.core().jobs().Active()) {
    if (!job->queued || !mine(*job)) continue;
    ++running;
    gpus += static_cast<int>(job->gpus.size());
  }
  auto& book = queue.dispatcher().book();
  const auto kind = project ? queue::AccountKind::kProject : queue::AccountKind::kUser;
  queued = book.Queued(kind, key.name);
  const auto& accounts = project ? book.snapshot().projects : book.snapshot().users;
  // One who has none gets none by being asked for: names cost nothing.
  const auto row = std::find_if(accounts.begin(), accounts.end(),
                                [&](const queue::Account& account) { return account.name == key.name; });
  const double seconds = row == accounts.end() ? 0 : row->window_gpu_seconds;
  view.used = {running, gpus, queued, seconds / 3600, std::nullopt};
  return view;
}

Result<QuotaKey> KeyFrom(const PathParameters& parameters) {
  QuotaKey key{parameters.at("subject"), parameters.at("name")};
  if (key.subject != "user" && key.subject != "project")
    return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is neither user nor project", key.subject));
  return key;
}

void ListQuotas(QueueModule& queue, const ExchangePtr& exchange) {
  api::QuotaList list;
  for (const auto& [key, limits] : queue.books().quotas) list.quotas.push_back(QuotaView(queue, key, limits));
  SendJson(exchange, api::Encode(list));
}

void ShowQuota(QueueModule& queue, const ExchangePtr& exchange, const PathParameters& parameters) {
  if (auto may = queue.core().Check(exchange->request().peer, Act::kSee); !may)
    return SendError(exchange, may.error());
  const auto key = KeyFrom(parameters);
  if (!key) return SendError(exchange, key.error());
  const auto& quotas = queue.books().quotas;
  const auto it = quotas.find(*key);
  SendJson(exchange,
           api::Encode(QuotaView(queue, *key, it == quotas.end() ? api::QuotaLimits{} : it->second)));
}

template <typename T>
void Change(std::optional<T>& limit, const std::optional<T>& to, bool clear) {
  if (to || clear) limit = to;
}

api::QuotaLimits ChangedLimits(api::QuotaLimits limits, const api::QuotaUpdate& update) {
  Change(limits.running_jobs, update.running_jobs, update.clear_running_jobs);
  Change(limits.gpus, update.gpus, update.clear_gpus);
  Change(limits.queued_jobs, update.queued_jobs, update.clear_queued_jobs);
  Change(limits.gpu_hours, update.gpu_hours, update.clear_gpu_hours);
  Change(limits.shares, update.shares, update.clear_shares);
  return limits;
}

void SetQuota(QueueModule& queue, const ExchangePtr& exchange, const PathParameters& parameters) {
  const auto& request = exchange->request();
  if (auto may = queue.core().Check(request.peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  const auto key = KeyFrom(parameters);
  if (!key) return SendError(exchange, key.error());
  const auto update = api::Decode<api::QuotaUpdate>(request.body);
  if (!update) return SendError(exchange, update.error());
  Do<api::Quota>(
      queue, exchange,
      [&queue, key = *key, update = *update](const QueueBooks& books) -> Result<Decision<api::Quota>> {
        const auto it = books.quotas.find(key);
        const auto limits = ChangedLimits(it == books.quotas.end() ? api::QuotaLimits{} : it->second, update);
        return Decision<api::Quota>{
            QuotaView(queue, key, limits),
            {{Entry(key, limits)}, [key, limits](QueueBooks& changed) { changed.quotas[key] = limits; }}};
      });
}

void RemoveQuota(QueueModule& queue, const ExchangePtr& exchange, const PathParameters& parameters) {
  if (auto may = queue.core().Check(exchange->request().peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  const auto key = KeyFrom(parameters);
  if (!key) return SendError(exchange, key.error());
  Do<api::Quota>(
      queue, exchange, [&queue, key = *key](const QueueBooks& books) -> Result<Decision<api::Quota>> {
        const auto it = books.quotas.find(key);
        if (it == books.quotas.end())
          return Fail(ErrorCode::kNotFound, fmt::format("the {} {} has no limits", key.subject, key.name),
                      "`gpuman quota list` lists them");
        return Decision<api::Quota>{
            QuotaView(queue, key, it->second),
            {{{KeyOf(key), std::nullopt}}, [key](QueueBooks& changed) { changed.quotas.erase(key); }}};
      });
}

// --- Processes to ignore ---

api::IgnoredProcess RuleView(const IgnoreRule& rule) {
  api::IgnoredProcess view;
  view.id = rule.id;
  if (rule.process) view.pid = rule.process->pid;
  view.user = rule.user;
  view.name = rule.name;
  view.gpu = rule.gpu;
  return view;
}

void ListIgnored(QueueModule& queue, const ExchangePtr& exchange) {
  api::IgnoredProcessList list;
  for (const auto& rule : queue.dispatcher().state().ignored)
    if (!rule.process || base::IsAlive(*rule.process)) list.ignored.push_back(RuleView(rule));
  SendJson(exchange, api::Encode(list));
}

void Ignore(QueueModule& queue, const ExchangePtr& exchange) {
  const auto& request = exchange->request();
  if (auto may = queue.core().Check(request.peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  const auto asked = api::Decode<api::IgnoredProcess>(request.body);
  if (!asked) return SendError(exchange, asked.error());
  IgnoreRule rule;
  rule.user = asked->user;
  rule.name = asked->name;
  if (asked->pid) {
    rule.process = base::IdentityOf(*asked->pid);
    if (!rule.process)
      return SendError(exchange,
                       {ErrorCode::kNotFound, fmt::format("there is no process {}", *asked->pid), {}});
  }
  if (asked->gpu) {
    const auto gpu = gpu::Select(queue.core().inventory().gpus, *asked->gpu);
    if (!gpu) return SendError(exchange, gpu.error());
    rule.gpu = gpu->uuid;
  }
  Do<api::IgnoredProcess>(
      queue, exchange,
      [rule](const QueueBooks& books) -> Result<Decision<api::IgnoredProcess>> {
        auto numbered = rule;
        numbered.id = books.last_number + 1;
        return Decision<api::IgnoredProcess>{RuleView(numbered),
                                             {{Entry(numbered)}, [numbered](QueueBooks& changed) {
                                                changed.last_number = numbered.id;
                                                changed.state.ignored.push_back(numbered);
                                              }}};
      },
      201);
}

void StopIgnoring(QueueModule& queue, const ExchangePtr& exchange, const std::string& ref) {
  if (auto may = queue.core().Check(exchange->request().peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  const auto id = NumberOf(ref);
  if (!id) return SendError(exchange, id.error());
  Do<api::IgnoredProcess>(
      queue, exchange, [id = *id](const QueueBooks& books) -> Result<Decision<api::IgnoredProcess>> {
        const auto& rules = books.state.ignored;
        const auto it =
            std::find_if(rules.begin(), rules.end(), [&](const auto& rule) { return rule.id == id; });
        if (it == rules.end())
          return Fail(ErrorCode::kNotFound, fmt::format("there is no rule {}", id),
                      "`gpuman gpu ignore-process` lists them");
        return Decision<api::IgnoredProcess>{
            RuleView(*it), {{{KeyOf(*it), std::nullopt}}, [id](QueueBooks& changed) {
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

void ShowStats(QueueModule& queue, const ExchangePtr& exchange) {
  const auto& request = exchange->request();
  const auto by = ParseStatsBy(request.Query("by").value_or("user"));
  const auto since = TimeParameter(request, "since", base::WallTime{});
  const auto until = TimeParameter(request, "until", base::WallTime(base::Millis(INT64_MAX / 2)));
  if (!by) return SendError(exchange, by.error());
  if (!since) return SendError(exchange, since.error());
  if (!until) return SendError(exchange, until.error());
  const auto gone = std::make_shared<bool>(false);
  exchange->OnGone([gone] { *gone = true; });
  queue.AddUp(*by, *since, *until, request.peer.uid, gone,
              [&queue, exchange](const Result<api::StatsView>& view) {
                if (!view) return SendError(exchange, view.error());
                // Anybody may have had a project for each of many runs.
                const auto text = std::make_shared<std::string>();
                queue.core().Aside(exchange->request().peer.uid,
                                   {[text, view = *view] { *text = api::Encode(view); },
                                    [exchange, text] { SendJson(exchange, std::move(*text)); }});
              });
}

}  // namespace

void QueueModule::AddBookRoutes(http::Router& router) {
  const auto seen = [this](void (*show)(QueueModule&, const ExchangePtr&)) {
    return WhenReady(core_, Act::kSee, [this, show](const ExchangePtr& exchange) { show(*this, exchange); });
  };
  const auto on = [this](auto act, const char* name) {
    return [this, act, name](const ExchangePtr& exchange, const PathParameters& parameters) {
      act(*this, exchange, parameters.at(name));
    };
  };
  const auto with = [this](void (*act)(QueueModule&, const ExchangePtr&, const PathParameters&)) {
    return [this, act](const ExchangePtr& exchange, const PathParameters& parameters) {
      act(*this, exchange, parameters);
    };
  };
  router.Add("GET", "/v1/reservations", seen(ListReservations));
  router.Add("POST", "/v1/reservations", seen(CreateReservation));
  router.Add("DELETE", "/v1/reservations/{ref}", on(CancelReservation, "ref"));
  router.Add("GET", "/v1/quotas", seen(ListQuotas));
  router.Add("GET", "/v1/quotas/{subject}/{name}", with(ShowQuota));
  router.Add("PUT", "/v1/quotas/{subject}/{name}", with(SetQuota));
  router.Add("DELETE", "/v1/quotas/{subject}/{name}", with(RemoveQuota));
  router.Add("GET", "/v1/ignored-processes", seen(ListIgnored));
  router.Add("POST", "/v1/ignored-processes", seen(Ignore));
  router.Add("DELETE", "/v1/ignored-processes/{ref}", on(StopIgnoring, "ref"));
  router.Add("GET", "/v1/stats", seen(ShowStats));
}

}  // namespace gpuman::daemon
