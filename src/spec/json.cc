#include "spec/json.h"

#include <optional>
#include <string>

#include "base/json.h"

namespace gpuman::spec {
namespace {

using base::json::Json;

constexpr base::json::JsonFormat kFormat{.times = base::json::TimeForm::kMillis};
constexpr int kVersion = 1;

}  // namespace

// Writes ["afterok",7], so that the text for an array of many jobs is short.
static Json Write(const base::json::JsonFormat&, const Dependency& each) {
  return Json::array({ToString(each.kind), each.job.value});
}
static void Read(base::json::ParseState& r, const base::json::FieldPath& path, const Json& json,
                 Dependency& out) {
  if (!json.is_array() || json.size() != 2) return r.Fail(path, "it is no kind and job");
  base::json::Read(r, path, json[0], out.kind);
  base::json::Read(r, path, json[1], out.job);
}

template <typename V, base::json::Of<Dependencies> T>
void Fields(V& v, T& x) {
  v.Changed("mode", x.mode);
  v.Changed("list", x.list);
}

template <typename V, base::json::Of<JobSpec> T>
void Fields(V& v, T& x) {
  v.Version("v", kVersion);
  OptionFields(v, x);
  v.Changed("script", x.script);
  v.Changed("gpus", x.gpus);
  v.Option("memory_on_each", x.memory_on_each);
  v.Changed("restart", x.restart);
  v.Changed("depends", x.depends);
}

std::string Serialize(const JobSpec& spec) { return base::json::ToText(spec, kFormat); }

// Older specs have the group and its limit in an object, {"group":{"name":"g","limit":2}}, and `auto_cancel`
// among the dependencies. The same with those where they are now; nullopt: it has them there.
static std::optional<Json> WithoutOlderParts(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto group = json.find("group");
  const auto depends = json.find("depends");
  const bool older_group = group != json.end() && group->is_object();
  const bool older_depends =
      depends != json.end() && depends->is_object() && depends->contains("auto_cancel");
  if (!older_group && !older_depends) return std::nullopt;
  Json now = json;
  if (older_group) {
    now.erase("group");
    if (group->contains("name")) now["group"] = group->at("name");
    if (group->contains("limit")) now["max_concurrent"] = group->at("limit");
  }
  if (older_depends) now["auto_cancel"] = depends->at("auto_cancel");
  return now;
}

base::Result<JobSpec> JobSpecOf(const Json& json) {
  const auto now = WithoutOlderParts(json);
  return base::json::FromJson<JobSpec>(now ? *now : json, kFormat, "a job's spec");
}

JobSpec WithoutChange(const JobSpec& now, const JobSpec& before, const JobSpec& changed) {
  using base::json::Write;
  Json fields = Write(kFormat, now);
  const Json old_fields = Write(kFormat, before);
  const Json new_fields = Write(kFormat, changed);
  // A field that has its default is not written.
  const auto field_of = [](const Json& all, const std::string& name) {
    const auto it = all.find(name);
    return it == all.end() ? std::nullopt : std::optional(*it);
  };
  const auto take_back = [&](const std::string& name) {
    const auto was = field_of(old_fields, name);
    const auto set_to = field_of(new_fields, name);
    if (was == set_to || field_of(fields, name) != set_to) return;
    if (was)
      fields[name] = *was;
    else
      fields.erase(name);
  };
  for (const auto& [name, value] : old_fields.items()) take_back(name);
  for (const auto& [name, value] : new_fields.items()) take_back(name);
  return JobSpecOf(fields).value_or(before);
}

base::Result<JobSpec> ParseJobSpec(std::string_view text) {
  const auto json = base::json::Parse(text);
  if (!json) return base::Fail(base::ErrorCode::kCorrupt, "a job's spec cannot be read: it is no JSON");
  GPUMAN_ASSIGN(auto spec, JobSpecOf(*json));
  if (auto valid = Validate(spec); !valid)
    return base::Fail(base::ErrorCode::kCorrupt, "a job's spec cannot be used: " + valid.error().message);
  return spec;
}

}  // namespace gpuman::spec
