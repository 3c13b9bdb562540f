#include "health/record.h"

#include "base/json.h"

namespace gpuman::health {
namespace {

constexpr base::json::JsonFormat kFormat{.strict = true};

}  // namespace

template <typename V, base::json::Of<HealthFault> T>
void Fields(V& v, T& x) {
  v.Required("code", x.code);
  v.Required("state", x.state);
  v.Required("action", x.action);
  v.Required("text", x.text);
  v.Required("since", x.since);
  v.Required("last", x.last);
  v.Required("count", x.count);
  v.Required("acknowledged", x.acknowledged);
}

template <typename V, base::json::Of<HealthRecord> T>
void Fields(V& v, T& x) {
  v.Version("v", 1);
  v.Required("boot", x.boot);
  v.Required("faults", x.faults);
}

std::string SerializeRecord(const HealthRecord& record) { return base::json::ToText(record, kFormat); }

base::Result<HealthRecord> ParseRecord(std::string_view text) {
  return base::json::FromText<HealthRecord>(text, kFormat, "the stored health of a GPU");
}

}  // namespace gpuman::health
