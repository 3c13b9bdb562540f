// Prints the table of routes for routes_test.py, one a line: method, path, right, status, body, answer.
#include <cstdio>
#include <string>
#include <string_view>

#include "api/routes.h"

namespace {

using gpuman::api::Right;

// "VersionView" of gpuman::api::VersionView.
template <typename T>
std::string NameOf() {
  std::string_view name = __PRETTY_FUNCTION__;
  name = name.substr(name.find("T = ") + 4);
  name = name.substr(0, name.find_first_of(";]"));
  return std::string(name.substr(name.rfind(':') + 1));
}

const char* NameOf(Right right) {
  switch (right) {
    case Right::kAnybody:
      return "anybody";
    case Right::kSee:
      return "see";
    case Right::kSubmit:
      return "submit";
    case Right::kControlJob:
      return "control_job";
    case Right::kReadLog:
      return "read_log";
    case Right::kManage:
      return "manage";
    case Right::kByRequest:
      return "by_request";
  }
  return "?";
}

}  // namespace

int main() {
  gpuman::api::routes::ForEach(
      []<typename Body, typename Answer>(const gpuman::api::Route<Body, Answer>& route) {
        std::printf("%s %s %s %u %s %s\n", std::string(route.method).c_str(), std::string(route.path).c_str(),
                    NameOf(route.right), route.status, NameOf<Body>().c_str(), NameOf<Answer>().c_str());
      });
}
