#include "metrics/render.h"

#include "metrics/parts.h"

namespace gpuman::metrics {
namespace {

Labels LabelsOf(const Owner& owner) { return Labels("user", owner.user).Add("project", owner.project); }

void AddEventCounters(const EventCounters& counters, Exposition& out) {
  for (const auto& [what, count] : counters.limit_hits())
    out.Add(Metric::kLimitHits, LabelsOf(what.first).With("limit", what.second), count);
  for (const auto& [owner, count] : counters.started()) out.Add(Metric::kJobsStarted, LabelsOf(owner), count);
  for (const auto& [what, count] : counters.ended())
    out.Add(Metric::kJobsEnded, LabelsOf(what.first).With("state", what.second), count);
  for (const auto& [direction, count] : counters.suspensions())
    out.Add(Metric::kSuspensions, Labels("direction", direction), count);
  out.Add(Metric::kSuspendedBytes, {}, counters.suspended_bytes());
  for (const auto& [kind, count] : counters.events()) out.Add(Metric::kEvents, Labels("kind", kind), count);
  out.Add(Metric::kQueueWait, {}, counters.waits());
}

void AddQueue(const Queue& queue, Exposition& out) {
  for (const auto& [reason, count] : queue.waiting)
    out.Add(Metric::kQueueJobs, Labels("reason", reason), count);
  out.Add(Metric::kQueuePaused, {}, queue.paused);
  out.Add(Metric::kQueueOldest, {}, queue.oldest_seconds);
}

void AddShared(const SharedGpu& shared, Exposition& out) {
  const auto labels = metrics::LabelsOf(std::to_string(shared.gpu), shared.uuid);
  out.Add(Metric::kShareTenants, labels.With("state", "run_set"), shared.in_run_set);
  out.Add(Metric::kShareTenants, labels.With("state", "waiting"), shared.waiting);
  out.Add(Metric::kShareContended, labels, shared.contended);
  out.Add(Metric::kShareMoved, labels.With("direction", "out"), shared.moved_out.count);
  out.Add(Metric::kShareMoved, labels.With("direction", "in"), shared.moved_in.count);
  out.Add(Metric::kShareCopied, labels.With("direction", "out"), shared.copied_out.count);
  out.Add(Metric::kShareCopied, labels.With("direction", "in"), shared.copied_in.count);
  out.Add(Metric::kShareHandOver, labels, shared.hand_overs);
  out.Add(Metric::kShareMoving, labels, shared.moving_ratio);
  out.Add(Metric::kShareMovingSeconds, labels, shared.moving_seconds);
  for (const auto& turns : shared.by_share) {
    const auto of_job =
        labels.With("job_id", std::to_string(turns.job)).With("tag", turns.tag).With("user", turns.user);
    out.Add(Metric::kShareComputePart, of_job, turns.part);
    if (turns.had) out.Add(Metric::kShareComputeHad, of_job, *turns.had);
  }
}

void AddRests(const std::vector<JobRestStats>& rests, Exposition& out) {
  std::uint64_t steps = 0;
  for (const auto& rest : rests) {
    const Labels labels("processes", rest.processes);
    out.Add(Metric::kRestSeconds, labels, rest.seconds);
    for (const auto& [result, count] : rest.attempts)
      out.Add(Metric::kRestAttempts, labels.With("result", result), count);
    steps += rest.steps;
  }
  if (!rests.empty()) out.Add(Metric::kRestSteps, {}, steps);
}

void AddDaemon(const Snapshot& snapshot, Exposition& out) {
  const auto& self = snapshot.self;
  out.Add(Metric::kBuildInfo, Labels("version", snapshot.version), 1);
  if (snapshot.gpu_hour_price)
    out.Add(Metric::kGpuHourPrice, Labels("currency", snapshot.currency), *snapshot.gpu_hour_price);
  if (snapshot.kwh_price)
    out.Add(Metric::kKwhPrice, Labels("currency", snapshot.currency), *snapshot.kwh_price);
  out.Add(Metric::kNotificationsPending, {}, snapshot.notifications_pending);
  out.Add(Metric::kNotificationsFailed, {}, snapshot.notifications_failed);
  out.Add(Metric::kRounds, {}, snapshot.rounds);
  out.Add(Metric::kScrapes, {}, snapshot.scrapes);
  out.Add(Metric::kScrapeTime, {}, snapshot.scrape_seconds);
  out.Add(Metric::kProcessCpu, {}, self.cpu_seconds);
  if (self.resident) out.Add(Metric::kProcessResident, {}, self.resident->count);
  if (self.virtual_size) out.Add(Metric::kProcessVirtual, {}, self.virtual_size->count);
  out.Add(Metric::kProcessFds, {}, self.open_files);
  out.Add(Metric::kProcessStart, {}, self.started_seconds);
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
    out.Add(Metric::kLeft, metrics::LabelsOf(left.gpu, left.uuid), left.bytes.count);
  out.Add(Metric::kKept, {}, snapshot.kept.count);
  out.Add(Metric::kIdleJobs, Labels("state", "on_gpu"), snapshot.idle_on_gpu);
  out.Add(Metric::kIdleJobs, Labels("state", "away"), snapshot.idle_away);
  AddEventCounters(snapshot.counters, out);
  AddDaemon(snapshot, out);
  return out.Text();
}

}  // namespace gpuman::metrics
