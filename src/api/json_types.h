// Internal: the fields of types.h, and of the queue's part of a job.
//
// One list of fields for each type, in the order in which they are written. `T` is const when writing.
#pragma once

#include "api/types.h"
#include "base/json.h"
#include "spec/job_options.h"

namespace gpuman::api {

template <typename V, base::json::Of<RunRequest> T>
void Fields(V& v, T& x) {
  v.Required("tag", x.tag);
  v.Required("command", x.command);
  v("directory", x.directory);
  v("environment", x.environment);
  v("umask", x.umask);
  v("gpus", x.gpus);
  v.Changed("restart", x.restart);
  spec::RunOptionFields(v, x);
}

template <typename V, base::json::Of<ResumeOrMoveRequest> T>
void Fields(V& v, T& x) {
  v.Option("gpu", x.gpu);
}

template <typename V, base::json::Of<Advantage> T>
void Fields(V& v, T& x) {
  v("priority_s", x.priority);
  v("fair_share_s", x.fair_share);
  v("short_job_s", x.short_job);
}

template <typename V, base::json::Of<PendingNotificationView> T>
void Fields(V& v, T& x) {
  v("delivery", x.delivery);
  v("event", x.event);
  v("to", x.to);
  v("state", x.state);
  v("attempts", x.attempts);
  v("next_attempt", x.next_attempt);
  v("problem", x.problem);
}

template <typename V, base::json::Of<JobQueueView> T>
void Fields(V& v, T& x) {
  // Under the names that they had before `asked`, and null where they are absent.
  auto& asked = x.asked;
  v("project", asked.project);
  v("gpus", x.gpus);
  v("host_memory", asked.host_memory);
  v("cpus", asked.cpus);
  v("time_limit_s", asked.time_limit);
  v("begin", asked.begin);
  v("depends", asked.depends);
  v("auto_cancel", asked.auto_cancel);
  v("array_id", x.array_id);
  v("array_task", x.array_task);
  v("attempts", x.attempts);
  v("retries", asked.retries);
  v("group", asked.group);
  v("max_concurrent", asked.max_concurrent);
  v("preemptible", asked.preemptible);
  v("conda_env", asked.conda_env);
  v("stdin_file", asked.stdin_file);
  v("stdout_file", asked.stdout_file);
  v("stderr_file", asked.stderr_file);
  v.Group("asked", [&](auto& list) { spec::OptionFields(list, asked); });
  v("estimated_start", x.estimated_start);
  v("estimate_presumed", x.estimate_presumed);
  v("position", x.position);
  v("advantage", x.advantage);
  v("redo_of", x.redo_of);
  v("suspended_s", x.suspended_total);
  v.Changed("notifications", x.notifications, {});
}

template <typename V, base::json::Of<ContainerName> T>
void Fields(V& v, T& x) {
  v.Required("namespace", x.name_space);
  v.Required("pod", x.pod);
  v.Required("container", x.container);
}

template <typename V, base::json::Of<FirstRefusedAllocationView> T>
void Fields(V& v, T& x) {
  v("asked", x.asked);
  v("used", x.used);
  v("limit", x.limit);
  v("at", x.at);
  v("parts", x.parts);
  v("pools_unused", x.pools_unused);
  v("device_free", x.device_free);
}

template <typename V, base::json::Of<RefusedAllocationView> T>
void Fields(V& v, T& x) {
  v.Required("gpu", x.gpu);
  v.Required("asked", x.asked);
  v("used", x.used);
  v("limit", x.limit);
  v.Required("by", x.by);
  v("at", x.at);
  v("message", x.message);
  v("context", x.context);
  v("count", x.count);
  v("first", x.first);
  v("parts", x.parts);
  v("pools_unused", x.pools_unused);
  v("device_free", x.device_free);
}

template <typename V, base::json::Of<StoryLine> T>
void Fields(V& v, T& x) {
  v.Required("at", x.at);
  v.Required("text", x.text);
  v("times", x.times);
  v("last", x.last);
}

template <typename V, base::json::Of<MemoryPeakView> T>
void Fields(V& v, T& x) {
  v.Required("gpu", x.gpu);
  v("number", x.number);
  v("pid", x.pid);
  v("program", x.program);
  v.Required("bytes", x.bytes);
  v("parts", x.parts);
}

template <typename V, base::json::Of<JobStory> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v.Required("tag", x.tag);
  v.Required("state", x.state);
  v.Required("cause", x.cause);
  v.Required("because", x.because);
  v("story", x.story);
  v("left_out", x.left_out);
  v("left_out_after", x.left_out_after);
  v("advice", x.advice);
  v("peaks", x.peaks);
  v("used", x.used);
}

// Visits a list of options as fields that are always there, also where an option is as usual.
template <typename V>
struct EachOption {
  bool in_seconds() const { return v.in_seconds(); }
  template <typename T>
  void Option(const char* name, T& value) {
    v(name, value);
  }
  template <typename T, typename... Usual>
  void Changed(const char* name, T& value, const Usual&...) {
    v(name, value);
  }
  V& v;
};

