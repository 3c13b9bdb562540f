#include "mps/record.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_number.h"

namespace gpuman::mps {
namespace {

using Json = nlohmann::json;
constexpr int kVersion = 1;

std::optional<GpuRecord> RecordOf(const Json& json) {
  const bool tells_changes = json.contains("changed");
  if (json.size() != (tells_changes ? 8 : 7) || json.at("v") != kVersion) return std::nullopt;
  GpuRecord record;
  record.changed = tells_changes && json.at("changed").get<bool>();
  record.control = {base::Checked<pid_t>(json.at("pid")),
                    base::Checked<std::uint64_t>(json.at("start_time"))};
  record.boot = json.at("boot").get<std::string>();
  if (!json.at("threads").is_null()) record.limits.threads = json.at("threads").get<double>();
  if (!json.at("memory").is_null())
    record.limits.memory = base::Bytes{base::Checked<std::uint64_t>(json.at("memory"))};
  const auto since = base::ParseIso8601(json.at("since").get<std::string>());
  if (!since || record.control.pid < 0) return std::nullopt;
  record.since = *since;
  return record;
}

}  // namespace

std::string SerializeRecord(const GpuRecord& record) {
  Json json = {{"v", kVersion},
               {"pid", record.control.pid},
               {"start_time", record.control.start_time},
               {"boot", record.boot},
               {"changed", record.changed},
               {"threads", nullptr},
               {"memory", nullptr},
               {"since", base::FormatIso8601(record.since)}};
  if (record.limits.threads) json["threads"] = *record.limits.threads;
  if (record.limits.memory) json["memory"] = record.limits.memory->count;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

base::Result<GpuRecord> ParseRecord(std::string_view text) {
  std::optional<GpuRecord> record;
  try {
    record = RecordOf(Json::parse(text));
  } catch (const Json::exception&) {
    record.reset();
  }
  if (!record) return base::Fail(base::ErrorCode::kCorrupt, "the stored state of a GPU's MPS cannot be read");
  return std::move(*record);
}

}  // namespace gpuman::mps
