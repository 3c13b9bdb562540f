// The target of a request: its path and query, percent-encoded. Values; thread-safe.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/http.h"
#include "base/clock.h"

namespace gpuman::api {

// "?a=1&b=2" from the added values; empty without any.
class Query {
 public:
  Query& Add(std::string_view name, std::string_view value) {
    text_ += fmt::format("{}{}={}", text_.empty() ? '?' : '&', name, PercentEncode(value));
    return *this;
  }
  Query& Add(std::string_view name, const std::vector<std::string>& values) {
    return values.empty() ? *this : Add(name, std::string_view(fmt::format("{}", fmt::join(values, ","))));
  }
  Query& Add(std::string_view name, const std::optional<base::WallTime>& value) {
    return value ? Add(name, std::string_view(base::FormatIso8601(*value))) : *this;
  }
  Query& AddFlag(std::string_view name, bool on) { return on ? Add(name, "1") : *this; }
  template <typename T>
  Query& AddNumber(std::string_view name, const std::optional<T>& value) {
    return value ? Add(name, std::string_view(std::to_string(*value))) : *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The texts that replace the {names} of a route's path (one for each, in order), and the query. It refers to
// the texts and does not own them, so use it for one call only.
struct RouteArguments {
  std::vector<std::string_view> names{};
  Query query{};
};

inline std::string TargetText(std::string_view path, const RouteArguments& target) {
  std::string text;
  for (const std::string_view name : target.names) {
    const auto begin = path.find('{');
    text += fmt::format("{}{}", path.substr(0, begin), PercentEncode(name));
    path.remove_prefix(path.find('}') + 1);
  }
  return fmt::format("{}{}{}", text, path, target.query.text());
}

}  // namespace gpuman::api
