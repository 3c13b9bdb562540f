// What the routes of the queue and of jobs have in common: they find the jobs that a request means, and
// answer with a job.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "daemon/core/requests.h"
#include "daemon/core/views.h"
#include "daemon/queue/module.h"

namespace gpuman::daemon {

// Tells the user that several jobs have this name, and which one was chosen.
void NoteOnName(const QueueModule& queue, const http::ExchangePtr& exchange, const std::string& reference);

// The jobs that a reference names (one, a task, all of an array), if the caller may act on all of them.
base::Result<std::vector<base::JobId>> JobsFor(QueueModule& queue, const http::ExchangePtr& exchange,
                                               const std::string& reference);

// The job, if it has not been forgotten meanwhile.
base::Result<const jobs::Job*> StillThere(Core& core, base::JobId id);

using Notes = std::vector<std::string>;

// Takes a job that is the answer to a request, or the reason why there is none. The answer has these notes
// behind those of the job.
class JobResultCallback {
 public:
  using Function = std::function<void(const base::Result<jobs::Job>&, const Notes&)>;
  explicit JobResultCallback(Function done) : done_(std::move(done)) {}
  void operator()(const base::Result<jobs::Job>& job, const Notes& notes = {}) const { done_(job, notes); }

 private:
  Function done_;
};

// Answers a call with a job as the queue sees it. `in_full`: also why a waiting job is ahead of others.
template <typename Body>
JobResultCallback AnswerWithJob(QueueModule& queue, const Call<Body, api::JobView>& call,
                                bool in_full = false) {
  return JobResultCallback([&queue, call, in_full](const base::Result<jobs::Job>& job, const Notes& notes) {
    if (!job) return call.Refuse(job.error());
    queue.WithView(*job, in_full, [&queue, call, notes](base::Result<api::JobView> view, const auto&) {
      if (view) view->notes.insert(view->notes.end(), notes.begin(), notes.end());
      if (view && IsLong(*view)) return call.SendAside(queue.core(), std::move(*view));
      call.SendResult(view);
    });
  });
}

// Serves a route on these jobs for a module; `act`, a handler, gets the jobs.
template <typename ModuleType, typename Body, typename Answer, typename Returned>
void ServeJobs(ModuleType& module, QueueModule& queue, http::Router& router,
               const api::JobRoute<Body, Answer>& route,
               Returned (*act)(ModuleType&,
                               const Call<std::type_identity_t<Body>, std::type_identity_t<Answer>>&,
                               const std::vector<base::JobId>&)) {
  AddRoute(router, queue.core(), route.method, route.path, route.right, route.wait,
           [&module, &queue, route, act](const http::ExchangePtr& exchange,
                                         const http::PathParameters& parameters) {
             const auto ids = JobsFor(queue, exchange, parameters.at("ref"));
             if (!ids) return SendError(exchange, ids.error());
             ReadCall(
                 queue.core(), route, exchange, parameters,
                 [&module, act, ids = *ids](const auto& call) { call.AnswerBy(act, module, call, ids); });
           });
}

}  // namespace gpuman::daemon
