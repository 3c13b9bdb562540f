// Clients use these functions to ask for a route of routes.h: the body and the answer have the route's types.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "api/http.h"
#include "api/json.h"
#include "api/routes.h"
#include "api/target.h"
#include "base/result.h"

namespace gpuman::api {

// Options of a request that may take any time: the daemon waits for drivers, the store and ending jobs.
inline HttpOptions NoTimeout() {
  HttpOptions options;
  options.patience.reset();
  return options;
}

template <typename Body, typename Answer>
HttpRequest RequestFor(const Route<Body, Answer>& route, const RouteArguments& target = {},
                       const std::type_identity_t<Body>& body = {}) {
  HttpRequest request{std::string(route.method), TargetText(route.path, target), {}};
  if constexpr (!std::is_same_v<Body, NoBody>) request.body = Encode(body);
  return request;
}

// The error for an answer that the client could not read.
inline base::Error NotUnderstood(base::Error error) {
  error.code = base::ErrorCode::kInternal;
  error.hint = "is gpumand of the same version as gpuman?";
  return std::move(error).In("the daemon's answer is not understood");
}

// Turns an answer whose status is a failure into its error.
inline base::Result<HttpAnswer> Successful(base::Result<HttpAnswer> answer) {
  if (!answer || (answer->status >= 200 && answer->status < 300)) return answer;
  return base::Fail(ErrorOfAnswer(answer->status, answer->body));
}

// The value of a successful answer, or the error of any other answer.
template <typename Answer>
base::Result<Answer> ValueOf(base::Result<HttpAnswer> answer) {
  GPUMAN_ASSIGN(const HttpAnswer successful, Successful(std::move(answer)));
  auto value = Decode<Answer>(successful.body);
  if (!value) return base::Fail(NotUnderstood(std::move(value.error())));
  return value;
}

// `daemon`: a Client, or the path of a socket.
template <typename Daemon, typename Body, typename Answer>
base::Result<Answer> Ask(const Daemon& daemon, const Route<Body, Answer>& route,
                         const RouteArguments& target = {}, const std::type_identity_t<Body>& body = {},
                         const HttpOptions& options = {}) {
  const HttpRequest request = RequestFor(route, target, body);
  if constexpr (requires { daemon.AskRaw(request, options); })
    return ValueOf<Answer>(daemon.AskRaw(request, options));
  else
    return ValueOf<Answer>(Exchange(daemon, request, options));
}

template <typename Daemon, typename Body, typename Answer>
base::Result<Answer> AskWithoutTimeout(const Daemon& daemon, const Route<Body, Answer>& route,
                                       const RouteArguments& target = {},
                                       const std::type_identity_t<Body>& body = {}) {
  return Ask(daemon, route, target, body, NoTimeout());
}

}  // namespace gpuman::api
