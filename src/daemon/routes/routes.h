// The HTTP API, one function for each kind of resource. docs/api/openapi.yaml describes it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/json.h"
#include "api/queue_types.h"
#include "daemon/core/requests.h"
#include "daemon/http/router.h"
#include "daemon/service/service.h"

namespace gpuman::daemon {

// `service` must outlive the router.
void AddViewRoutes(http::Router& router, Service& service);        // version, status, gpus
void AddJobRoutes(http::Router& router, Service& service);         // jobs and their logs
void AddAttachRoutes(http::Router& router, Service& service);      // jobs that somebody else started
void AddMetricsRoutes(http::Router& router, Service& service);     // for Prometheus
void AddSubmissionRoutes(http::Router& router, Service& service);  // into the queue
void AddRedoRoutes(http::Router& router, Service& service);        // into the queue once more
void AddQueueListRoutes(http::Router& router, Service& service);   // the queue as a list
void AddQueueRoutes(http::Router& router, Service& service);       // what is done to the queue and its jobs
void AddQueueBookRoutes(http::Router& router, Service& service);   // reservations, quotas, rules, statistics
void AddEventRoutes(http::Router& router, Service& service);       // events

// Every route of the daemon, in the order they are tried.
void AddAllRoutes(http::Router& router, Service& service);
// What is served over TCP, to whoever gets there: metrics, and whether the daemon lives. Nothing is changed
// by it.
void AddPublicRoutes(http::Router& router, Service& service);

// The jobs that a reference names (one, a task, all of an array), if the caller may act on all of them.
base::Result<std::vector<base::JobId>> JobsFor(Service& service, const http::ExchangePtr& exchange,
                                               const std::string& reference);

// A new job that asks for what the old one asked for; not for its GPUs.
jobs::Job AskingAsMuch(const jobs::Job& old);
// The same for a job that never was in the queue, with changes, started at once.
void RunAgain(Service& service, const http::ExchangePtr& exchange, const jobs::Job& old,
              const api::JobUpdate& changes);

// With a job as it is now, and as the queue sees it. In full: with what a waiting job is in front by.
void SendJob(Service& service, const http::ExchangePtr& exchange, const jobs::Job& job, unsigned status = 200,
             bool in_full = false);

}  // namespace gpuman::daemon
