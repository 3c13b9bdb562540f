// What the routes of all modules have in common: they check rights, read bodies and parameters, and answer.
//
// A module serves the routes of api/routes.h by handlers, functions from a request to its answer:
//   Result<api::ShareView> Show(SharingModule& sharing, const Call<api::NoBody, api::ShareView>& call) { … }
//   RouteRegistrar(module, router)(api::routes::kShare, Show);
// A handler whose answer takes longer returns a Result<>: an error is the answer, otherwise the handler has
// the call answered later. A handler that returns nothing answers by the call, too.
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
void AddLiveRoute(http::Router& router, Core& core);

// A query parameter that is a whole number of at least 0; absent: `otherwise`.
base::Result<std::uint64_t> NumberParameter(const http::Request& request, std::string_view name,
                                            std::uint64_t otherwise);
// A query parameter that is a time, "2026-11-27T10:00:00Z", or how long ago that was, "2h".
base::Result<std::optional<base::WallTime>> MomentParameter(const http::Request& request,
                                                            std::string_view name, base::WallTime now);
bool FlagParameter(const http::Request& request, std::string_view name);
// limit=, after=: at most `limit` jobs, by id, from the one after `after` on. No limit, or 0: all.
struct Pagination {
  std::size_t limit = SIZE_MAX;
  std::optional<base::JobId> after;
};
base::Result<Pagination> PageOf(const http::Request& request);

// The name of the user who asks.
std::string UserOf(const http::ExchangePtr& exchange);

void SendJson(const http::ExchangePtr& exchange, std::string json, unsigned status = 200);
void SendError(const http::ExchangePtr& exchange, const base::Error& error);

// A list in JSON, written one element at a time: `head`, the elements, then `tail`.
class JsonListWriter {
 public:
  explicit JsonListWriter(std::string head, std::string tail = "]}\n")
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

// One request of a route, and the way to answer it: one of the functions below, once, now or later. Answers
// that are not JSON go through exchange(). Copies stand for the same request.
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
  // The text in the path in the place of {name}.
  const std::string& Parameter(const std::string& name) const { return parameters_->at(name); }
  const Body& body() const { return *body_; }
  // The caller may call it once; no copy has a body afterwards.
  Body TakeBody() const { return std::move(*body_); }
  unsigned status() const { return status_; }  // of success
  // The same request, whose answer has this status.
  Call WithStatus(unsigned status) const {
    Call call = *this;
    call.status_ = status;
    return call;
  }

  void Send(const Answer& answer) const { SendJson(exchange_, api::Encode(answer), status_); }
  void Refuse(const base::Error& error) const { SendError(exchange_, error); }
  // Sends an answer that may be long. A worker writes its text.
  void SendAside(Core& core, Answer answer) const {
    const auto text = std::make_shared<std::string>();
    core.Aside(request().party,
               {.work =
                    [text, answer = std::move(answer)]() mutable {
                      *text = api::Encode(answer);
                      answer = Answer();  // to free a long one takes long, too
                    },
                .then = [call = *this, text] { SendJson(call.exchange_, std::move(*text), call.status_); },
                .is_cancelled = [exchange = exchange_] { return exchange->Gone(); }});
  }
  // Sends the answer, or why there is none.
  void SendResult(const base::Result<Answer>& answer) const {
    if (answer) return Send(*answer);
    Refuse(answer.error());
  }
  // Answers with what the function returns: see above for handlers.
  template <typename Function, typename... Arguments>
  void AnswerBy(const Function& function, Arguments&&... arguments) const {
    using Returned = std::invoke_result_t<const Function&, Arguments...>;
    if constexpr (std::is_void_v<Returned>) {
      std::invoke(function, std::forward<Arguments>(arguments)...);
    } else if constexpr (std::is_same_v<Returned, Answer>) {
      Send(std::invoke(function, std::forward<Arguments>(arguments)...));
    } else if constexpr (std::is_same_v<Returned, base::Result<>>) {
      const auto begun = std::invoke(function, std::forward<Arguments>(arguments)...);
      if (!begun) Refuse(begun.error());
    } else {
      SendResult(std::invoke(function, std::forward<Arguments>(arguments)...));
    }
  }
  // A function for work that goes on, which takes the work's Result. It answers with the error, or by
  // `function`, which gets the value.
  template <typename Function>
  auto After(Function function) const {
    return [call = *this, function = std::move(function)](auto&& done) {
      if (!done) return call.Refuse(done.error());
      if constexpr (std::is_void_v<typename std::decay_t<decltype(done)>::value_type>)
        call.AnswerBy(function);
      else
        call.AnswerBy(function, *std::forward<decltype(done)>(done));
    };
  }

