#include "daemon/shims/context_costs.h"

#include "base/json.h"

namespace gpuman::daemon {

template <typename V, base::json::Of<ContextCosts::Cost> T>
void Fields(V& v, T& x) {
  v.Required("driver", x.driver);
  v.Required("bytes", x.bytes);
}

ContextCosts ContextCosts::Parse(std::string_view text) {
  ContextCosts costs;
  const auto json = base::json::Parse(text);
  if (!json || !json->is_object()) return costs;
  for (const auto& [gpu, entry] : json->items())
    if (auto cost = base::json::FromJson<Cost>(entry, {}, gpu)) costs.costs_[gpu] = std::move(*cost);
  return costs;
}

std::string ContextCosts::Text() const { return base::json::ToText(costs_, {}) + "\n"; }

std::optional<base::Bytes> ContextCosts::Of(const std::string& gpu, const std::string& driver) const {
  const auto found = costs_.find(gpu);
  if (found == costs_.end() || found->second.driver != driver) return std::nullopt;
  return found->second.bytes;
}

bool ContextCosts::Learn(const std::string& gpu, const std::string& driver, base::Bytes bytes) {
  const Cost cost{driver, bytes};
  auto& known = costs_[gpu];
  if (known == cost) return false;
  known = cost;
  return true;
}

}  // namespace gpuman::daemon
