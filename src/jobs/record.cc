#include "jobs/record.h"

#include <nlohmann/json.hpp>

namespace gpuman::jobs {
namespace {

using base::ErrorCode;
using base::Fail;
using Json = nlohmann::json;

template <typename T>
void Put(Json& json, const char* name, const std::optional<T>& value) {
  if (value) json[name] = *value;
}

void PutSize(Json& json, const char* name, const std::optional<base::SizeSpec>& size) {
  if (!size) return;
  if (size->IsRelative())
    json[name] = {{"percent", size->percent}};
  else
    json[name] = {{"bytes", size->bytes.count}};
}

void PutProcess(Json& json, const char* name, const std::optional<base::ProcessId>& process) {
  if (process) json[name] = {{"pid", process->pid}, {"start_time", process->start_time}};
}

void PutTime(Json& json, const char* name, const std::optional<base::WallTime>& time) {
  if (time) json[name] = time->time_since_epoch().count();
}

template <typename T>
void Get(const Json& json, const char* name, T& value) {
  if (auto it = json.find(name); it != json.end()) value = it->get<T>();
}
template <typename T>
void Get(const Json& json, const char* name, std::optional<T>& value) {
  if (auto it = json.find(name); it != json.end()) value = it->get<T>();
}
void GetSize(const Json& json, const char* name, std::optional<base::SizeSpec>& size) {
  auto it = json.find(name);
  if (it == json.end()) return;
  size.emplace();
  Get(*it, "bytes", size->bytes.count);
  Get(*it, "percent", size->percent);
}
void GetProcess(const Json& json, const char* name, std::optional<base::ProcessId>& process) {
  auto it = json.find(name);
  if (it == json.end()) return;
  process = base::ProcessId{it->at("pid").get<pid_t>(), it->at("start_time").get<std::uint64_t>()};
}
void GetTime(const Json& json, const char* name, std::optional<base::WallTime>& time) {
  if (auto it = json.find(name); it != json.end())
    time = base::WallTime(base::Millis(it->get<std::int64_t>()));
}

Json ToJson(const Job& job) {
  Json limits = Json::array();
  for (const auto& [resource, values] : job.resource_limits)
    limits.push_back({resource, values.first, values.second});
  Json json{
      {"id", job.id.value},
      {"tag", job.tag},
      {"uid", job.owner.uid},
      {"gid", job.owner.gid},
      {"groups", job.owner.groups},
      {"user", job.owner.user},
      {"command", job.command},
      {"directory", job.directory},
      {"environment", job.environment.variables()},
      {"umask", job.umask},
      {"resource_limits", std::move(limits)},
      {"gpus", job.gpus},
      {"priority", job.priority},
      {"restart", keeper::ToString(job.restart)},
      {"preload", job.preload},
      {"share", job.share},
      {"weight", job.weight},
      {"oversubscribe", job.oversubscribe},
      {"suspension", job.suspension},
      {"state", ToString(job.state)},
      {"cgroup", job.cgroup},
      {"boot_id", job.boot_id},
      {"submitted_at", job.submitted_at.time_since_epoch().count()},
      {"runs", job.runs},
      {"restarts", job.restarts},
      {"incarnation", job.incarnation},
      {"journal_seq", job.journal_seq},
      {"stop_wanted", job.stop_wanted},
      {"remove_when_ended", job.remove_when_ended},
      {"updated", job.updated},
  };
  PutSize(json, "memory", job.memory);
  PutSize(json, "soft", job.soft);
  if (job.grace) json["grace_ms"] = job.grace->count();
  Put(json, "reason", job.reason);
  Put(json, "reason_detail", job.reason_detail);
  PutProcess(json, "process", job.process);
  PutProcess(json, "keeper", job.keeper);
  Put(json, "exit_code", job.exit_code);
  Put(json, "signal", job.signal);
  if (job.verdict) json["verdict"] = ToString(*job.verdict);
  if (job.peak) json["peak"] = job.peak->count;
  PutTime(json, "started_at", job.started_at);
  PutTime(json, "ended_at", job.ended_at);
  return json;
}

base::Result<Job> FromJson(const Json& json) {
  Job job;
  job.id.value = json.at("id").get<std::int64_t>();
  Get(json, "tag", job.tag);
  Get(json, "uid", job.owner.uid);
  Get(json, "gid", job.owner.gid);
  Get(json, "groups", job.owner.groups);
  Get(json, "user", job.owner.user);
  Get(json, "command", job.command);
  Get(json, "directory", job.directory);
  Environment::Variables variables;
  Get(json, "environment", variables);
  job.environment = Environment(std::move(variables));
  Get(json, "umask", job.umask);
  for (const Json& limit : json.value("resource_limits", Json::array()))
    job.resource_limits[limit.at(0).get<int>()] = {limit.at(1).get<std::uint64_t>(),
                                                   limit.at(2).get<std::uint64_t>()};
  GetSize(json, "memory", job.memory);
  GetSize(json, "soft", job.soft);
  Get(json, "gpus", job.gpus);
  Get(json, "priority", job.priority);
  GPUMAN_ASSIGN(job.restart, keeper::ParseRestartMode(json.value("restart", "no")));
  if (auto it = json.find("grace_ms"); it != json.end()) job.grace = base::Millis(it->get<std::int64_t>());
  Get(json, "preload", job.preload);
  Get(json, "share", job.share);
  Get(json, "weight", job.weight);
  Get(json, "oversubscribe", job.oversubscribe);
  Get(json, "suspension", job.suspension);

  const auto state = JobStateFromString(json.at("state").get<std::string>());
  if (!state) return Fail(ErrorCode::kCorrupt, "unknown state " + json.at("state").dump());
  job.state = *state;
  Get(json, "reason", job.reason);
  Get(json, "reason_detail", job.reason_detail);
  GetProcess(json, "process", job.process);
  GetProcess(json, "keeper", job.keeper);
  Get(json, "cgroup", job.cgroup);
  Get(json, "boot_id", job.boot_id);
  Get(json, "exit_code", job.exit_code);
  Get(json, "signal", job.signal);
  if (auto it = json.find("verdict"); it != json.end())
    job.verdict = JobStateFromString(it->get<std::string>());
  if (auto it = json.find("peak"); it != json.end()) job.peak = base::Bytes{it->get<std::uint64_t>()};
  job.submitted_at = base::WallTime(base::Millis(json.value("submitted_at", std::int64_t{0})));
  GetTime(json, "started_at", job.started_at);
  GetTime(json, "ended_at", job.ended_at);
  Get(json, "runs", job.runs);
  Get(json, "restarts", job.restarts);
  Get(json, "incarnation", job.incarnation);
  Get(json, "journal_seq", job.journal_seq);
  Get(json, "stop_wanted", job.stop_wanted);
  Get(json, "remove_when_ended", job.remove_when_ended);
  Get(json, "updated", job.updated);
  return job;
}

}  // namespace

std::string SerializeJob(const Job& job) {
  return ToJson(job).dump(-1, ' ', false, Json::error_handler_t::replace);
}

base::Result<Job> ParseJob(std::string_view text) {
  try {
    return FromJson(Json::parse(text));
  } catch (const Json::exception& error) {
    return Fail(ErrorCode::kCorrupt, error.what());
  }
}

}  // namespace gpuman::jobs
