#include "jobs/record.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "jobs/fast_json.h"
#include "spec/json.h"

namespace gpuman::jobs {
namespace {

using base::json::Json;

constexpr base::json::JsonFormat kFormat{.times = base::json::TimeForm::kMillis};

// The soft and the hard value of a limit: [RLIMIT_…, soft, hard].
struct LimitRow {
  int resource = 0;
  std::uint64_t soft = 0, hard = 0;
};

Json Write(const base::json::JsonFormat&, const LimitRow& row) {
  return Json::array({row.resource, row.soft, row.hard});
}
void Read(base::json::ParseState& r, const base::json::FieldPath& path, const Json& json, LimitRow& row) {
  if (!json.is_array() || json.size() != 3) return r.Fail(path, "it is no limit and its two values");
  using base::json::Read;
  Read(r, path, json[0], row.resource);
  Read(r, path, json[1], row.soft);
  Read(r, path, json[2], row.hard);
}

ResourceLimits LimitsOf(const std::vector<LimitRow>& rows) {
  ResourceLimits limits;
  for (const auto& row : rows) limits[row.resource] = {row.soft, row.hard};
  return limits;
}

}  // namespace

template <typename T>
Json Write(const base::json::JsonFormat& format, const Shared<T>& value) {
  return Write(format, *value);
}
template <typename T>
void Read(base::json::ParseState& r, const base::json::FieldPath& path, const Json& json, Shared<T>& out) {
  T value;
  Read(r, path, json, value);
  out = std::move(value);
}

template <typename V, base::json::Of<JobOwner> T>
void Fields(V& v, T& x) {
  v("uid", x.uid);
  v("gid", x.gid);
  v.Changed("groups", x.groups);
  v.Changed("user", x.user);
}

template <typename V, base::json::Of<Container> T>
void Fields(V& v, T& x) {
  v("namespace", x.name_space);
  v("pod", x.pod);
  v("name", x.name);
  v("id", x.id);
}

template <typename V, typename T>
static void RareOption(V& v, const char* name, T& value) {
  auto optional = value.Optional();
  v.Option(name, optional);
  if constexpr (V::kReads) value = std::move(optional);
}

template <typename V, base::json::Of<FirstRefusal> T>
void Fields(V& v, T& x) {
  v("asked", x.asked);
  v("used", x.used);
  v.Option("limit", x.limit);
  v("at", x.at);
  v.Option("parts", x.parts);
  v.Option("pools_unused", x.pools_unused);
  v.Option("device_free", x.device_free);
}

template <typename V, base::json::Of<RefusedAllocation> T>
void Fields(V& v, T& x) {
  v("gpu", x.gpu);
  v("asked", x.asked);
  v("used", x.used);
  v("by", x.by);
  v("at", x.at);
  v.Option("limit", x.limit);
  v.Changed("context", x.context);
  v.Option("count", x.count);
  v.Option("first", x.first);
  v.Option("parts", x.parts);
  v.Option("pools_unused", x.pools_unused);
  v.Option("device_free", x.device_free);
}

template <typename V, base::json::Of<MemoryPeak> T>
void Fields(V& v, T& x) {
  v("gpu", x.gpu);
  v.Option("pid", x.pid);
  v.Changed("program", x.program);
  v("bytes", x.bytes);
  v.Option("parts", x.parts);
}

template <typename V, base::json::Of<MoreMemory> T>
void Fields(V& v, T& x) {
  v("had", x.had);
  v.Changed("asked", x.asked);
  v("next", x.next);
  v.Changed("granted", x.granted);
}

// The fields of a spec that an older gpuman wrote into the record of the job.
static void ReadOlderSpec(base::json::JsonObjectReader& v, Shared<spec::JobSpec>& spec) {
  constexpr std::array kNames{"memory",        "soft",    "priority",    "restart",
                              "grace_ms",      "preload", "share",       "weight",
                              "oversubscribe", "mps",     "mps_threads", "device_profile"};
  if (std::none_of(kNames.begin(), kNames.end(), [&](const char* name) { return v.Has(name); })) return;
  spec.Change([&](spec::JobSpec& x) {
    v("memory", x.memory);
    v("soft", x.soft);
    v("priority", x.priority);
    v("restart", x.restart);
    v("grace_ms", x.grace);
    v("preload", x.preload);
    v("share", x.share);
    v("weight", x.weight);
    v("oversubscribe", x.oversubscribe);
    v("device_profile", x.device_profile);
    v("mps", x.mps);
    v("mps_threads", x.mps_threads);
  });
}

template <typename V, base::json::Of<Job> T>
static void RequestFields(V& v, T& x) {
  v.Changed("tag", x.tag);
  if constexpr (V::kReads) {
    JobOwner owner;
    Fields(v, owner);
    x.owner = std::move(owner);
    // Where an older gpuman wrote them.
    v("environment", x.environment);
    std::vector<LimitRow> limits;
    v("resource_limits", limits);
    x.resource_limits = LimitsOf(limits);
    std::optional<Container> container;
    v("container", container);
    if (container) x.container = std::make_shared<const Container>(std::move(*container));
    ReadOlderSpec(v, x.spec);
  } else {
    Fields(v, *x.owner);
    if (x.container) v("container", *x.container);
  }
  v("command", x.command);
  v.Changed("directory", x.directory);
  v.Changed("umask", x.umask, 022);
  v.Changed("gpus", x.gpus);
  v.Changed("queued", x.queued);
  v.Changed("attached", x.attached);
  v.Changed("array", x.array.array);
  v.Changed("array_task", x.array.task);
  v.Changed("array_limit", x.array.limit);
  v.Changed("redo_of", x.redo_of);
}

template <typename V, base::json::Of<Job> T>
static void ProgressFields(V& v, T& x) {
  v.Required("state", x.state);
  v.Check(x.state != JobState::kSuspended, "state", "a record has no suspended job");
  v.Option("reason", x.reason);
  v.Option("reason_detail", x.reason_detail);
  v.Option("process", x.process);
  v.Option("keeper", x.keeper);
  v.Changed("cgroup", x.cgroup);
  v.Changed("boot_id", x.boot_id);
  v.Option("exit_code", x.exit_code);
  v.Option("signal", x.signal);
  v.Option("verdict", x.verdict);
  v.Option("peak", x.peak);
  RareOption(v, "peak_parts", x.peak_parts);
  RareOption(v, "peaks", x.peaks);
  v("submitted_at", x.submitted_at);
  v.Option("started_at", x.started_at);
  v.Option("ended_at", x.ended_at);
  v.Changed("suspension", x.suspension);
  v.Changed("notes", x.notes);
  RareOption(v, "refusal", x.refusal);
  RareOption(v, "more_memory", x.more_memory);
  v.Option("energy_used", x.energy_used);
  v.Changed("runs", x.runs);
  v.Changed("restarts", x.restarts);
  v.Changed("attempts", x.attempts);
  if constexpr (V::kReads) {
    x.waiting_since = x.queued ? x.submitted_at : base::WallTime{};
    v("waiting_since", x.waiting_since);
  } else if (x.queued) {
    v.Changed("waiting_since", x.waiting_since, x.submitted_at);
  }
  v.Option("not_before", x.not_before);
  v.Changed("suspended_ms", x.suspended);
  v.Option("off_since", x.off_since);
  v.Changed("incarnation", x.incarnation, 1);
  v.Changed("journal_seq", x.journal_seq);
  v.Changed("stop_wanted", x.stop_wanted);
  v.Changed("remove_when_ended", x.remove_when_ended);
  v.Changed("requeue_when_ended", x.requeue_when_ended);
  v.Changed("cancel_wanted", x.cancel_wanted);
  v.Changed("gated", x.gated);
  v.Changed("updated", x.updated);
}

template <typename V, base::json::Of<Job> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  RequestFields(v, x);
  ProgressFields(v, x);
}

