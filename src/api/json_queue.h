// Internal to api/queue_json.cc: the fields of queue_types.h.
#pragma once

#include "api/json_types.h"
#include "api/queue_types.h"

namespace gpuman::api {

template <typename V, base::json::Of<IndexRange> T>
void Fields(V& v, T& x) {
  v.Required("first", x.first);
  v.Required("last", x.last);
  v.Changed("step", x.step, 1);
}

template <typename V, base::json::Of<ArrayRequest> T>
void Fields(V& v, T& x) {
  v.Required("indices", x.indices);
  v.Option("limit", x.limit);
}

template <typename V, base::json::Of<Submission> T>
void Fields(V& v, T& x) {
  v.Option("name", x.name);
  v.Changed("command", x.command);
  v.Option("script", x.script);
  v.Changed("arguments", x.arguments);
  v.Changed("directory", x.directory);
  v.Option("environment", x.environment);
  v.Option("umask", x.umask);
  v.Changed("gpus", x.gpus);
  spec::RequestFields(v, x);
  v.Option("array", x.array);
}

template <typename V, base::json::Of<SubmitRequest> T>
void Fields(V& v, T& x) {
  v.Required("jobs", x.jobs);
  v.Changed("dry_run", x.dry_run, false);
  v.Changed("directory", x.directory, {});
  v.Changed("environment", x.environment, {});
  v("umask", x.umask);
  v.Changed("new_tags", x.new_tags, false);
}

template <typename V, base::json::Of<SubmittedJob> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v("tag", x.tag);
  v("state", x.state);
  v("reason", x.reason);
  v("reason_detail", x.reason_detail);
  v("estimated_start", x.estimated_start);
  v("estimate_presumed", x.estimate_presumed);
  v("gpus", x.gpus);
  v("tasks", x.tasks);
}

template <typename V, base::json::Of<SubmissionAnswer> T>
void Fields(V& v, T& x) {
  v.Required("jobs", x.jobs);
  v.Changed("notes", x.notes, {});
}

template <typename V, base::json::Of<RunOptionsPatch> T>
void Fields(V& v, T& x) {
  v.Patched(x, [](auto& list, auto& options) { spec::UpdateFields(list, options); });
}

template <typename V, base::json::Of<JobQueueUpdate> T>
void Fields(V& v, T& x) {
  v.Option("name", x.name);
  v.Option("command", x.command);
  v.Option("script", x.script);
  v.Option("gpus", x.gpus);
  v.Clearable("array_limit", x.array_limit, x.clear_array_limit);
  v.Patched(x.options, [](auto& list, auto& options) { spec::RequestUpdateFields(list, options); });
}

template <typename V, base::json::Of<JobUpdate> T>
void Fields(V& v, T& x) {
  Fields(v, x.job);
  v.Option("queue", x.queue);
}

template <typename V, base::json::Of<RedoRequest> T>
void Fields(V& v, T& x) {
  v("changes", x.changes);
  v.Changed("cascade", x.cascade, false);
}

template <typename V, base::json::Of<CancelRequest> T>
void Fields(V& v, T& x) {
  v.Required("jobs", x.jobs);
  v.Changed("dry_run", x.dry_run, false);
}

template <typename V, base::json::Of<CancelResult> T>
void Fields(V& v, T& x) {
  v.Required("job", x.job);
  v("id", x.id);
  v("state", x.state);
  v("error", x.error);
  v("error_code", x.error_code);
  v("error_hint", x.error_hint);
}

template <typename V, base::json::Of<AffectedDependent> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v("tag", x.tag);
  v("state", x.state);
  v("depends_on", x.depends_on);
  v("cancelled", x.cancelled);
}

template <typename V, base::json::Of<CancelAnswer> T>
void Fields(V& v, T& x) {
  v.Required("jobs", x.jobs);
  v("dependents", x.dependents);
}

template <typename V, base::json::Of<QueueProcess> T>
void Fields(V& v, T& x) {
  v.Required("pid", x.pid);
  v("user", x.user);
  v("name", x.name);
  v("memory", x.memory);
  v("age_s", x.age);
  v("idle_s", x.idle);
  v("job", x.job);
  v("ignored", x.ignored);
  v("gpuman", x.gpuman);
  v("hoarding", x.hoarding);
}

template <typename V, base::json::Of<SuspendedJobGpuMemory> T>
void Fields(V& v, T& x) {
  v("job", x.job);
  v("tag", x.tag);
  v("bytes", x.bytes);
}

template <typename V, base::json::Of<QueueGpu> T>
void Fields(V& v, T& x) {
  v("index", x.index);
  v("number", x.number);
  v.Required("uuid", x.uuid);
  v("model", x.model);
  v("memory", x.memory);
  v("state", x.state);
  v("unfit", x.unfit);
  v("jobs", x.jobs);
  v("tags", x.tags);
  v("left", x.left);
  v("processes", x.processes);
  v("links", x.links);
  v("mig", x.mig);
}

