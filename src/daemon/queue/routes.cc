// What people do to the queue, and to jobs that wait.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "api/queue_json.h"
#include "daemon/queue/requests.h"

namespace gpuman::daemon {
namespace {

using http::ExchangePtr;
using http::PathParameters;

constexpr std::size_t kMaxAtOnce = 64;  // are done at once

// --- Jobs ---

// Calls `act` for each from 0 to `count`: at once for a few, else in slices; then `then`.
void ForEach(QueueModule& queue, uid_t user, std::size_t count, std::function<void(std::size_t)> act,
             std::function<void()> then) {
  const auto next = std::make_shared<std::size_t>(0);
  if (count <= kMaxAtOnce) {
    for (std::size_t i = 0; i < count; ++i) act(i);
    return then();
  }
  queue.core().slices().Add(
      user, [next, count, act = std::move(act), then = std::move(then)](const base::Turn& turn) {
        for (; *next < count; ++*next) {
          if (turn.IsOver()) return true;
          act(*next);
        }
        then();
        return false;
      });
}

// One change of one or of all tasks of an array. Answers with the first when all are done; where none could
// be changed, with why.
using ChangeJob = std::function<void(base::JobId, std::function<void(base::Result<>)>)>;
void ChangeAll(QueueModule& queue, const ExchangePtr& exchange, const std::vector<base::JobId>& ids,
               const ChangeJob& change) {
  struct Progress {
    std::size_t left;
    std::size_t changed = 0;
    std::optional<base::Error> error{};
    std::optional<jobs::Job>
        first{};  // as it was changed; of very many the oldest may be forgotten by the end
  };
  const auto progress = std::make_shared<Progress>(Progress{ids.size()});
  const auto done = [&queue, exchange, progress, first = ids.front()](const base::Result<>& outcome) {
    if (outcome) ++progress->changed;
    if (!outcome && !progress->error) progress->error = outcome.error();
    if (--progress->left > 0) return;
    if (progress->changed == 0) return SendError(exchange, *progress->error);
    const auto* job = queue.core().jobs().Find(first);
    if (!job && progress->first) job = &*progress->first;
    if (!job) return SendError(exchange, {base::ErrorCode::kNotFound, "the job is gone", {}});
    SendJob(queue, exchange, *job);
  };
  const auto first_done = [&queue, progress, done, first = ids.front()](const base::Result<>& outcome) {
    if (const auto* const job = queue.core().jobs().Find(first)) progress->first = *job;
    done(outcome);
  };
  ForEach(
      queue, exchange->request().peer.uid, ids.size(),
      [ids, change, done, first_done](std::size_t i) {
        if (i == 0) return change(ids[i], first_done);
        change(ids[i], done);
      },
      [] {});
}

jobs::JobManager::Done<jobs::Job> WithoutJob(std::function<void(base::Result<>)> done) {
  return [done = std::move(done)](const base::Result<jobs::Job>& job) {
    if (job) return done({});
    done(base::Fail(job.error()));
  };
}

http::RouteHandler OnJobs(QueueModule& queue,
                          std::function<void(const ExchangePtr&, const std::vector<base::JobId>&)> act) {
  return [&queue, act = std::move(act)](const ExchangePtr& exchange, const PathParameters& parameters) {
    const auto ids = JobsFor(queue, exchange, parameters.at("ref"));
    if (!ids) return SendError(exchange, ids.error());
    act(exchange, *ids);
  };
}

// Done when it has ended.
void CancelOne(QueueModule& queue, base::JobId id, const std::string& user,
               const std::function<void(base::Result<>)>& done) {
  const keeper::Reason reason{std::string(jobs::kCancelledWord), "cancelled by " + user};
  queue.core().jobs().Cancel(id, reason, [&queue, id, done](const base::Result<jobs::Job>& job) {
    if (!job) return done(base::Fail(job.error()));
    const auto ended = [done](const jobs::Job&) { done({}); };
    (void)queue.core().jobs().WaitForEnd(id, ended);
  });
}

// Many jobs that are being cancelled: names, then what they name.
struct Cancelling {
  api::CancelRequest request;
  std::string by;
  std::set<std::string> names{};
  api::CancelAnswer answer{};
  std::vector<std::pair<std::size_t, base::JobId>> jobs{};  // with their rows in the answer
  std::size_t left = 0;
};

void SendCancelled(QueueModule& queue, const ExchangePtr& exchange, const std::shared_ptr<Cancelling>& all) {
  if (all->answer.jobs.size() <= kMaxAtOnce) return SendJson(exchange, api::Encode(all->answer));
  const auto text = std::make_shared<std::string>();
  queue.core().Aside(exchange->request().peer.uid,
                     {[all, text] { *text = api::Encode(all->answer); },
                      [exchange, text] { SendJson(exchange, std::move(*text)); }});
}

void FindOne(QueueModule& queue, const ExchangePtr& exchange, Cancelling& all, const std::string& name) {
  if (!all.names.insert(name).second) return;  // an array's tasks are its row once
  const auto ids = JobsFor(queue, exchange, name);
  auto& rows = all.answer.jobs;
  if (!ids) {
    const auto& [code, message, hint] = ids.error();
    rows.push_back({name,
                    0,
                    {},
                    message,
                    std::string(base::ToString(code)),
                    hint.empty() ? std::nullopt : std::optional(hint)});
    return;
  }
  for (const auto id : *ids) {
    all.jobs.emplace_back(rows.size(), id);
    rows.push_back({name, id.value, {}, {}, {}, {}});
  }
}

void CancelOneOf(QueueModule& queue, const ExchangePtr& exchange, const std::shared_ptr<Cancelling>& all,
                 std::size_t place, base::JobId id) {
  const keeper::Reason reason{std::string(jobs::kCancelledWord), "cancelled by " + all->by};
  queue.core().jobs().Cancel(id, reason, [&queue, exchange, all, place](const base::Result<jobs::Job>& job) {
    auto& row = all->answer.jobs[place];
    if (job) {
      row.state = queue.StateOf(*job);
    } else {
      row.error = job.error().message;
      row.error_code = base::ToString(job.error().code);
      if (!job.error().hint.empty()) row.error_hint = job.error().hint;
    }
    if (--all->left == 0) SendCancelled(queue, exchange, all);
  });
}

// Each by itself: what cannot be cancelled does not keep the others.
void CancelMany(QueueModule& queue, const ExchangePtr& exchange, const api::CancelRequest& request) {
  const auto all = std::make_shared<Cancelling>(Cancelling{request, UserOf(exchange)});
  const uid_t user = exchange->request().peer.uid;
  const auto cancel = [&queue, exchange, all, user] {
    if (all->jobs.empty()) return SendCancelled(queue, exchange, all);
    all->left = all->jobs.size();
    ForEach(
        queue, user, all->jobs.size(),
        [&queue, exchange, all](std::size_t i) {
          CancelOneOf(queue, exchange, all, all->jobs[i].first, all->jobs[i].second);
        },
        [] {});
  };
  ForEach(
      queue, user, all->request.jobs.size(),
      [&queue, exchange, all](std::size_t i) { FindOne(queue, exchange, *all, all->request.jobs[i]); },
      cancel);
}

base::Result<QueueState> ChangedState(const gpu::Inventory& inventory, QueueState state,
                                      const api::QueueSettingsUpdate& update) {
  if (update.choice) {
    GPUMAN_ASSIGN(state.choice, queue::ParseChoice(*update.choice));
  }
  state.paused = update.paused.value_or(state.paused);
  if (update.clear_allowed) state.allowed.reset();
  if (update.allowed) {
    GPUMAN_ASSIGN(const auto gpus, gpu::SelectAll(inventory.gpus, *update.allowed));
    state.allowed.emplace();
    for (const auto& gpu : gpus) state.allowed->insert(gpu.uuid);
  }
  GPUMAN_ASSIGN(const auto drain, gpu::SelectAll(inventory.gpus, update.drain));
  GPUMAN_ASSIGN(const auto undrain, gpu::SelectAll(inventory.gpus, update.undrain));
  for (const auto& gpu : drain) state.drained.insert(gpu.uuid);
  for (const auto& gpu : undrain) state.drained.erase(gpu.uuid);
  return state;
}

void SetSettings(QueueModule& queue, const ExchangePtr& exchange) {
  const auto& request = exchange->request();
  if (auto may = queue.core().Check(request.peer, Act::kManage); !may)
    return SendError(exchange, may.error());
  const auto update = api::Decode<api::QueueSettingsUpdate>(request.body);
  if (!update) return SendError(exchange, update.error());
  queue.writer().Do(
      [&queue, update = *update](const QueueBooks& books) -> base::Result<BookWriter::Change> {
        GPUMAN_ASSIGN(const auto state, ChangedState(queue.core().inventory(), books.state, update));
        return BookWriter::Change{{Entry(state)}, [state](QueueBooks& changed) { changed.state = state; }};
      },
      [&queue, exchange](const base::Result<>& stored) {
        if (!stored) return SendError(exchange, stored.error());
        SendJson(exchange, api::Encode(queue.Info().settings));
      });
}

}  // namespace

void QueueModule::AddRoutes(http::Router& router) {
  const auto seen = [this](void (*show)(QueueModule&, const ExchangePtr&)) {
    return WhenReady(core_, Act::kSee, [this, show](const ExchangePtr& exchange) { show(*this, exchange); });
  };
  router.Add("GET", "/v1/queue/info", seen([](QueueModule& of, const ExchangePtr& exchange) {
               SendJson(exchange, api::Encode(of.Info()));
             }));
  router.Add("PATCH", "/v1/queue/settings", [this](const ExchangePtr& exchange, const PathParameters&) {
    core_.WhenReady([this, exchange] { SetSettings(*this, exchange); });
  });
  router.Add("POST", "/v1/jobs/{ref}/hold",
             OnJobs(*this, [this](const ExchangePtr& exchange, const auto& ids) {
               ChangeAll(*this, exchange, ids, [this, user = UserOf(exchange)](base::JobId id, auto done) {
                 core_.jobs().Hold(id, {"held_by_user", "held by " + user}, WithoutJob(std::move(done)));
               });
             }));
  router.Add("POST", "/v1/jobs/{ref}/release",
             OnJobs(*this, [this](const ExchangePtr& exchange, const auto& ids) {
               ChangeAll(*this, exchange, ids, [this](base::JobId id, auto done) {
                 core_.jobs().Unhold(id, WithoutJob(std::move(done)));
               });
             }));
  router.Add("POST", "/v1/jobs/{ref}/cancel",
             OnJobs(*this, [this](const ExchangePtr& exchange, const auto& ids) {
               ChangeAll(*this, exchange, ids, [this, user = UserOf(exchange)](base::JobId id, auto done) {
                 CancelOne(*this, id, user, done);
               });
             }));
  router.Add("POST", "/v1/cancellations", [this](const ExchangePtr& exchange, const PathParameters&) {
    WithBody<api::CancelRequest>(core_, exchange, [this, exchange](const api::CancelRequest& request) {
      CancelMany(*this, exchange, request);
    });
  });
  AddBookRoutes(router);
  AddListRoutes(router);
}

}  // namespace gpuman::daemon
