#include "jobs/record.h"

#include <nlohmann/json.hpp>

#include "base/json_number.h"
#include "jobs/json_members.h"

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

// `Object`: Json, or JsonMembers.
template <typename Object, typename T>
void Get(const Object& json, const char* name, T& value) {
  if (auto it = json.find(name); it != json.end()) value = base::Checked<T>(*it);
}
template <typename Object, typename T>
void Get(const Object& json, const char* name, std::optional<T>& value) {
  if (auto it = json.find(name); it != json.end()) value = base::Checked<T>(*it);
}
template <typename Object>
void GetMillis(const Object& json, const char* name, base::Millis& time) {
  if (auto it = json.find(name); it != json.end()) time = base::Millis(base::Checked<std::int64_t>(*it));
}
void GetSize(const JsonMembers& json, const char* name, std::optional<base::SizeSpec>& size) {
  auto it = json.find(name);
  if (it == json.end()) return;
  size.emplace();
  Get(*it, "bytes", size->bytes.count);
  Get(*it, "percent", size->percent);
  if (!(size->percent >= 0 && size->percent <= 100)) throw base::NoSuchNumber("no percentage");
}
void GetProcess(const JsonMembers& json, const char* name, std::optional<base::ProcessId>& process) {
  auto it = json.find(name);
  if (it == json.end()) return;
  process = base::ProcessId{base::Checked<pid_t>(it->at("pid")),
                            base::Checked<std::uint64_t>(it->at("start_time"))};
}
void GetTime(const JsonMembers& json, const char* name, std::optional<base::WallTime>& time) {
  if (auto it = json.find(name); it != json.end())
    time = base::WallTime(base::Millis(base::Checked<std::int64_t>(*it)));
}

void PutRefusal(Json& json, const std::optional<RefusedAllocation>& refusal) {
  if (!refusal) return;
  Json& object = json["refusal"] = {{"gpu", refusal->gpu},
                                    {"asked", refusal->asked.count},
                                    {"used", refusal->used.count},
                                    {"by", refusal->by},
                                    {"at", refusal->at.time_since_epoch().count()}};
  if (refusal->limit) object["limit"] = refusal->limit->count;
}

void GetRefusal(const JsonMembers& json, std::optional<RefusedAllocation>& refusal) {
  const auto it = json.find("refusal");
  if (it == json.end()) return;
  refusal.emplace();
  Get(*it, "gpu", refusal->gpu);
  Get(*it, "asked", refusal->asked.count);
  Get(*it, "used", refusal->used.count);
  Get(*it, "by", refusal->by);
  base::Millis at{};
  GetMillis(*it, "at", at);
  refusal->at = base::WallTime(at);
  if (it->contains("limit")) Get(*it, "limit", refusal->limit.emplace().count);
}

// Writes only what differs from the default.
template <typename T>
void PutUnless(Json& json, const char* name, const T& value, const T& usual) {
  if (!(value == usual)) json[name] = value;
}

Json LimitsToJson(const ResourceLimits& limits) {
  Json list = Json::array();
  for (const auto& [resource, values] : limits) list.push_back({resource, values.first, values.second});
  return list;
}

ResourceLimits LimitsFromJson(const Json& list) {
  ResourceLimits limits;
  for (const Json& limit : list)
    limits[base::Checked<int>(limit.at(0))] = {base::Checked<std::uint64_t>(limit.at(1)),
                                               base::Checked<std::uint64_t>(limit.at(2))};
  return limits;
}

