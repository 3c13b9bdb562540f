#include "device/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_number.h"

namespace gpuman::device {
namespace {

using Json = nlohmann::json;
constexpr int kVersion = 1;

// Thrown and caught only in this file, like the exceptions of the JSON library.
struct Unreadable {};

template <typename T>
T Need(base::Result<T> result) {
  if (!result) throw Unreadable{};
  return std::move(*result);
}

Json ToJson(const Values& values) {
  Json json = Json::object();
  for (const auto& [setting, value] : values) json[std::string(ToString(setting))] = Format(setting, value);
  return json;
}

Values ValuesOf(const Json& json) {
  Values values;
  if (!json.is_object()) throw Unreadable{};
  for (const auto& [word, text] : json.items()) {
    const auto setting = SettingFromString(word);
    if (!setting) throw Unreadable{};
    values[*setting] = Need(ParseValue(*setting, text.get<std::string>()));
  }
  return values;
}

Json ToJson(const std::optional<base::WallTime>& time) {
  return time ? Json(base::FormatIso8601(*time)) : Json(nullptr);
}

std::optional<base::WallTime> TimeOf(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return Need(base::ParseIso8601(json.get<std::string>()));
}

Json ToJson(const Layer& layer) {
  return {{"name", layer.name},
          {"values", ToJson(layer.values)},
          {"until", ToJson(layer.until)},
          {"job", layer.job ? Json(*layer.job) : Json(nullptr)}};
}

Layer LayerOf(const Json& json) {
  if (json.size() != 4) throw Unreadable{};
  Layer layer{json.at("name"), ValuesOf(json.at("values")), TimeOf(json.at("until")), {}};
  if (!json.at("job").is_null()) layer.job = base::Checked<std::int64_t>(json.at("job"));
  return layer;
}

SettingsRecord RecordOf(const Json& json) {
  if (json.size() != 7 || json.at("v") != kVersion) throw Unreadable{};
  SettingsRecord record;
  record.base = ValuesOf(json.at("base"));
  for (const auto& each : json.at("layers")) record.layers.push_back(LayerOf(each));
  record.before = ValuesOf(json.at("before"));
  record.to_restore = ValuesOf(json.at("owed"));
  record.ecc_asked = TimeOf(json.at("ecc_asked"));
  record.ecc_since = TimeOf(json.at("ecc_since"));
  return record;
}

}  // namespace

const Layer* SettingsRecord::ProfileLayer() const {
  const auto it = std::find_if(layers.begin(), layers.end(), [](const Layer& layer) { return !layer.job; });
  return it == layers.end() ? nullptr : &*it;
}

const Layer* SettingsRecord::JobLayer() const {
  const auto it =
      std::find_if(layers.begin(), layers.end(), [](const Layer& layer) { return layer.job.has_value(); });
  return it == layers.end() ? nullptr : &*it;
}

Values Wanted(const SettingsRecord& record) {
  Values wanted = record.base;
  for (const auto& layer : record.layers)
    for (const auto& [setting, value] : layer.values) wanted[setting] = value;
  return wanted;
}

std::string ReasonOf(const SettingsRecord& record, Setting setting) {
  for (auto layer = record.layers.rbegin(); layer != record.layers.rend(); ++layer) {
    if (!layer->values.contains(setting)) continue;
    if (layer->job) return fmt::format("job {} (profile {})", *layer->job, layer->name);
    return layer->until ? fmt::format("profile {} until {}", layer->name, base::FormatIso8601(*layer->until))
                        : fmt::format("profile {}", layer->name);
  }
  return record.base.contains(setting) ? "asked for" : "";
}

std::string SerializeRecord(const SettingsRecord& record) {
  Json layers = Json::array();
  for (const auto& layer : record.layers) layers.push_back(ToJson(layer));
  const Json json = {{"v", kVersion},
                     {"base", ToJson(record.base)},
                     {"layers", std::move(layers)},
                     {"before", ToJson(record.before)},
                     {"owed", ToJson(record.to_restore)},
                     {"ecc_asked", ToJson(record.ecc_asked)},
                     {"ecc_since", ToJson(record.ecc_since)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

base::Result<SettingsRecord> ParseRecord(std::string_view text) {
  try {
    return RecordOf(Json::parse(text));
  } catch (const Json::exception&) {
  } catch (const Unreadable&) {
  }
  return base::Fail(base::ErrorCode::kCorrupt, "what is wanted of a GPU cannot be read from the store");
}

}  // namespace gpuman::device
