#include "health/record.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_number.h"

namespace gpuman::health {
namespace {

using Json = nlohmann::json;
constexpr int kVersion = 1;

Json ToJson(const Fault& fault) {
  return {{"code", fault.code},
          {"state", ToString(fault.state)},
          {"action", ToString(fault.action)},
          {"text", fault.text},
          {"since", base::FormatIso8601(fault.since)},
          {"last", base::FormatIso8601(fault.last)},
          {"count", fault.count},
          {"acknowledged", fault.acknowledged}};
}

std::optional<Fault> FaultOf(const Json& json) {
  const auto state = StateFromString(json.at("state").get<std::string>());
  const auto action = ActionFromString(json.at("action").get<std::string>());
  const auto since = base::ParseIso8601(json.at("since").get<std::string>());
  const auto last = base::ParseIso8601(json.at("last").get<std::string>());
  if (json.size() != 8 || !state || !action || !since || !last) return std::nullopt;
  return Fault{json.at("code"),
               *state,
               *action,
               json.at("text"),
               *since,
               *last,
               base::Checked<std::uint64_t>(json.at("count")),
               json.at("acknowledged").get<bool>()};
}

std::optional<HealthRecord> RecordOf(const Json& json) {
  if (json.size() != 3 || json.at("v") != kVersion) return std::nullopt;
  HealthRecord record{json.at("boot").get<std::string>(), {}};
  for (const auto& each : json.at("faults")) {
    auto fault = FaultOf(each);
    if (!fault) return std::nullopt;
    record.faults.push_back(std::move(*fault));
  }
  return record;
}

}  // namespace

std::string SerializeRecord(const HealthRecord& record) {
  Json faults = Json::array();
  for (const auto& fault : record.faults) faults.push_back(ToJson(fault));
  const Json json = {{"v", kVersion}, {"boot", record.boot}, {"faults", std::move(faults)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

base::Result<HealthRecord> ParseRecord(std::string_view text) {
  std::optional<HealthRecord> record;
  try {
    record = RecordOf(Json::parse(text));
  } catch (const Json::exception&) {
    record.reset();
  }
  if (!record) return base::Fail(base::ErrorCode::kCorrupt, "the stored health of a GPU cannot be read");
  return std::move(*record);
}

}  // namespace gpuman::health
