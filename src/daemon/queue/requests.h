// What the routes of the queue and of jobs have in common: which jobs a request means, and an answer with
// one.
#pragma once

#include <string>
#include <vector>

#include "daemon/core/requests.h"
#include "daemon/queue/module.h"

namespace gpuman::daemon {

// The jobs that a reference names (one, a task, all of an array), if the caller may act on all of them.
base::Result<std::vector<base::JobId>> JobsFor(QueueModule& queue, const http::ExchangePtr& exchange,
                                               const std::string& reference);

// Answers with a job as it is now, and as the queue sees it. In full: with what a waiting job is in front by.
void SendJob(QueueModule& queue, const http::ExchangePtr& exchange, const jobs::Job& job,
             unsigned status = 200, bool in_full = false);

}  // namespace gpuman::daemon
