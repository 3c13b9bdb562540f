#include "metrics/render.h"

#include "metrics/parts.h"

namespace gpuman::metrics {
namespace {

Labels LabelsOf(const CountedOwner& owner) {
  return Labels("user", owner.user).Add("project", owner.project);
}

void AddEventCounters(const EventCounters& counters, Exposition& out) {
  for (const auto& [what, count] : counters.limit_hits())
    out.Add(MetricId::kLimitHits, LabelsOf(what.first).With("limit", what.second), count);
  for (const auto& [owner, count] : counters.started())
    out.Add(MetricId::kJobsStarted, LabelsOf(owner), count);
  for (const auto& [what, count] : counters.ended())
    out.Add(MetricId::kJobsEnded, LabelsOf(what.first).With("state", what.second), count);
  for (const auto& [direction, count] : counters.suspensions())
    out.Add(MetricId::kSuspensions, Labels("direction", direction), count);
  out.Add(MetricId::kSuspendedBytes, {}, counters.suspended_bytes());
  for (const auto& [kind, count] : counters.events()) out.Add(MetricId::kEvents, Labels("kind", kind), count);
  out.Add(MetricId::kQueueWait, {}, counters.waits());
}

void AddQueue(const Queue& queue, Exposition& out) {
  for (const auto& [reason, count] : queue.waiting)
    out.Add(MetricId::kQueueJobs, Labels("reason", reason), count);
  out.Add(MetricId::kQueuePaused, {}, queue.paused);
  out.Add(MetricId::kQueueOldest, {}, queue.oldest_seconds);
}

void AddShared(const SharedGpu& shared, Exposition& out) {
  const auto labels = metrics::LabelsOf(std::to_string(shared.gpu), shared.uuid);
  out.Add(MetricId::kShareTenants, labels.With("state", "run_set"), shared.in_run_set);
  out.Add(MetricId::kShareTenants, labels.With("state", "waiting"), shared.waiting);
  out.Add(MetricId::kShareContended, labels, shared.contended);
  out.Add(MetricId::kShareMoved, labels.With("direction", "out"), shared.moved_out.count);
  out.Add(MetricId::kShareMoved, labels.With("direction", "in"), shared.moved_in.count);
  out.Add(MetricId::kShareCopied, labels.With("direction", "out"), shared.copied_out.count);
  out.Add(MetricId::kShareCopied, labels.With("direction", "in"), shared.copied_in.count);
  out.Add(MetricId::kShareHandOver, labels, shared.hand_overs);
  out.Add(MetricId::kShareMoving, labels, shared.moving_ratio);
  out.Add(MetricId::kShareMovingSeconds, labels, shared.moving_seconds);
  for (const auto& time : shared.times) {
    const auto of_job =
        labels.With("job_id", std::to_string(time.job)).With("tag", time.tag).With("user", time.user);
    out.Add(MetricId::kShareComputeAsked, of_job, time.asked);
    out.Add(MetricId::kShareComputePart, of_job, time.part);
    out.Add(MetricId::kShareComputeHad, of_job, time.had);
    if (time.held_others) out.Add(MetricId::kShareLatency, of_job, 1);
    out.Add(MetricId::kShareHeldOthers, of_job, time.held_others);
    out.Add(MetricId::kShareLongestUnit, of_job, time.longest_unit);
  }
}

void AddRests(const std::vector<JobRestStats>& rests, Exposition& out) {
  std::uint64_t steps = 0;
  for (const auto& rest : rests) {
    const Labels labels("processes", rest.processes);
    out.Add(MetricId::kRestSeconds, labels, rest.seconds);
    for (const auto& [result, count] : rest.attempts)
      out.Add(MetricId::kRestAttempts, labels.With("result", result), count);
    steps += rest.steps;
  }
  if (!rests.empty()) out.Add(MetricId::kRestCalls, {}, steps);
}

void AddDaemon(const Snapshot& snapshot, Exposition& out) {
  const auto& self = snapshot.self;
  out.Add(MetricId::kBuildInfo, Labels("version", snapshot.version), 1);
  if (snapshot.gpu_hour_price)
    out.Add(MetricId::kGpuHourPrice, Labels("currency", snapshot.currency), *snapshot.gpu_hour_price);
  if (snapshot.kwh_price)
    out.Add(MetricId::kKwhPrice, Labels("currency", snapshot.currency), *snapshot.kwh_price);
  out.Add(MetricId::kNotificationsPending, {}, snapshot.notifications_pending);
  out.Add(MetricId::kNotificationsFailed, {}, snapshot.notifications_failed);
  out.Add(MetricId::kRounds, {}, snapshot.rounds);
  out.Add(MetricId::kScrapes, {}, snapshot.scrapes);
  out.Add(MetricId::kScrapeTime, {}, snapshot.scrape_seconds);
  out.Add(MetricId::kProcessCpu, {}, self.cpu_seconds);
  if (self.resident) out.Add(MetricId::kProcessResident, {}, self.resident->count);
  if (self.virtual_size) out.Add(MetricId::kProcessVirtual, {}, self.virtual_size->count);
  out.Add(MetricId::kProcessFds, {}, self.open_files);
  out.Add(MetricId::kProcessStart, {}, self.started_seconds);
}

}  // namespace

std::string Render(const Snapshot& snapshot, bool with_dcgm) {
  Exposition out;
  AddDevices(snapshot, out);
  if (with_dcgm) AddDcgm(snapshot, out);
  AddJobs(snapshot, out);
  AddQueue(snapshot.queue, out);
  for (const auto& shared : snapshot.shared) AddShared(shared, out);
  AddRests(snapshot.rests, out);
  for (const auto& left : snapshot.left)
    out.Add(MetricId::kLeft, metrics::LabelsOf(left.gpu, left.uuid), left.bytes.count);
  out.Add(MetricId::kKept, {}, snapshot.kept.count);
  out.Add(MetricId::kIdleJobs, Labels("state", "on_gpu"), snapshot.idle_on_gpu);
  out.Add(MetricId::kIdleJobs, Labels("state", "away"), snapshot.idle_away);
  AddEventCounters(snapshot.counters, out);
  AddDaemon(snapshot, out);
  return out.Text();
}

}  // namespace gpuman::metrics