void PutRequest(Json& json, const Job& job, const Job& usual) {
  PutUnless(json, "tag", job.tag, usual.tag);
  json["uid"] = job.owner->uid;
  json["gid"] = job.owner->gid;
  PutUnless(json, "groups", job.owner->groups, usual.owner->groups);
  PutUnless(json, "user", job.owner->user, usual.owner->user);
  json["command"] = job.command;
  PutUnless(json, "directory", *job.directory, *usual.directory);
  PutUnless(json, "umask", job.umask, usual.umask);
  PutUnless(json, "gpus", job.gpus, usual.gpus);
  PutUnless(json, "priority", job.priority, usual.priority);
  if (job.restart != usual.restart) json["restart"] = keeper::ToString(job.restart);
  PutUnless(json, "preload", job.preload, usual.preload);
  PutUnless(json, "share", job.share, usual.share);
  PutUnless(json, "weight", job.weight, usual.weight);
  PutUnless(json, "oversubscribe", job.oversubscribe, usual.oversubscribe);
  PutUnless(json, "device_profile", job.device_profile, usual.device_profile);
  PutUnless(json, "mps", job.mps, usual.mps);
  PutUnless(json, "mps_threads", job.mps_threads, usual.mps_threads);
  PutSize(json, "memory", job.memory);
  PutSize(json, "soft", job.soft);
  if (job.grace) json["grace_ms"] = job.grace->count();
  PutUnless(json, "queued", job.queued, usual.queued);
  PutUnless(json, "attached", job.attached, usual.attached);
  if (job.container)
    json["container"] = {{"namespace", job.container->name_space},
                         {"pod", job.container->pod},
                         {"name", job.container->name},
                         {"id", job.container->id}};
  PutUnless(json, "array", job.array.array.value, usual.array.array.value);
  PutUnless(json, "array_task", job.array.task, usual.array.task);
  PutUnless(json, "array_limit", job.array.limit, usual.array.limit);
  PutUnless(json, "redo_of", job.redo_of.value, usual.redo_of.value);
}

void PutProgress(Json& json, const Job& job, const Job& usual) {
  json["state"] = ToString(job.state);
  Put(json, "reason", job.reason);
  Put(json, "reason_detail", job.reason_detail);
  PutProcess(json, "process", job.process);
  PutProcess(json, "keeper", job.keeper);
  PutUnless(json, "cgroup", job.cgroup, usual.cgroup);
  PutUnless(json, "boot_id", job.boot_id, usual.boot_id);
  Put(json, "exit_code", job.exit_code);
  Put(json, "signal", job.signal);
  if (job.verdict) json["verdict"] = ToString(*job.verdict);
  if (job.peak) json["peak"] = job.peak->count;
  json["submitted_at"] = job.submitted_at.time_since_epoch().count();
  PutTime(json, "started_at", job.started_at);
  PutTime(json, "ended_at", job.ended_at);
  PutUnless(json, "suspension", job.suspension, usual.suspension);
  PutUnless(json, "notes", job.notes, usual.notes);
  PutRefusal(json, job.refusal);
  PutUnless(json, "energy_before", job.energy_before, usual.energy_before);
  Put(json, "energy_used", job.energy_used);
  PutUnless(json, "runs", job.runs, usual.runs);
  PutUnless(json, "restarts", job.restarts, usual.restarts);
  PutUnless(json, "attempts", job.attempts, usual.attempts);
  if (job.queued && job.waiting_since != job.submitted_at)
    json["waiting_since"] = job.waiting_since.time_since_epoch().count();
  PutTime(json, "not_before", job.not_before);
  PutUnless(json, "suspended_ms", job.suspended.count(), usual.suspended.count());
  PutTime(json, "off_since", job.off_since);
  PutUnless(json, "incarnation", job.incarnation, usual.incarnation);
  PutUnless(json, "journal_seq", job.journal_seq, usual.journal_seq);
  PutUnless(json, "stop_wanted", job.stop_wanted, usual.stop_wanted);
  PutUnless(json, "remove_when_ended", job.remove_when_ended, usual.remove_when_ended);
  PutUnless(json, "requeue_when_ended", job.requeue_when_ended, usual.requeue_when_ended);
  PutUnless(json, "cancel_wanted", job.cancel_wanted, usual.cancel_wanted);
  PutUnless(json, "updated", job.updated, usual.updated);
}

Json ToJson(const Job& job) {
  static const Job kUsual;
  Json json{{"id", job.id.value}};
  PutRequest(json, job, kUsual);
  PutProgress(json, job, kUsual);
  return json;
}

