// The queue as people see it, and what they do to jobs that wait.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "api/queue_json.h"
#include "api/queue_rows.h"
#include "daemon/job_request.h"
#include "daemon/queue/update.h"
#include "daemon/queue/views.h"
#include "daemon/routes/routes.h"

namespace gpuman::daemon {
namespace {

using http::ExchangePtr;
using http::PathParameters;

std::string UserOf(const ExchangePtr& exchange) { return UserName(exchange->request().peer.uid); }

// --- The queue ---

struct Filter {
  std::set<std::string> states, users, projects, names;
  std::set<base::JobId> jobs;
  bool named = false;  // jobs are
  std::size_t limit = SIZE_MAX;
  base::JobId after;

  bool Takes(const jobs::Job& job, api::JobState state) const {
    if (job.id <= after) return false;
    if (named && !jobs.contains(job.id)) return false;
    if (states.empty() ? api::IsEnded(state) && !named
                       : !states.contains("all") && !states.contains(std::string(api::ToString(state))))
      return false;
    if (!users.empty() && !users.contains(job.owner->user)) return false;
    if (!projects.empty() && !projects.contains(job.terms->project)) return false;
    return names.empty() || names.contains(job.tag);
  }
};

std::set<std::string> WordsOf(const http::Request& request, std::string_view name) {
  std::set<std::string> words;
  std::istringstream text{std::string(request.Query(name).value_or(""))};
  for (std::string word; std::getline(text, word, ',');)
    if (!word.empty()) words.insert(word);
  return words;
}

base::Result<Filter> FilterOf(Service& service, const http::Request& request) {
  Filter filter;
  filter.states = WordsOf(request, "states");
  filter.users = WordsOf(request, "users");
  filter.projects = WordsOf(request, "projects");
  filter.names = WordsOf(request, "names");
  for (const auto& word : filter.states)
    if (word != "all" && !api::JobStateFromString(word))
      return base::Fail(base::ErrorCode::kInvalidArgument, fmt::format("states: '{}' is no state", word));
  for (const auto& word : WordsOf(request, "jobs")) {
    GPUMAN_ASSIGN(const auto ids, service.queue().JobsOf(word, request.peer.uid));
    filter.jobs.insert(ids.begin(), ids.end());
    filter.named = true;
  }
  GPUMAN_ASSIGN(const auto limit, NumberParameter(request, "limit", 0));
  GPUMAN_ASSIGN(const auto after, NumberParameter(request, "after", 0));
  if (limit > 0) filter.limit = limit;
  filter.after = {static_cast<std::int64_t>(after)};
  return filter;
}

// A job, and its row among those that wait.
struct Shown {
  const jobs::Job* job = nullptr;
  queue::Index row = queue::kNone;
};

// What runs, then what waits in the order in which it starts, then the rest of what waits, then what ended.
std::vector<Shown> Select(Service& service, const Dispatcher::View& look, const Filter& filter) {
  std::vector<Shown> shown;
  const auto add = [&](const jobs::Job* job, queue::Index row) {
    if (job && shown.size() < filter.limit && filter.Takes(*job, service.StateOf(*job)))
      shown.push_back({job, row});
  };
  for (const auto* const job : service.jobs().Active()) add(job, queue::kNone);
  std::vector<bool> in_order(look.snapshot.waiting.size());
  for (const auto row : look.plan.order) {
    if (row >= in_order.size()) continue;
    in_order[row] = true;
    add(service.jobs().Find(look.snapshot.waiting[row].id), row);
  }
  std::vector<std::pair<base::JobId, queue::Index>> rest;
  for (queue::Index row = 0; row < look.snapshot.waiting.size(); ++row)
    if (!in_order[row]) rest.emplace_back(look.snapshot.waiting[row].id, row);
  std::sort(rest.begin(), rest.end());
  for (const auto& [id, row] : rest) add(service.jobs().Find(id), row);
  if (filter.states.empty() && !filter.named) return shown;
  for (const auto* const job : service.jobs().All())
    if (jobs::IsEnded(*job)) add(job, queue::kNone);
  return shown;
}

void ShowQueue(Service& service, const ExchangePtr& exchange) {
  const auto filter = FilterOf(service, exchange->request());
  if (!filter) return SendError(exchange, filter.error());
  const auto look = service.queue().Look();
  const queue::Explainer explainer(look.snapshot, look.plan, look.now, look.dependents);
  api::JobList list;
  for (const auto& [job, row] : Select(service, look, *filter)) {
    auto view = service.View(*job);
    if (job->queued) view.queue = QueueFieldsOf(*job, service.queue().RequestFor(*job));
    ShowWaiting(look, explainer, row, view);
    list.jobs.push_back(std::move(view));
  }
  SendJson(exchange, api::Encode(list));
}

std::string IndicesOf(const std::vector<std::string>& uuids, const gpu::Inventory& inventory) {
  std::string text;
  for (const auto& gpu : inventory.gpus)
    if (std::find(uuids.begin(), uuids.end(), gpu.uuid) != uuids.end())
      text += (text.empty() ? "" : ",") + gpu::NumberOf(gpu);
  return text;
}

void ShowRows(Service& service, const ExchangePtr& exchange) {
  const auto filter = FilterOf(service, exchange->request());
  if (!filter) return SendError(exchange, filter.error());
  const auto look = service.queue().Look();
  std::string text = api::QueueRowTitles();
  for (const auto& [job, place] : Select(service, look, *filter)) {
    const auto& request = service.queue().RequestFor(*job);
    api::QueueRow row;
    row.id = job->id.value;
    if (job->array.array.value != 0) {
      row.array_id = job->array.array.value;
      row.array_task = static_cast<int>(job->array.task);
    }
    row.tag = job->tag;
    row.user = job->owner->user;
    row.project = job->terms->project;
    row.state = service.StateOf(*job);
    row.reason = job->reason.value_or("");
    row.priority = job->priority;
    row.gpus_asked = request.gpus.count;
    row.gpus = IndicesOf(job->gpus, service.inventory());
    row.memory = request.memory;
    row.host_memory = request.host_memory;
    row.time_limit = request.time_limit;
    row.submitted_at = job->submitted_at;
    row.started_at = job->started_at;
    row.ended_at = job->ended_at;
    if (place != queue::kNone) {
      const auto reason = look.plan.verdicts[place].reason;
      if (reason != queue::Reason::kHeld) row.reason = ToString(reason);
      if (look.starts[place] != queue::kNever) row.estimated_start = look.starts[place];
      row.estimate_presumed = look.presumed[place];
    }
    api::AppendQueueRow(text, row);
  }
  exchange->Send({200, std::move(text), "text/tab-separated-values"});
}

// --- Jobs ---

// One change of one or of all tasks of an array. Answers with the first when all are done; where none could
// be changed, with why.
using ChangeJob = std::function<void(base::JobId, std::function<void(base::Result<>)>)>;
void ChangeAll(Service& service, const ExchangePtr& exchange, const std::vector<base::JobId>& ids,
               const ChangeJob& change) {
  struct Progress {
    std::size_t left;
    std::size_t changed = 0;
    std::optional<base::Error> error{};
  };
  const auto progress = std::make_shared<Progress>(Progress{ids.size()});
  for (const auto id : ids)
    change(id, [&service, exchange, progress, first = ids.front()](const base::Result<>& done) {
      if (done) ++progress->changed;
      if (!done && !progress->error) progress->error = done.error();
      if (--progress->left > 0) return;
      if (progress->changed == 0) return SendError(exchange, *progress->error);
      const auto* const job = service.jobs().Find(first);
      if (!job) return SendError(exchange, {base::ErrorCode::kNotFound, "the job is gone", {}});
      SendJson(exchange, api::Encode(service.ViewWithQueue(*job)));
    });
}

jobs::Supervisor::Done<jobs::Job> WithoutJob(std::function<void(base::Result<>)> done) {
  return [done = std::move(done)](const base::Result<jobs::Job>& job) {
    if (job) return done({});
    done(base::Fail(job.error()));
  };
}

http::RouteHandler OnJobs(Service& service,
                          std::function<void(const ExchangePtr&, const std::vector<base::JobId>&)> act) {
  return [&service, act = std::move(act)](const ExchangePtr& exchange, const PathParameters& parameters) {
    const auto ids = JobsFor(service, exchange, parameters.at("ref"));
    if (!ids) return SendError(exchange, ids.error());
    act(exchange, *ids);
  };
}

// Done when it has ended.
void CancelOne(Service& service, base::JobId id, const std::string& user,
               const std::function<void(base::Result<>)>& done) {
  const keeper::Reason reason{std::string(jobs::kCancelledWord), "cancelled by " + user};
  service.jobs().Cancel(id, reason, [&service, id, done](const base::Result<jobs::Job>& job) {
    if (!job) return done(base::Fail(job.error()));
    const auto ended = [done](const jobs::Job&) { done({}); };
    (void)service.jobs().WaitForEnd(id, ended);
  });
}

// Each by itself: what cannot be cancelled does not keep the others.
void CancelMany(Service& service, const ExchangePtr& exchange) {
  const auto request = api::Decode<api::CancelRequest>(exchange->request().body);
  if (!request) return SendError(exchange, request.error());
  const auto answer = std::make_shared<api::CancelAnswer>();
  std::vector<std::pair<std::size_t, base::JobId>> to_cancel;
  for (const auto& name : request->jobs) {
    const auto ids = JobsFor(service, exchange, name);
    if (!ids) {
      answer->jobs.push_back(
          {name, 0, {}, ids.error().message, std::string(base::ToString(ids.error().code))});
      continue;
    }
    for (const auto id : *ids) {
      to_cancel.emplace_back(answer->jobs.size(), id);
      answer->jobs.push_back({name, id.value, {}, {}, {}});
    }
  }
  if (to_cancel.empty()) return SendJson(exchange, api::Encode(*answer));
  const auto left = std::make_shared<std::size_t>(to_cancel.size());
  const auto user = UserOf(exchange);
  for (const auto& [place, id] : to_cancel) {
    const keeper::Reason reason{std::string(jobs::kCancelledWord), "cancelled by " + user};
    service.jobs().Cancel(
        id, reason, [&service, exchange, answer, left, place = place](const base::Result<jobs::Job>& job) {
          auto& row = answer->jobs[place];
          if (job) {
            row.state = service.StateOf(*job);
          } else {
            row.error = job.error().message;
            row.error_code = base::ToString(job.error().code);
          }
          if (--*left == 0) SendJson(exchange, api::Encode(*answer));
        });
  }
}

void SetSettings(Service& service, const ExchangePtr& exchange) {
  const auto& request = exchange->request();
  if (auto may = service.Check(request.peer, Act::kManage); !may) return SendError(exchange, may.error());
  const auto update = api::Decode<api::QueueSettingsUpdate>(request.body);
  if (!update) return SendError(exchange, update.error());
  QueueState state = service.queue().state();
  if (update->choice) {
    const auto choice = queue::ParseChoice(*update->choice);
    if (!choice) return SendError(exchange, choice.error());
    state.choice = *choice;
  }
  state.paused = update->paused.value_or(state.paused);
  if (update->clear_allowed) state.allowed.reset();
  if (update->allowed) {
    const auto gpus = gpu::SelectAll(service.inventory().gpus, *update->allowed);
    if (!gpus) return SendError(exchange, gpus.error());
    state.allowed.emplace();
    for (const auto& gpu : *gpus) state.allowed->insert(gpu.uuid);
  }
  const auto drain = gpu::SelectAll(service.inventory().gpus, update->drain);
  const auto undrain = gpu::SelectAll(service.inventory().gpus, update->undrain);
  if (!drain || !undrain) return SendError(exchange, drain ? undrain.error() : drain.error());
  for (const auto& gpu : *drain) state.drained.insert(gpu.uuid);
  for (const auto& gpu : *undrain) state.drained.erase(gpu.uuid);
  service.ChangeBooks(
      Entry(state),
      [state](QueueBooks& books) {
        auto ignored = std::move(books.state.ignored);
        books.state = state;
        books.state.ignored = std::move(ignored);
      },
      [&service, exchange](const base::Result<>& stored) {
        if (!stored) return SendError(exchange, stored.error());
        SendJson(exchange, api::Encode(service.QueueInfo().settings));
      });
}

}  // namespace

void AddQueueRoutes(http::Router& router, Service& service) {
  const auto seen = [&service](void (*show)(Service&, const ExchangePtr&)) {
    return [&service, show](const ExchangePtr& exchange, const PathParameters&) {
      if (auto may = service.Check(exchange->request().peer, Act::kSee); !may)
        return SendError(exchange, may.error());
      service.WhenReady([&service, exchange, show] { show(service, exchange); });
    };
  };
  router.Add("GET", "/v1/queue", seen(ShowQueue));
  router.Add("GET", "/v1/queue/rows", seen(ShowRows));
  router.Add("GET", "/v1/queue/info", seen([](Service& of, const ExchangePtr& exchange) {
               SendJson(exchange, api::Encode(of.QueueInfo()));
             }));
  router.Add("PATCH", "/v1/queue/settings", [&service](const ExchangePtr& exchange, const PathParameters&) {
    service.WhenReady([&service, exchange] { SetSettings(service, exchange); });
  });
  router.Add(
      "POST", "/v1/jobs/{ref}/hold",
      OnJobs(service, [&service](const ExchangePtr& exchange, const auto& ids) {
        ChangeAll(service, exchange, ids, [&service, user = UserOf(exchange)](base::JobId id, auto done) {
          service.jobs().Hold(id, {"held_by_user", "held by " + user}, WithoutJob(std::move(done)));
        });
      }));
  router.Add("POST", "/v1/jobs/{ref}/release",
             OnJobs(service, [&service](const ExchangePtr& exchange, const auto& ids) {
               ChangeAll(service, exchange, ids, [&service](base::JobId id, auto done) {
                 service.jobs().Unhold(id, WithoutJob(std::move(done)));
               });
             }));
  router.Add("POST", "/v1/jobs/{ref}/cancel",
             OnJobs(service, [&service](const ExchangePtr& exchange, const auto& ids) {
               ChangeAll(service, exchange, ids,
                         [&service, user = UserOf(exchange)](base::JobId id, auto done) {
                           CancelOne(service, id, user, done);
                         });
             }));
  router.Add("POST", "/v1/cancellations", [&service](const ExchangePtr& exchange, const PathParameters&) {
    CancelMany(service, exchange);
  });
}

}  // namespace gpuman::daemon