template <typename V, base::json::Of<JobView> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v.Required("tag", x.tag);
  v("user", x.user);
  v("kubernetes", x.kubernetes);
  v.Required("state", x.state);
  v("reason", x.reason);
  v("reason_detail", x.reason_detail);
  v("pid", x.pid);
  v("gpus", x.gpus);
  v("command", x.command);
  v("directory", x.directory);
  EachOption<V> options{v};
  spec::RunOptionFieldsWithoutMemory(options, x.options);
  v("restart", x.options.restart);
  v.Group("memory", [&](auto& m) {
    m("limit", x.memory.limit);
    m("soft", x.memory.soft);
    m("used", x.memory.used);
    m("peak", x.memory.peak);
    m("host", x.memory.host);
    m("left", x.memory.left);
    m("peak_parts", x.memory.peak_parts);
    m("held_by_driver", x.memory.held_by_driver);
  });
  v("exit_code", x.exit_code);
  v("signal", x.signal);
  v("submitted_at", x.submitted_at);
  v("started_at", x.started_at);
  v("ended_at", x.ended_at);
  v("restarts", x.restarts);
  v("log_path", x.log_path);
  v("trace_path", x.trace_path);
  v("notes", x.notes);
  v("unshimmed", x.unshimmed);
  v("refusal", x.refusal);
  v("queue", x.queue);
  v("energy_j", x.energy);
  v("cost", x.cost);
  v("currency", x.currency);
  v("cut", x.cut);
}

template <typename V, base::json::Of<MemoryView> T>
void Fields(V& v, T& x) {
  v.Required("total", x.total);
  v.Required("used", x.used);
  v.Required("free", x.free);
  v("reserved", x.reserved);
}

template <typename V, base::json::Of<ProcessView> T>
void Fields(V& v, T& x) {
  v.Required("pid", x.pid);
  v("user", x.user);
  v("name", x.name);
  v("memory", x.memory);
  v("job", x.job);
  v("tag", x.tag);
  v("gpuman", x.gpuman);
  v("command", x.command);
  v("cut", x.cut);
  v("gpu_percent", x.gpu_percent);
}

template <typename V, base::json::Of<HealthView> T>
void Fields(V& v, T& x) {
  v("state", x.state);
  v("reasons", x.reasons);
}

template <typename V, base::json::Of<InstancePart> T>
void Fields(V& v, T& x) {
  v.Required("parent", x.parent);
  v("gpu_instance", x.gpu_instance);
  v("compute_instance", x.compute_instance);
  v("profile", x.profile);
}

template <typename V, base::json::Of<GpuView> T>
void Fields(V& v, T& x) {
  v("index", x.index);
  v("number", x.number);
  v.Required("uuid", x.uuid);
  v("name", x.name);
  v("memory", x.memory);
  v.Group("utilization", [&](auto& u) {
    u("gpu", x.utilization_gpu);
    u("memory", x.utilization_memory);
  });
  v("temperature_c", x.temperature_c);
  v("power_w", x.power_w);
  v("fan_percent", x.fan_percent);
  v("sm_clock_mhz", x.sm_clock_mhz);
  v("memory_clock_mhz", x.memory_clock_mhz);
  v("pcie_sent", x.pcie_sent);
  v("pcie_received", x.pcie_received);
  v("power_limit_w", x.power_limit_w);
  v("performance_state", x.performance_state);
  v("encoder_percent", x.encoder_percent);
  v("decoder_percent", x.decoder_percent);
  v("pcie_generation", x.pcie_generation);
  v("pcie_lanes", x.pcie_lanes);
  v("health", x.health);
  v("processes", x.processes);
  v("split", x.split);
  v("mig", x.mig);
}

template <typename V, base::json::Of<StatusView> T>
void Fields(V& v, T& x) {
  v.Required("gpus", x.gpus);
  v.Required("jobs", x.jobs);
  v("driver_error", x.driver_error);
  v("driver_version", x.driver_version);
  v("cuda_version", x.cuda_version);
  v("waiting_left_out", x.waiting_left_out);
  v("ended_left_out", x.ended_left_out);
}

template <typename V, base::json::Of<EventView> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v.Required("at", x.at);
  v.Required("kind", x.kind);
  v("job", x.job);
  v("tag", x.tag);
  v("gpu", x.gpu);
  v("message", x.message);
  v("data", x.data);
}

template <typename V, base::json::Of<VersionView> T>
void Fields(V& v, T& x) {
  v.Required("version", x.version);
  v("api", x.api);
  v("pid", x.pid);
  v("user_mode", x.user_mode);
}

template <typename V, base::json::Of<WebPageView> T>
void Fields(V& v, T& x) {
  v("url", x.url);
}

template <typename V, base::json::Of<JobList> T>
void Fields(V& v, T& x) {
  v.Required("jobs", x.jobs);
}
template <typename V, base::json::Of<GpuList> T>
void Fields(V& v, T& x) {
  v.Required("gpus", x.gpus);
}
template <typename V, base::json::Of<EventList> T>
void Fields(V& v, T& x) {
  v.Required("events", x.events);
}

}  // namespace gpuman::api
