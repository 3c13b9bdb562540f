#include "device/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/json.h"

namespace gpuman::device {
namespace {

using base::json::Json;
constexpr base::json::JsonFormat kFormat{.strict = true};

}  // namespace

static Json Write(const base::json::JsonFormat&, const Values& values) {
  Json json = Json::object();
  for (const auto& [setting, value] : values) json[std::string(ToString(setting))] = Format(setting, value);
  return json;
}

static void Read(base::json::ParseState& r, const base::json::FieldPath& path, const Json& json,
                 Values& values) {
  std::map<std::string, std::string> texts;
  Read(r, path, json, texts);
  for (const auto& [word, text] : texts) {
    const auto setting = SettingFromString(word);
    if (!setting) return r.Fail(path, fmt::format("'{}' is no setting", word));
    const auto value = ParseValue(*setting, text);
    if (!value) return r.Fail(path, value.error().message);
    values[*setting] = *value;
  }
}

template <typename V, base::json::Of<ActiveProfile> T>
void Fields(V& v, T& x) {
  v.Required("name", x.name);
  v.Required("values", x.values);
  v.Required("until", x.until);
  v.Required("job", x.job);
}

template <typename V, base::json::Of<SettingsRecord> T>
void Fields(V& v, T& x) {
  v.Version("v", 1);
  v.Required("base", x.base);
  v.Required("layers", x.layers);
  v.Required("before", x.before);
  v.Required("owed", x.to_restore);
  v.Required("ecc_asked", x.ecc_asked);
  v.Required("ecc_since", x.ecc_since);
}

const ActiveProfile* SettingsRecord::ProfileLayer() const {
  const auto it =
      std::find_if(layers.begin(), layers.end(), [](const ActiveProfile& layer) { return !layer.job; });
  return it == layers.end() ? nullptr : &*it;
}

const ActiveProfile* SettingsRecord::JobLayer() const {
  const auto it = std::find_if(layers.begin(), layers.end(),
                               [](const ActiveProfile& layer) { return layer.job.has_value(); });
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

std::string SerializeRecord(const SettingsRecord& record) { return base::json::ToText(record, kFormat); }

base::Result<SettingsRecord> ParseRecord(std::string_view text) {
  return base::json::FromText<SettingsRecord>(text, kFormat, "the record of what is wanted of a GPU");
}

}  // namespace gpuman::device