 private:
  http::ExchangePtr exchange_;
  std::shared_ptr<const http::PathParameters> parameters_;
  std::shared_ptr<Body> body_;
  unsigned status_;
};

template <typename Body, typename Answer>
using CallHandler = std::function<void(const Call<Body, Answer>&)>;

// Adds a handler, which is called for callers who have the right. If `wait` says so, it is called only once
// the GPUs are known. The handler itself checks rights that depend on a job.
void AddRoute(http::Router& router, Core& core, std::string_view method, std::string_view path,
              api::Right right, api::StartupWaitPolicy wait, http::RouteHandler handle);

// Reads the body and calls `handle`, or answers with what is wrong with the body. A large body is read off
// the loop. If the client goes away before that, the request has not begun, and is dropped.
template <typename Body, typename Answer>
void ReadCall(Core& core, const api::Route<Body, Answer>& route, const http::ExchangePtr& exchange,
              const http::PathParameters& parameters,
              std::type_identity_t<CallHandler<Body, Answer>> handle) {
  if constexpr (std::is_same_v<Body, api::NoBody>) {
    handle({exchange, parameters, {}, route.status});
  } else {
    constexpr std::size_t kReadAtOnce = 16u << 10;  // bytes
    const auto read = [exchange, body_need = route.body_need]() -> base::Result<Body> {
      const std::string& text = exchange->request().body;
      const bool none = text.empty() && body_need == api::BodyNeed::kOptional;
      return api::Decode<Body>(none ? "{}" : text);
    };
    const auto take = [exchange, parameters, status = route.status,
                       handle = std::move(handle)](base::Result<Body> body) {
      if (!body) return SendError(exchange, body.error());
      handle({exchange, parameters, std::move(*body), status});
    };
    if (exchange->request().body.size() <= kReadAtOnce) return take(read());
    const auto body = std::make_shared<std::optional<base::Result<Body>>>();  // the worker's, then the loop's
    const auto waits = core.AsideIfRoom(exchange->request().party,
                                        {.work = [read, body] { *body = read(); },
                                         .then = [take, body] { take(std::move(**body)); },
                                         .is_cancelled = [exchange] { return exchange->Gone(); }});
    if (!waits) SendError(exchange, waits.error());
  }
}

// Serves a route: `handle` gets each request of it whose sender has the right and whose body can be read.
template <typename Body, typename Answer>
void Serve(http::Router& router, Core& core, const api::Route<Body, Answer>& route,
           std::type_identity_t<CallHandler<Body, Answer>> handle) {
  AddRoute(router, core, route.method, route.path, route.right, route.wait,
           [&core, route, handle = std::move(handle)](const http::ExchangePtr& exchange,
                                                      const http::PathParameters& parameters) {
             ReadCall(core, route, exchange, parameters, handle);
           });
}
// ServeJob and ServeJobs serve routes on jobs: they look the job up first, and check the right to it.
template <typename Body, typename Answer, typename Handle>
void Serve(http::Router&, Core&, const api::JobRoute<Body, Answer>&, Handle) = delete;

// Serves routes of one module: RouteRegistrar(module, router)(route, handler). The handler may do without the
// call.
template <typename ModuleType>
class RouteRegistrar {
 public:
  RouteRegistrar(ModuleType& module, http::Router& router) : module_(module), router_(router) {}

  template <typename Body, typename Answer, typename Returned>
  void operator()(
      const api::Route<Body, Answer>& route,
      Returned (*handle)(ModuleType&,
                         const Call<std::type_identity_t<Body>, std::type_identity_t<Answer>>&)) const {
    Serve(router_, module_.core(), route, [&module = module_, handle](const Call<Body, Answer>& call) {
      call.AnswerBy(handle, module, call);
    });
  }
  template <typename Body, typename Answer, typename Returned>
  void operator()(const api::Route<Body, Answer>& route, Returned (*handle)(ModuleType&)) const {
    Serve(router_, module_.core(), route,
          [&module = module_, handle](const Call<Body, Answer>& call) { call.AnswerBy(handle, module); });
  }

 private:
  ModuleType& module_;
  http::Router& router_;
};

}  // namespace gpuman::daemon
