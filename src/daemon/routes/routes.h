// The HTTP API, one function for each kind of resource. docs/api/openapi.yaml describes it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/json.h"
#include "api/queue_types.h"
#include "daemon/http/router.h"
#include "daemon/service/service.h"

namespace gpuman::daemon {

// `service` must outlive the router.
void AddLiveRoute(http::Router& router);                           // the daemon lives
void AddViewRoutes(http::Router& router, Service& service);        // version, status, gpus
void AddJobRoutes(http::Router& router, Service& service);         // jobs and their logs
void AddAttachRoutes(http::Router& router, Service& service);      // jobs that somebody else started
void AddContainerRoutes(http::Router& router, Service& service);   // what Kubernetes' containers were given
void AddHealthRoutes(http::Router& router, Service& service);      // what is wrong with the GPUs
void AddDeviceRoutes(http::Router& router, Service& service);      // settings of the GPUs
void AddMetricsRoutes(http::Router& router, Service& service);     // for Prometheus
void AddMigRoutes(http::Router& router, Service& service);         // what the GPUs are split into
void AddMpsRoutes(http::Router& router, Service& service);         // MPS servers and their clients
void AddShareRoutes(http::Router& router, Service& service);       // who takes turns on which GPU
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

// A query parameter that is a whole number of at least 0; absent: `otherwise`.
base::Result<std::uint64_t> NumberParameter(const http::Request& request, std::string_view name,
                                            std::uint64_t otherwise);
bool FlagParameter(const http::Request& request, std::string_view name);
// limit=, after=: so many, by id, from the next one on. No limit, or 0: all.
struct Page {
  std::size_t limit = SIZE_MAX;
  std::optional<base::JobId> after;
};
base::Result<Page> PageOf(const http::Request& request);

// The jobs that a reference names (one, a task, all of an array), if the caller may act on all of them.
base::Result<std::vector<base::JobId>> JobsFor(Service& service, const http::ExchangePtr& exchange,
                                               const std::string& reference);

// The name of the user who asks.
std::string UserOf(const http::ExchangePtr& exchange);
// A new job that asks for what the old one asked for; not for its GPUs.
jobs::Job AskingAsMuch(const jobs::Job& old);
// The same for a job that never was in the queue, with changes, started at once.
void RunAgain(Service& service, const http::ExchangePtr& exchange, const jobs::Job& old,
              const api::JobUpdate& changes);

void SendJson(const http::ExchangePtr& exchange, std::string json, unsigned status = 200);
// With a job as it is now, and as the queue sees it. In full: with what a waiting job is in front by.
void SendJob(Service& service, const http::ExchangePtr& exchange, const jobs::Job& job, unsigned status = 200,
             bool in_full = false);
void SendError(const http::ExchangePtr& exchange, const base::Error& error);

// A list in JSON, written one by one: `head`, the elements, then what closes it.
class JsonList {
 public:
  explicit JsonList(std::string head, std::string tail = "]}\n")
      : head_(std::move(head)), tail_(std::move(tail)) {}
  void Add(std::string& text, const std::string& element) {
    text += std::exchange(head_, ",");
    text += element;
  }
  void End(std::string& text) {
    if (head_ != ",") text += head_;
    text += tail_;
  }

 private:
  std::string head_, tail_;
};

inline constexpr std::size_t kReadAtOnce = 16u << 10;  // bytes; more is read off the loop

// Calls `then` with the body, or answers with what is wrong about it. An empty one is read as `empty`.
template <typename T>
void WithBody(Core& core, const http::ExchangePtr& exchange, std::function<void(const T&)> then,
              std::string empty = {}) {
  const auto& body = exchange->request().body;
  const auto read = [exchange, empty = std::move(empty)]() -> base::Result<T> {
    const auto& text = exchange->request().body;
    return api::Decode<T>(text.empty() ? empty : text);
  };
  const auto take = [exchange, then = std::move(then)](const base::Result<T>& value) {
    if (!value) return SendError(exchange, value.error());
    then(*value);
  };
  if (body.size() <= kReadAtOnce) return take(read());
  const auto value = std::make_shared<std::optional<base::Result<T>>>();  // the worker's, then the loop's
  core.Aside(exchange->request().peer.uid,
             {[read, value] { *value = read(); }, [take, value] { take(**value); }});
}

}  // namespace gpuman::daemon
