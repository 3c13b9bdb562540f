#include "keeper/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "keeper/json.h"
#include "keeper/settings_json.h"

namespace gpuman::keeper {
namespace {

using base::ErrorCode;
using base::Fail;

constexpr std::array<std::pair<std::string_view, int>, 16> kLimits{{
    {"AS", RLIMIT_AS},
    {"CORE", RLIMIT_CORE},
    {"CPU", RLIMIT_CPU},
    {"DATA", RLIMIT_DATA},
    {"FSIZE", RLIMIT_FSIZE},
    {"LOCKS", RLIMIT_LOCKS},
    {"MEMLOCK", RLIMIT_MEMLOCK},
    {"MSGQUEUE", RLIMIT_MSGQUEUE},
    {"NICE", RLIMIT_NICE},
    {"NOFILE", RLIMIT_NOFILE},
    {"NPROC", RLIMIT_NPROC},
    {"RSS", RLIMIT_RSS},
    {"RTPRIO", RLIMIT_RTPRIO},
    {"RTTIME", RLIMIT_RTTIME},
    {"SIGPENDING", RLIMIT_SIGPENDING},
    {"STACK", RLIMIT_STACK},
}};

// null stands for "unlimited".
Json LimitValue(rlim_t value) { return value == RLIM_INFINITY ? Json(nullptr) : Json(value); }
bool LimitValue(const Json& json, rlim_t& out) {
  if (!json.is_null()) return FromJson(json, out);
  out = RLIM_INFINITY;
  return true;
}

Json LimitsToJson(const std::vector<ResourceLimit>& limits) {
  Json object = Json::object();
  for (const auto& limit : limits)
    object[std::string(LimitName(limit.resource))] = {LimitValue(limit.soft), LimitValue(limit.hard)};
  return object;
}

void TakeLimits(Fields& fields, std::vector<ResourceLimit>& limits) {
  const Json* object = fields.Find("limits");
  if (!object) return;
  if (!object->is_object()) return fields.Complain("limits is not an object");
  for (const auto& [name, pair] : object->items()) {
    ResourceLimit limit;
    const auto resource = LimitFromName(name);
    if (!resource || !pair.is_array() || pair.size() != 2 || !LimitValue(pair[0], limit.soft) ||
        !LimitValue(pair[1], limit.hard))
      return fields.Complain("limits." + name + " is no limit and its two values");
    limit.resource = *resource;
    limits.push_back(limit);
  }
}

void TakeLog(Fields& fields, LogSettings& log) {
  const Json* object = fields.Find("log");
  if (!object) return fields.Complain("log is missing");
  Fields inner(*object);
  inner.Need("path", log.path);
  inner.Take("size_limit", log.size_limit);
  inner.Take("rotations", log.rotations);
  if (auto done = inner.Finish("log"); !done) fields.Complain(done.error().message);
}

base::Result<> CheckText(std::string_view text, std::string_view what) {
  if (text.find('\0') != std::string_view::npos)
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} holds a NUL byte", what));
  return {};
}

base::Result<> CheckPath(const std::filesystem::path& path, std::string_view what) {
  if (!path.is_absolute())
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} must be an absolute path, not '{}'", what, path.string()));
  return CheckText(path.native(), what);
}

}  // namespace

std::string_view LimitName(int resource) {
  for (const auto& [name, number] : kLimits)
    if (number == resource) return name;
  return "";
}

std::optional<int> LimitFromName(std::string_view name) {
  for (const auto& [word, number] : kLimits)
    if (word == name) return number;
  return std::nullopt;
}

base::Result<> Validate(const Spec& spec) {
  if (spec.argv.empty() || spec.argv[0].empty())
    return Fail(ErrorCode::kInvalidArgument, "there is no command to run");
  for (const auto& argument : spec.argv) GPUMAN_TRY(CheckText(argument, "an argument"));
  for (const auto* environment : {&spec.environment, &spec.extra_environment})
    for (const auto& entry : *environment) {
      GPUMAN_TRY(CheckText(entry, "the environment"));
      if (entry.find('=') == std::string::npos || entry[0] == '=')
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("'{}' is no environment entry NAME=value", entry));
    }
  GPUMAN_TRY(CheckPath(spec.cwd, "the working directory"));
  GPUMAN_TRY(CheckPath(spec.log.path, "the log"));
  if (!spec.cgroup_parent.empty()) GPUMAN_TRY(CheckPath(spec.cgroup_parent, "the cgroup"));
  for (const auto& limit : spec.limits)
    if (LimitName(limit.resource).empty())
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is no resource limit", limit.resource));
  if (spec.stop_signal < 1 || spec.stop_signal > 64)
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is no signal", spec.stop_signal));
  GPUMAN_TRY(CheckTime(spec.stop_grace, "the stop grace"));
  if (spec.time_limit.limit) GPUMAN_TRY(CheckTime(*spec.time_limit.limit, "the time limit"));
  GPUMAN_TRY(CheckTime(spec.time_limit.warn_before, "the time of the warning"));
  if (spec.time_limit.warn_signal < 0 || spec.time_limit.warn_signal > 64)
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is no signal", spec.time_limit.warn_signal));
  for (const auto* file : {&spec.standard_input, &spec.standard_output, &spec.standard_error})
    GPUMAN_TRY(CheckText(file->native(), "the name of a file"));
  if (spec.host.memory && spec.host.memory->count == 0)
    return Fail(ErrorCode::kInvalidArgument, "a job cannot do with no host memory");
  if (spec.host.cpus < 0)
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is no number of processors", spec.host.cpus));
  GPUMAN_TRY(CheckRotations(spec.log.rotations));
  return CheckPolicy(spec.restart);
}

