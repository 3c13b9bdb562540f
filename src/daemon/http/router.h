// Finds the handler of a route by method and path.
//
// Routes are given as "/v1/jobs/{ref}/log"; a {name} takes one path segment, percent-decoded. The router
// answers 405 for a known path with another method and 404 for an unknown path; both answers say what there
// is.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/exchange.h"

namespace gpuman::daemon::http {

using PathParameters = std::map<std::string, std::string>;
using RouteHandler = std::function<void(const ExchangePtr&, const PathParameters&)>;

// Filled at start, then only read.
class Router {
 public:
  void Add(std::string_view method, std::string_view pattern, RouteHandler handler);
  void Route(const ExchangePtr& exchange) const;

 private:
  struct Entry {
    std::string method;
    std::string pattern;
    std::vector<std::string> segments;
    RouteHandler handler;
  };
  std::vector<Entry> entries_;
};

}  // namespace gpuman::daemon::http
