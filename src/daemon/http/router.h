// From method and path to the handler of a route.
//
// Routes are given as "/v1/jobs/{ref}/log"; a {name} takes one path segment, percent-decoded. A known path
// with another method answers 405, an unknown one 404; both say what there is.
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