std::string SerializeJob(const Job& job) { return base::json::ToText(job, kFormat); }
std::string Serialize(const Environment& environment) { return base::json::ToText(*environment, kFormat); }
std::string Serialize(const ResourceLimits& limits) {
  std::vector<LimitRow> rows;
  for (const auto& [resource, values] : limits) rows.push_back({resource, values.first, values.second});
  return base::json::ToText(rows, kFormat);
}
template <typename T>
static base::Result<T> Parse(std::string_view text, std::string_view what) {
  GPUMAN_ASSIGN(const auto json, ParseFast(text));
  return base::json::FromJson<T>(json, kFormat, what);
}

base::Result<Job> ParseJob(std::string_view text, Shared<spec::JobSpec> spec) {
  GPUMAN_ASSIGN(const auto json, ParseFast(text));
  base::json::ParseState state{.format = kFormat};
  Job job;
  job.spec = std::move(spec);
  base::json::Read(state, {}, json, job);
  if (state.failed())
    return base::Fail(base::ErrorCode::kCorrupt, "a job's record cannot be read: " + state.error);
  return job;
}
base::Result<Environment> ParseEnvironment(std::string_view text) {
  GPUMAN_ASSIGN(auto variables, Parse<Variables>(text, "a job's environment"));
  return Environment(std::move(variables));
}
base::Result<ResourceLimits> ParseLimits(std::string_view text) {
  GPUMAN_ASSIGN(const auto rows, Parse<std::vector<LimitRow>>(text, "a job's limits"));
  return LimitsOf(rows);
}
// {"request":"{…}","script":"…"} and copies of fields of the request.
static base::Result<spec::JobSpec> OlderSpec(const Json& json) {
  std::string request, script;
  base::json::ParseState state{.format = kFormat};
  base::json::JsonObjectReader older(state, {}, json);
  older("request", request);
  older("script", script);
  if (state.failed())
    return base::Fail(base::ErrorCode::kCorrupt, "a job's spec cannot be read: " + state.error);
  if (request.empty()) return spec::JobSpec{};
  auto spec = spec::ParseJobSpec(request).value_or(spec::JobSpec{});
  spec.script = std::move(script);
  // The older spec has `memory` as a number. The fields below are in the job's record if they differ from the
  // default.
  if (spec.memory) spec.memory_on_each = spec.memory->bytes;
  const spec::JobSpec usual;
  spec.memory = usual.memory;
  spec.priority = usual.priority;
  spec.share = usual.share;
  spec.device_profile = usual.device_profile;
  return spec;
}

base::Result<spec::JobSpec> ParseSpec(std::string_view text) {
  GPUMAN_ASSIGN(const auto json, ParseFast(text));
  if (json.is_object() && !json.contains("v")) return OlderSpec(json);
  GPUMAN_ASSIGN(auto spec, spec::JobSpecOf(json));
  // A spec that cannot be used becomes an empty one: the job is shown, and can be cancelled.
  if (!spec::Validate(spec)) spec = spec::JobSpec{};
  return spec;
}

}  // namespace gpuman::jobs