void GetRequest(const JsonMembers& json, Job& job) {
  Get(json, "tag", job.tag);
  Owner owner;
  Get(json, "uid", owner.uid);
  Get(json, "gid", owner.gid);
  Get(json, "groups", owner.groups);
  Get(json, "user", owner.user);
  job.owner = std::move(owner);
  Get(json, "command", job.command);
  std::string directory;
  Get(json, "directory", directory);
  job.directory = std::move(directory);
  if (auto it = json.find("environment"); it != json.end())
    job.environment = Environment(base::Checked<Variables>(*it));
  Get(json, "umask", job.umask);
  if (auto it = json.find("resource_limits"); it != json.end()) job.resource_limits = LimitsFromJson(*it);
  GetSize(json, "memory", job.memory);
  GetSize(json, "soft", job.soft);
  Get(json, "gpus", job.gpus);
  Get(json, "priority", job.priority);
  if (auto it = json.find("grace_ms"); it != json.end())
    job.grace = base::Millis(base::Checked<std::int64_t>(*it));
  Get(json, "preload", job.preload);
  Get(json, "share", job.share);
  Get(json, "weight", job.weight);
  Get(json, "oversubscribe", job.oversubscribe);
  Get(json, "device_profile", job.device_profile);
  Get(json, "mps", job.mps);
  Get(json, "mps_threads", job.mps_threads);
  Get(json, "queued", job.queued);
  Get(json, "attached", job.attached);
  if (auto it = json.find("container"); it != json.end()) {
    Container container;
    Get(*it, "namespace", container.name_space);
    Get(*it, "pod", container.pod);
    Get(*it, "name", container.name);
    Get(*it, "id", container.id);
    job.container = std::make_shared<const Container>(std::move(container));
  }
  Get(json, "array", job.array.array.value);
  Get(json, "array_task", job.array.task);
  Get(json, "array_limit", job.array.limit);
  Get(json, "redo_of", job.redo_of.value);
}

void GetProgress(const JsonMembers& json, Job& job) {
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
  if (auto it = json.find("peak"); it != json.end())
    job.peak = base::Bytes{base::Checked<std::uint64_t>(*it)};
  std::optional<base::WallTime> submitted;
  GetTime(json, "submitted_at", submitted);
  job.submitted_at = submitted.value_or(base::WallTime{});
  GetTime(json, "started_at", job.started_at);
  GetTime(json, "ended_at", job.ended_at);
  Get(json, "suspension", job.suspension);
  Get(json, "notes", job.notes);
  GetRefusal(json, job.refusal);
  Get(json, "energy_before", job.energy_before);
  Get(json, "energy_used", job.energy_used);
  Get(json, "runs", job.runs);
  Get(json, "restarts", job.restarts);
  Get(json, "attempts", job.attempts);
  std::optional<base::WallTime> since;
  GetTime(json, "waiting_since", since);
  job.waiting_since = since.value_or(job.queued ? job.submitted_at : base::WallTime{});
  GetTime(json, "not_before", job.not_before);
  GetMillis(json, "suspended_ms", job.suspended);
  GetTime(json, "off_since", job.off_since);
  Get(json, "incarnation", job.incarnation);
  Get(json, "journal_seq", job.journal_seq);
  Get(json, "stop_wanted", job.stop_wanted);
  Get(json, "remove_when_ended", job.remove_when_ended);
  Get(json, "requeue_when_ended", job.requeue_when_ended);
  Get(json, "cancel_wanted", job.cancel_wanted);
  Get(json, "updated", job.updated);
}

base::Result<Job> FromJson(const JsonMembers& json) {
  Job job;
  const auto id = json.find("id"), state_word = json.find("state");
  if (id == json.end() || state_word == json.end())
    return Fail(ErrorCode::kCorrupt, "it has no id, or no state");
  job.id.value = base::Checked<std::int64_t>(*id);
  GetRequest(json, job);
  GPUMAN_ASSIGN(job.restart, keeper::ParseRestartMode(json.value<std::string>("restart", "no")));
  const auto state = JobStateFromString(state_word->get<std::string>());
  if (!state) return Fail(ErrorCode::kCorrupt, "unknown state " + state_word->dump());
  job.state = *state;
  GetProgress(json, job);
  return job;
}

