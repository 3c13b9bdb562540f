// What the routes of the queue and of jobs have in common: they find the jobs that a request means, and
// answer with a job.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "daemon/core/requests.h"
#include "daemon/queue/module.h"

namespace gpuman::daemon {

// The jobs that a reference names (one, a task, all of an array), if the caller may act on all of them.
base::Result<std::vector<base::JobId>> JobsFor(QueueModule& queue, const http::ExchangePtr& exchange,
                                               const std::string& reference);

// Serves a route on these jobs for a module; `act` gets the jobs.
template <typename ModuleType, typename Body, typename Answer>
void ServeJobs(ModuleType& module, QueueModule& queue, http::Router& router,
               const api::JobRoute<Body, Answer>& route,
               void (*act)(ModuleType&, const Call<std::type_identity_t<Body>, std::type_identity_t<Answer>>&,
                           const std::vector<base::JobId>&)) {
  AddRoute(router, queue.core(), route.method, route.path, route.right, route.wait,
           [&module, &queue, route, act](const http::ExchangePtr& exchange,
                                         const http::PathParameters& parameters) {
             const auto ids = JobsFor(queue, exchange, parameters.at("ref"));
             if (!ids) return SendError(exchange, ids.error());
             ReadCall(queue.core(), route, exchange, parameters,
                      [&module, act, ids = *ids](const auto& call) { act(module, call, ids); });
           });
}

// Answers with a job as it is now, and as the queue sees it. `in_full`: also why a waiting job is ahead of
// others.
void SendJob(QueueModule& queue, const http::ExchangePtr& exchange, const jobs::Job& job,
             unsigned status = 200, bool in_full = false);
// The same, with notes of this answer behind those of the job.
void SendJob(QueueModule& queue, const http::ExchangePtr& exchange, const jobs::Job& job,
             const std::vector<std::string>& notes, unsigned status = 200);

}  // namespace gpuman::daemon