template <typename V, base::json::Of<QueueSettings> T>
void Fields(V& v, T& x) {
  v("choice", x.choice);
  v("paused", x.paused);
  v("allowed", x.allowed);
  v("drained", x.drained);
}

template <typename V, base::json::Of<QueueSettingsUpdate> T>
void Fields(V& v, T& x) {
  v.Option("choice", x.choice);
  v.Option("paused", x.paused);
  v.Clearable("allowed", x.allowed, x.clear_allowed);
  v.Changed("allow", x.allow, {});
  v.Changed("restrict", x.restrict_these, {});
  v.Changed("drain", x.drain, {});
  v.Changed("undrain", x.undrain, {});
}

template <typename V, base::json::Of<QueueInfo> T>
void Fields(V& v, T& x) {
  v.Required("gpus", x.gpus);
  v.Required("settings", x.settings);
}

template <typename V, base::json::Of<ReservationRequest> T>
void Fields(V& v, T& x) {
  v.Required("user", x.user);
  v.Changed("count", x.count, 0);
  v.Changed("devices", x.devices, {});
  v.Required("start", x.start);
  v.Required("duration_s", x.duration);
}

template <typename V, base::json::Of<Reservation> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v("user", x.user);
  v("count", x.count);
  v("devices", x.devices);
  v("start", x.start);
  v("end", x.end);
  v("state", x.state);
  v("created_by", x.created_by);
}

template <typename V, base::json::Of<ReservationList> T>
void Fields(V& v, T& x) {
  v.Required("reservations", x.reservations);
}

template <typename V, base::json::Of<QuotaLimits> T>
void Fields(V& v, T& x) {
  v("running_jobs", x.running_jobs);
  v("gpus", x.gpus);
  v("queued_jobs", x.queued_jobs);
  v("gpu_hours", x.gpu_hours);
  v("shares", x.shares);
}

template <typename V, base::json::Of<QuotaUpdate> T>
void Fields(V& v, T& x) {
  v.Patched(x, [](auto& list, auto& limits) { Fields(list, limits); });
}

template <typename V, base::json::Of<Quota> T>
void Fields(V& v, T& x) {
  v.Required("subject", x.subject);
  v.Required("name", x.name);
  v("limits", x.limits);
  v("used", x.used);
}

template <typename V, base::json::Of<QuotaList> T>
void Fields(V& v, T& x) {
  v.Required("quotas", x.quotas);
}

template <typename V, base::json::Of<IgnoreRuleView> T>
void Fields(V& v, T& x) {
  v("id", x.id);
  v("pid", x.pid);
  v("user", x.user);
  v("name", x.name);
  v("gpu", x.gpu);
}

template <typename V, base::json::Of<IgnoreRuleList> T>
void Fields(V& v, T& x) {
  v.Required("ignored", x.ignored);
}

template <typename V, base::json::Of<FairShare> T>
void Fields(V& v, T& x) {
  v("entitled", x.entitled);
  v("used", x.used);
  v("factor", x.factor);
}

template <typename V, base::json::Of<PeakStats> T>
void Fields(V& v, T& x) {
  v("runs", x.runs);
  v("median", x.median);
  v("p95", x.p95);
  v("most", x.most);
}

template <typename V, base::json::Of<RunTimeStats> T>
void Fields(V& v, T& x) {
  v("runs", x.runs);
  v("median_s", x.median);
  v("p95_s", x.p95);
  v("most_s", x.most);
}

template <typename V, base::json::Of<UtilizationStats> T>
void Fields(V& v, T& x) {
  v("runs", x.runs);
  v("median", x.median);
  v("p95", x.p95);
  v("most", x.most);
}

template <typename V, base::json::Of<StatsRow> T>
void Fields(V& v, T& x) {
  v("name", x.name);
  v("jobs", x.jobs);
  v("runs", x.runs);
  v("finished", x.finished);
  v("failed", x.failed);
  v("cancelled", x.cancelled);
  v("timeout", x.timeout);
  v("killed", x.killed);
  v("running", x.running);
  v("queued", x.queued);
  v("wait_mean_s", x.wait_mean);
  v("run_mean_s", x.run_mean);
  v("gpu_hours", x.gpu_hours);
  v("gpu_byte_hours", x.gpu_byte_hours);
  v("gpu_byte_hours_known", x.gpu_byte_hours_known);
  v("gpu_byte_hours_unused", x.gpu_byte_hours_unused);
  v("success", x.success);
  v("energy_j", x.energy);
  v("cost", x.cost);
  v("peak", x.peak);
  v("run_time", x.run_time);
  v("utilization", x.utilization);
  v("fair_share", x.fair_share);
}

template <typename V, base::json::Of<StatsView> T>
void Fields(V& v, T& x) {
  v("by", x.by);
  v.Required("rows", x.rows);
  v("total", x.total);
  v("currency", x.currency);
}

}  // namespace gpuman::api
