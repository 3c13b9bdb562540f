#include "daemon/http/router.h"

#include <fmt/format.h>

#include <optional>

namespace gpuman::daemon::http {
namespace {

std::vector<std::string> Segments(std::string_view path) {
  std::vector<std::string> segments;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const auto segment = path.substr(0, path.find('/'));
    segments.emplace_back(segment);
    path.remove_prefix(segment.size());
  }
  return segments;
}

std::optional<PathParameters> Match(const std::vector<std::string>& pattern,
                                    const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return std::nullopt;
  PathParameters parameters;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (!pattern[i].starts_with('{')) {
      if (pattern[i] != path[i]) return std::nullopt;
      continue;
    }
    auto value = DecodePercent(path[i]);
    if (!value || value->empty()) return std::nullopt;
    parameters[pattern[i].substr(1, pattern[i].size() - 2)] = std::move(*value);
  }
  return parameters;
}

}  // namespace

void Router::Add(std::string_view method, std::string_view pattern, RouteHandler handler) {
  entries_.push_back({std::string(method), std::string(pattern), Segments(pattern), std::move(handler)});
}

void Router::Route(const ExchangePtr& exchange) const {
  const Request& request = exchange->request();
  const auto path = Segments(request.path);
  std::string allowed;
  for (const auto& entry : entries_) {
    const auto parameters = Match(entry.segments, path);
    if (!parameters) continue;
    if (entry.method == request.method) return entry.handler(exchange, *parameters);
    allowed += (allowed.empty() ? "" : ", ") + entry.method;
  }
  if (allowed.empty()) {
    return exchange->Send(
        ErrorResponse({base::ErrorCode::kNotFound, fmt::format("there is no {} here", request.path),
                       "docs/api/openapi.yaml lists what there is"}));
  }
  auto response = ErrorResponse({base::ErrorCode::kInvalidArgument,
                                 fmt::format("{} does not take {}", request.path, request.method),
                                 fmt::format("it takes {}", allowed)});
  response.status = 405;
  exchange->Send(std::move(response));
}

}  // namespace gpuman::daemon::http