std::string SerializeSpec(const Spec& spec) {
  Json json = {{"version", kSpecVersion},
               {"job", spec.job_id},
               {"tag", ToJson(spec.tag)},
               {"argv", ToJson(spec.argv)},
               {"uid", spec.uid},
               {"gid", spec.gid},
               {"groups", ToJson(spec.groups)},
               {"cwd", ToJson(spec.cwd)},
               {"environment", ToJson(spec.environment)},
               {"extra_environment", ToJson(spec.extra_environment)},
               {"umask", spec.umask},
               {"limits", LimitsToJson(spec.limits)},
               {"log",
                {{"path", ToJson(spec.log.path)},
                 {"size_limit", ToJson(spec.log.size_limit)},
                 {"rotations", spec.log.rotations}}},
               {"restart", PolicyToJson(spec.restart)},
               {"stop_signal", spec.stop_signal},
               {"stop_grace_ms", ToJson(spec.stop_grace)},
               {"leftovers", spec.leftovers == Leftovers::kEnd ? "end" : "wait"},
               {"use_cgroup", spec.use_cgroup}};
  if (!spec.script.empty()) json["script"] = ToJson(spec.script);
  Put(json, "time_limit_ms", spec.time_limit.limit);
  if (spec.time_limit.warn_signal != 0) {
    json["warn_signal"] = spec.time_limit.warn_signal;
    json["warn_before_ms"] = ToJson(spec.time_limit.warn_before);
  }
  if (!spec.standard_input.empty()) json["stdin"] = ToJson(spec.standard_input);
  if (!spec.standard_output.empty()) json["stdout"] = ToJson(spec.standard_output);
  if (!spec.standard_error.empty()) json["stderr"] = ToJson(spec.standard_error);
  Put(json, "host_memory", spec.host.memory);
  if (spec.host.cpus > 0) json["cpus"] = spec.host.cpus;
  Put(json, "nice", spec.nice);
  Put(json, "oom_score_adj", spec.oom_score_adj);
  if (!spec.cgroup_parent.empty()) json["cgroup_parent"] = ToJson(spec.cgroup_parent);
  return Dump(json);
}

base::Result<Spec> ParseSpec(std::string_view text) {
  GPUMAN_ASSIGN(const Json json, ParseJson(text, "the job specification"));
  Fields fields(json);
  int version = 0;
  fields.Need("version", version);
  if (fields.ok() && version != kSpecVersion)
    return Fail(
        ErrorCode::kNotSupported,
        fmt::format("the job specification has version {}, this keeper knows {}", version, kSpecVersion));
  Spec spec;
  fields.Need("job", spec.job_id);
  fields.Take("tag", spec.tag);
  fields.Need("argv", spec.argv);
  fields.Need("uid", spec.uid);
  fields.Need("gid", spec.gid);
  fields.Take("groups", spec.groups);
  fields.Need("cwd", spec.cwd);
  fields.Need("environment", spec.environment);
  fields.Take("extra_environment", spec.extra_environment);
  fields.Take("umask", spec.umask);
  TakeLimits(fields, spec.limits);
  TakeLog(fields, spec.log);
  TakePolicy(fields, "restart", spec.restart);
  fields.Take("stop_signal", spec.stop_signal);
  fields.Take("stop_grace_ms", spec.stop_grace);
  std::string leftovers = "end";
  fields.Take("leftovers", leftovers);
  if (leftovers != "end" && leftovers != "wait") fields.Complain("leftovers is neither end nor wait");
  spec.leftovers = leftovers == "wait" ? Leftovers::kWait : Leftovers::kEnd;
  fields.Take("script", spec.script);
  fields.Take("time_limit_ms", spec.time_limit.limit);
  fields.Take("warn_signal", spec.time_limit.warn_signal);
  fields.Take("warn_before_ms", spec.time_limit.warn_before);
  fields.Take("host_memory", spec.host.memory);
  fields.Take("cpus", spec.host.cpus);
  fields.Take("stdin", spec.standard_input);
  fields.Take("stdout", spec.standard_output);
  fields.Take("stderr", spec.standard_error);
  fields.Take("use_cgroup", spec.use_cgroup);
  fields.Take("nice", spec.nice);
  fields.Take("oom_score_adj", spec.oom_score_adj);
  fields.Take("cgroup_parent", spec.cgroup_parent);
  GPUMAN_TRY(fields.Finish("the job specification"));
  GPUMAN_TRY(Validate(spec));
  return spec;
}

std::vector<std::string> MergedEnvironment(const Spec& spec) {
  std::vector<std::string> merged;
  std::map<std::string_view, std::size_t> places;
  for (const auto* environment : {&spec.environment, &spec.extra_environment})
    for (const auto& entry : *environment) {
      const auto name = std::string_view(entry).substr(0, entry.find('='));
      const auto [place, is_new] = places.try_emplace(name, merged.size());
      if (is_new)
        merged.push_back(entry);
      else
        merged[place->second] = entry;
    }
  return merged;
}

}  // namespace gpuman::keeper
