#include "daemon/shims/context_costs.h"

#include <nlohmann/json.hpp>

#include "base/json_number.h"

namespace gpuman::daemon {

using Json = nlohmann::json;

ContextCosts ContextCosts::Parse(std::string_view text) {
  ContextCosts costs;
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return costs;
  for (const auto& [gpu, entry] : json.items()) {
    if (!entry.is_object()) continue;
    const auto driver = entry.find("driver"), bytes = entry.find("bytes");
    if (driver == entry.end() || bytes == entry.end() || !driver->is_string()) continue;
    if (const auto count = base::WholeNumber<std::uint64_t>(*bytes))
      costs.costs_[gpu] = {driver->get<std::string>(), base::Bytes{*count}};
  }
  return costs;
}

std::string ContextCosts::Text() const {
  Json json = Json::object();
  for (const auto& [gpu, cost] : costs_) json[gpu] = {{"driver", cost.first}, {"bytes", cost.second.count}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<base::Bytes> ContextCosts::Of(const std::string& gpu, const std::string& driver) const {
  const auto found = costs_.find(gpu);
  if (found == costs_.end() || found->second.first != driver) return std::nullopt;
  return found->second.second;
}

bool ContextCosts::Learn(const std::string& gpu, const std::string& driver, base::Bytes bytes) {
  const std::pair cost(driver, bytes);
  auto& known = costs_[gpu];
  if (known == cost) return false;
  known = cost;
  return true;
}

}  // namespace gpuman::daemon
