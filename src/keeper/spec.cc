#include "keeper/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "keeper/checks.h"
#include "keeper/fields.h"

namespace gpuman::keeper {
namespace {

using base::ErrorCode;
using base::Fail;
using base::json::Json;

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

// "unlimited" is null.
static Json LimitValue(rlim_t value) { return value == RLIM_INFINITY ? Json(nullptr) : Json(value); }
static void ReadLimitValue(base::json::ParseState& r, const base::json::FieldPath& path, const Json& json,
                           rlim_t& out) {
  out = RLIM_INFINITY;
  if (!json.is_null()) Read(r, path, json, out);
}

// An object: {"NOFILE":[1024,4096]}.
static Json Write(const base::json::JsonFormat&, const std::vector<ResourceLimit>& limits) {
  Json object = Json::object();
  for (const auto& limit : limits)
    object[std::string(LimitName(limit.resource))] = {LimitValue(limit.soft), LimitValue(limit.hard)};
  return object;
}
static void Read(base::json::ParseState& r, const base::json::FieldPath& path, const Json& json,
                 std::vector<ResourceLimit>& limits) {
  if (!json.is_object()) return r.WrongType(path, "an object", json);
  for (const auto& [name, pair] : json.items()) {
    const auto resource = LimitFromName(name);
    if (!resource || !pair.is_array() || pair.size() != 2)
      return r.Fail(base::json::FieldPath(path, std::string_view(name)), "it is no limit and its two values");
    auto& limit = limits.emplace_back(ResourceLimit{*resource});
    ReadLimitValue(r, base::json::FieldPath(path, std::string_view(name)), pair[0], limit.soft);
    ReadLimitValue(r, base::json::FieldPath(path, std::string_view(name)), pair[1], limit.hard);
  }
}

template <typename V, base::json::Of<LogSettings> T>
void Fields(V& v, T& x) {
  v.Required("path", x.path);
  v("size_limit", x.size_limit);
  v("rotations", x.rotations);
}

template <typename V, base::json::Of<Spec> T>
void Fields(V& v, T& x) {
  v.Version("version", kSpecVersion);
  v.Required("job", x.job_id);
  v("tag", x.tag);
  v.Required("argv", x.argv);
  v.Changed("script", x.script);
  v.Required("uid", x.uid);
  v.Required("gid", x.gid);
  v("groups", x.groups);
  v.Required("cwd", x.cwd);
  v.Required("environment", x.environment);
  v("extra_environment", x.extra_environment);
  v("umask", x.umask);
  v("limits", x.limits);
  v.Option("nice", x.nice);
  v.Option("oom_score_adj", x.oom_score_adj);
  v.Required("log", x.log);
  v("restart", x.restart);
  v("stop_signal", x.stop_signal);
  v("stop_grace_ms", x.stop_grace);
  v("leftovers", x.leftovers);
  v.Option("time_limit_ms", x.time_limit.limit);
  v.Changed("warn_signal", x.time_limit.warn_signal);
  v.Changed("warn_before_ms", x.time_limit.warn_before);
  v.Option("host_memory", x.host.memory);
  v.Changed("cpus", x.host.cpus);
  v.Changed("stdin", x.standard_input);
  v.Changed("stdout", x.standard_output);
  v.Changed("stderr", x.standard_error);
  v.Changed("cgroup_parent", x.cgroup_parent);
  v.Changed("traces", x.traces);
  v("use_cgroup", x.use_cgroup);
}

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
  if (!spec.traces.empty()) GPUMAN_TRY(CheckPath(spec.traces, "the directory of traces"));
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

std::string SerializeSpec(const Spec& spec) { return base::json::ToText(spec, kFormat); }

base::Result<Spec> ParseSpec(std::string_view text) {
  GPUMAN_ASSIGN(auto spec, base::json::FromText<Spec>(text, kFormat, "the job specification"));
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
