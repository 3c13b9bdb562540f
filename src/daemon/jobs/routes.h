// What the routes of jobs have in common.
#pragma once

#include <functional>

#include "daemon/jobs/module.h"
#include "daemon/queue/requests.h"

namespace gpuman::daemon {

// A route on one job; `act` gets it when it exists and the caller may.
http::RouteHandler OnJob(JobsModule& jobs, Act may,
                         std::function<void(const http::ExchangePtr&, const jobs::Job&)> act);

// A new job that asks for what the old one asked for; not for its GPUs.
jobs::Job AskingAsMuch(const jobs::Job& old);
// The same for a job that never was in the queue, with changes, started at once.
void RunAgain(JobsModule& jobs, const http::ExchangePtr& exchange, const jobs::Job& old,
              const api::JobUpdate& changes);

}  // namespace gpuman::daemon
