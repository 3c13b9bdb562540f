// Writes jobs, and the totals of their users and projects.
#include "metrics/parts.h"

namespace gpuman::metrics {
namespace {

struct Sum {
  std::uint64_t jobs = 0;
  base::Bytes used, peak, limit;
};

void AddTo(Sum& sum, const Job& job) {
  ++sum.jobs;
  sum.peak += job.peak.value_or(base::Bytes{});
  for (const auto& part : job.parts) {
    sum.used += part.used.value_or(base::Bytes{});
    sum.limit += part.limit.value_or(base::Bytes{});
  }
}

std::optional<std::uint64_t> CountOf(const std::optional<base::Bytes>& bytes) {
  return bytes ? std::optional(bytes->count) : std::nullopt;
}

void AddJob(const Job& job, Exposition& out) {
  auto labels = Labels("job_id", std::to_string(job.id))
                    .Add("tag", job.tag)
                    .Add("user", job.user)
                    .Add("project", job.project);
  // These labels have the names of dcgm-exporter.
  if (!job.pod.empty())
    labels.Add("namespace", job.name_space).Add("pod", job.pod).Add("container", job.container);
  out.Add(MetricId::kJobInfo, labels.With("state", job.state), 1);
  out.Add(MetricId::kJobPeak, labels, CountOf(job.peak));
  if (job.host.count > 0) out.Add(MetricId::kJobHost, labels, job.host.count);
  out.Add(MetricId::kJobRestarts, labels, job.restarts);
  out.Add(MetricId::kJobEnergy, labels, job.energy);
  for (const auto& part : job.parts) {
    const auto of_gpu = Labels(labels).Add("gpu", part.gpu).Add("uuid", part.uuid);
    out.Add(MetricId::kJobUsed, of_gpu, CountOf(part.used));
    out.Add(MetricId::kJobLimit, of_gpu, CountOf(part.limit));
    out.Add(MetricId::kJobSoft, of_gpu, CountOf(part.soft));
    out.Add(MetricId::kJobRefused, of_gpu, part.refused);
  }
}

struct SumMetrics {
  MetricId jobs, used, peak, limit;
};
void AddSum(const SumMetrics& metrics, const Labels& labels, const Sum& sum, Exposition& out) {
  out.Add(metrics.jobs, labels, sum.jobs);
  out.Add(metrics.used, labels, sum.used.count);
  out.Add(metrics.peak, labels, sum.peak.count);
  out.Add(metrics.limit, labels, sum.limit.count);
}

}  // namespace

void AddJobs(const Snapshot& snapshot, Exposition& out) {
  std::map<std::string, Sum> users, projects;
  std::map<std::string, std::size_t> states;
  for (const auto& job : snapshot.jobs) {
    AddJob(job, out);
    AddTo(users[job.user], job);
    if (!job.project.empty()) AddTo(projects[job.project], job);
    ++states[job.state];
  }
  using enum MetricId;
  for (const auto& [user, sum] : users)
    AddSum({kUserJobs, kUserUsed, kUserPeak, kUserLimit}, Labels("user", user), sum, out);
  for (const auto& [project, sum] : projects)
    AddSum({kProjectJobs, kProjectUsed, kProjectPeak, kProjectLimit}, Labels("project", project), sum, out);
  for (const auto& [reason, count] : snapshot.queue.waiting)
    states[reason == "held_by_user" ? "held" : "queued"] += count;
  for (const char* const state : {"queued", "held", "starting", "running", "suspended", "stopping"})
    out.Add(MetricId::kJobs, Labels("state", state), states[state]);
}

}  // namespace gpuman::metrics
