// What the routes of all modules have in common: who may, reading bodies and parameters, answering.
//
// A module serves the routes of api/routes.h:
//   Serve(router, core, api::routes::kShare, [](const Call<api::NoBody, api::ShareView>& call) { … });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "api/json.h"
#include "api/routes.h"
#include "daemon/core/core.h"
#include "daemon/http/router.h"

namespace gpuman::daemon {

// Whether the daemon lives: /healthz.
void AddLiveRoute(http::Router& router);

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

// The name of the user who asks.
std::string UserOf(const http::ExchangePtr& exchange);

void SendJson(const http::ExchangePtr& exchange, std::string json, unsigned status = 200);
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

// One request of a route, and the way to answer it. Copies are the same request.
template <typename Body, typename Answer>
class Call {
 public:
  Call(http::ExchangePtr exchange, http::PathParameters parameters, Body body, unsigned status)
      : exchange_(std::move(exchange)),
        parameters_(std::make_shared<const http::PathParameters>(std::move(parameters))),
        body_(std::make_shared<Body>(std::move(body))),
        status_(status) {}

  const http::ExchangePtr& exchange() const { return exchange_; }
  const http::Request& request() const { return exchange_->request(); }
  const http::Peer& peer() const { return request().peer; }
  // What stands in the path for {name}.
  const std::string& Parameter(const std::string& name) const { return parameters_->at(name); }
  Body& body() const { return *body_; }

  // One answer, now or later.
  void Send(const Answer& answer) const { SendJson(exchange_, api::Encode(answer), status_); }
  void Refuse(const base::Error& error) const { SendError(exchange_, error); }
  // For an answer that may be long: it is written off the loop.
  void SendAside(Core& core, Answer answer) const {
    const auto text = std::make_shared<std::string>();
    core.Aside(peer().uid,
               {[text, answer = std::move(answer)] { *text = api::Encode(answer); },
                [call = *this, text] { SendJson(call.exchange_, std::move(*text), call.status_); }});
  }
  // Sends the answer, or why there is none.
  void SendResult(const base::Result<Answer>& answer) const {
    if (answer) return Send(*answer);
    Refuse(answer.error());
  }

 private:
  http::ExchangePtr exchange_;
  std::shared_ptr<const http::PathParameters> parameters_;
  std::shared_ptr<Body> body_;
  unsigned status_;
};

// Adds a handler that is called for those who have the right, once the GPUs are known if it waits for them.
// The rights that concern one job are for the handler to check.
void AddRoute(http::Router& router, Core& core, std::string_view method, std::string_view path,
              api::Right right, api::Wait wait, http::RouteHandler handle);

// Reads the body and calls `then`, or answers with what is wrong about it. An empty one is read as `empty`. A
// large one is read off the loop.
template <typename Body>
void ReadBody(Core& core, const http::ExchangePtr& exchange, std::string_view empty,
              std::function<void(Body)> then) {
  constexpr std::size_t kReadAtOnce = 16u << 10;  // bytes
  const auto read = [exchange, empty]() -> base::Result<Body> {
    const std::string& text = exchange->request().body;
    return api::Decode<Body>(text.empty() ? empty : text);
  };
  const auto take = [exchange, then = std::move(then)](base::Result<Body> body) {
    if (!body) return SendError(exchange, body.error());
    then(std::move(*body));
  };
  if (exchange->request().body.size() <= kReadAtOnce) return take(read());
  const auto body = std::make_shared<std::optional<base::Result<Body>>>();  // the worker's, then the loop's
  core.Aside(exchange->request().peer.uid,
             {[read, body] { *body = read(); }, [take, body] { take(std::move(**body)); }});
}

template <typename Body, typename Answer>
using CallHandler = std::function<void(const Call<Body, Answer>&)>;

// Serves a route: `handle` gets each request of it whose sender has the right and whose body can be read.
template <typename Body, typename Answer>
void Serve(http::Router& router, Core& core, const api::Route<Body, Answer>& route,
           std::type_identity_t<CallHandler<Body, Answer>> handle) {
  http::RouteHandler read;
  if constexpr (std::is_same_v<Body, api::NoBody>) {
    read = [status = route.status, handle = std::move(handle)](const http::ExchangePtr& exchange,
                                                               const http::PathParameters& parameters) {
      handle({exchange, parameters, {}, status});
    };
  } else {
    read = [&core, status = route.status, empty = route.may_have_no_body ? "{}" : "",
            handle = std::move(handle)](const http::ExchangePtr& exchange,
                                        const http::PathParameters& parameters) {
      ReadBody<Body>(core, exchange, empty, [exchange, parameters, status, handle](Body body) {
        handle({exchange, parameters, std::move(body), status});
      });
    };
  }
  AddRoute(router, core, route.method, route.path, route.right, route.wait, std::move(read));
}

// The same for the routes of one module, whose functions get it: serve(route, Function).
template <typename ModuleType>
auto ServeBy(ModuleType& module, http::Router& router) {
  return [&module, &router]<typename Body, typename Answer>(
             const api::Route<Body, Answer>& route,
             void (*handle)(ModuleType&,
                            const Call<std::type_identity_t<Body>, std::type_identity_t<Answer>>&)) {
    Serve(router, module.core(), route, std::bind_front(handle, std::ref(module)));
  };
}

}  // namespace gpuman::daemon
