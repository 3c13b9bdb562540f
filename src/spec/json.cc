#include "spec/json.h"

#include <optional>
#include <string>

#include "base/json.h"

namespace gpuman::spec {
namespace {

using base::json::Json;

constexpr base::json::Format kFormat{.times = base::json::TimeForm::kMillis};
constexpr int kVersion = 1;

}  // namespace

// Writes ["afterok",7], so that the text for an array of many jobs is short.
static Json Write(const base::json::Format&, const Dependency& each) {
  return Json::array({ToString(each.kind), each.job.value});
}
static void Read(base::json::ParseState& r, const base::json::Path& path, const Json& json, Dependency& out) {
  if (!json.is_array() || json.size() != 2) return r.Fail(path, "it is no kind and job");
  base::json::Read(r, path, json[0], out.kind);
  base::json::Read(r, path, json[1], out.job);
}

template <typename V, base::json::Of<Dependencies> T>
void Fields(V& v, T& x) {
  v.Changed("mode", x.mode);
  v.Changed("list", x.list);
  v.Changed("auto_cancel", x.auto_cancel, true);
}

template <typename V, base::json::Of<Group> T>
void Fields(V& v, T& x) {
  v.Changed("name", x.name);
  v.Changed("limit", x.limit);
}

template <typename V, base::json::Of<Notify> T>
void Fields(V& v, T& x) {
  v.Changed("webhooks", x.webhooks);
  v.Changed("mails", x.mails);
  v.Changed("on", x.on);
}

template <typename V, base::json::Of<JobSpec> T>
void Fields(V& v, T& x) {
  v.Version("v", kVersion);
  OptionFields(v, x);
  v.Changed("script", x.script);
  v.Changed("gpus", x.gpus);
  v.Option("memory_on_each", x.memory_on_each);
  v.Changed("warn_signal", x.warn_signal);
  v.Changed("warn_before_ms", x.warn_before);
  v.Changed("restart", x.restart);
  v.Changed("depends", x.depends);
  v.Changed("group", x.group);
  v.Changed("notify", x.notify);
}

std::string Serialize(const JobSpec& spec) { return base::json::ToText(spec, kFormat); }

base::Result<JobSpec> JobSpecOf(const Json& json) {
  return base::json::FromJson<JobSpec>(json, kFormat, "a job's spec");
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