Json QueueSpecToJson(const QueueSpec& queue_spec) {
  static const QueueSpec kUsual;
  Json json = Json::object();
  PutUnless(json, "request", queue_spec.request, kUsual.request);
  PutUnless(json, "script", queue_spec.script, kUsual.script);
  PutUnless(json, "project", queue_spec.project, kUsual.project);
  if (queue_spec.retries.count > 0)
    json["retries"] = {{"count", queue_spec.retries.count},
                       {"delay_ms", queue_spec.retries.delay.count()},
                       {"on_exit_codes", queue_spec.retries.on_exit_codes}};
  if (queue_spec.time_limit) json["time_limit_ms"] = queue_spec.time_limit->count();
  PutUnless(json, "warn_signal", queue_spec.warn_signal, kUsual.warn_signal);
  PutUnless(json, "warn_before_ms", queue_spec.warn_before.count(), kUsual.warn_before.count());
  if (queue_spec.host_memory) json["host_memory"] = queue_spec.host_memory->count;
  PutUnless(json, "cpus", queue_spec.cpus, kUsual.cpus);
  PutUnless(json, "stdin", queue_spec.standard_input, kUsual.standard_input);
  PutUnless(json, "stdout", queue_spec.standard_output, kUsual.standard_output);
  PutUnless(json, "stderr", queue_spec.standard_error, kUsual.standard_error);
  return json;
}

QueueSpec QueueSpecFromJson(const Json& json) {
  QueueSpec queue_spec;
  Get(json, "request", queue_spec.request);
  Get(json, "script", queue_spec.script);
  Get(json, "project", queue_spec.project);
  if (auto it = json.find("retries"); it != json.end()) {
    queue_spec.retries.count = base::Checked<int>(it->at("count"));
    GetMillis(*it, "delay_ms", queue_spec.retries.delay);
    Get(*it, "on_exit_codes", queue_spec.retries.on_exit_codes);
  }
  if (auto it = json.find("time_limit_ms"); it != json.end())
    queue_spec.time_limit = base::Millis(base::Checked<std::int64_t>(*it));
  Get(json, "warn_signal", queue_spec.warn_signal);
  GetMillis(json, "warn_before_ms", queue_spec.warn_before);
  if (auto it = json.find("host_memory"); it != json.end())
    queue_spec.host_memory = base::Bytes{base::Checked<std::uint64_t>(*it)};
  Get(json, "cpus", queue_spec.cpus);
  Get(json, "stdin", queue_spec.standard_input);
  Get(json, "stdout", queue_spec.standard_output);
  Get(json, "stderr", queue_spec.standard_error);
  return queue_spec;
}

std::string Text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <typename Read>
auto Parsed(std::string_view text, Read&& read) -> base::Result<decltype(read(Json()))> {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    return Fail(ErrorCode::kCorrupt, error.what());
  }
}

}  // namespace

std::string SerializeJob(const Job& job) { return Text(ToJson(job)); }
std::string Serialize(const Environment& environment) { return Text(*environment); }
std::string Serialize(const ResourceLimits& limits) { return Text(LimitsToJson(limits)); }
std::string Serialize(const QueueSpec& queue_spec) { return Text(QueueSpecToJson(queue_spec)); }

base::Result<Job> ParseJob(std::string_view text) {
  try {
    GPUMAN_ASSIGN(const auto members, JsonMembers::Parse(text));
    return FromJson(members);
  } catch (const Json::exception& error) {
    return Fail(ErrorCode::kCorrupt, error.what());
  }
}

base::Result<Environment> ParseEnvironment(std::string_view text) {
  return Parsed(text, [](const Json& json) { return Environment(base::Checked<Variables>(json)); });
}
base::Result<ResourceLimits> ParseLimits(std::string_view text) { return Parsed(text, LimitsFromJson); }
base::Result<QueueSpec> ParseQueueSpec(std::string_view text) { return Parsed(text, QueueSpecFromJson); }

}  // namespace gpuman::jobs
