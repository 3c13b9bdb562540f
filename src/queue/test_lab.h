// A queue and its machine, so that tests are short. GPUs have 80 GiB; times are counted from kStart.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "queue/explain.h"
#include "queue/pass.h"
#include "queue/snapshot_updater.h"

namespace gpuman::queue {

inline constexpr WallTime kStart{std::chrono::hours(24 * 365 * 56)};

// What a job asks for, and its place in an array.
struct Request : JobSpec {
  std::optional<ArrayTask> array{};
};

struct Lab {
  explicit Lab(std::size_t gpus, const std::string& model = "NVIDIA A100") {
    for (std::size_t i = 0; i < gpus; ++i)
      machine.push_back(
          {.index = static_cast<unsigned>(i), .uuid = Uuid(i), .model = model, .memory = base::GiB(80)});
    updater.SetGpus(machine);
    settings.patience = settings.preempt_wait = settings.slack = Millis(0);
  }

  static std::string Uuid(std::size_t gpu) { return "GPU-" + std::to_string(gpu); }

  // A request for GPUs.
  static Request Gpus(int count, Millis limit = Millis(0)) {
    Request request;
    request.gpus.count = count;
    if (limit.count() > 0) request.time_limit = limit;
    return request;
  }
  static Request Part(std::uint64_t gib, Millis limit = Millis(0), int gpus = 1) {
    Request request = Gpus(gpus, limit);
    request.share = true;
    request.memory = base::SizeSpec{base::GiB(gib), 0};
    request.memory_on_each = base::GiB(gib);
    return request;
  }
  static Request Exactly(const std::vector<std::size_t>& gpus, Millis limit = Millis(0)) {
    Request request = Gpus(static_cast<int>(gpus.size()), limit);
    for (const std::size_t gpu : gpus) request.gpus.devices.push_back(Uuid(gpu));
    return request;
  }

  // A waiting job, submitted a second after the one before it. Returns its id.
  JobId Waits(const Request& request, std::string_view user = "ann") {
    WaitingJob job{
        .id = {++last}, .user = user, .since = now - std::chrono::hours(1) + std::chrono::seconds(last)};
    if (request.hold) job.held = true;
    job.array = request.array;
    updater.PutWaiting(job, request);
    return job.id;
  }
  // A running job that began an hour ago, unless `change` says otherwise.
  JobId Runs(const Request& request, const std::vector<std::size_t>& gpus, std::string_view user = "bob",
             const std::function<void(RunningJob&)>& change = {}) {
    RunningJob job{.id = {++last}, .user = user, .suspendable = true};
    job.array = request.array;
    job.on_since = base::MonoTime{} - std::chrono::hours(1);
    for (const std::size_t gpu : gpus) job.gpus.push_back(Uuid(gpu));
    if (change) change(job);
    updater.PutRunning(job, request);
    return job.id;
  }

  const Snapshot& View() {
    updater.SetSettings(settings);
    return updater.View(base::MonoTime{});
  }
  Plan Decide() {
    plan = Pass(View(), now);
    return plan;
  }
  // The verdict of the last Decide().
  Verdict Of(JobId job) const { return plan.verdicts[*updater.RowOfWaiting(job)]; }
  Blockers BlockersOf(JobId job) {
    return Explainer(View(), plan, now, dependents).BlockersOf(*updater.RowOfWaiting(job));
  }
  std::string Why(JobId job) {
    return Explainer(View(), plan, now, dependents).Of(*updater.RowOfWaiting(job));
  }

  std::vector<Gpu> machine{};
  SchedulingSettings settings{};
  SnapshotUpdater updater{};
  Dependents dependents{};
  Plan plan{};
  WallTime now = kStart;
  std::int64_t last = 0;
};

inline Request With(Request request, const std::function<void(Request&)>& change) {
  change(request);
  return request;
}

inline GpuSet Set(const std::vector<std::size_t>& gpus) {
  GpuSet set;
  for (const std::size_t gpu : gpus) set.set(gpu);
  return set;
}

// "7:0,1 8:": which job starts on which GPUs, in order.
inline std::string Text(const std::vector<StartDecision>& starts) {
  std::string text;
  for (const StartDecision& start : starts) {
    text += (text.empty() ? "" : " ") + std::to_string(start.job.value) + ":";
    bool first = true;
    ForEach(start.gpus, [&](std::size_t gpu) {
      text += (first ? "" : ",") + std::to_string(gpu);
      first = false;
    });
  }
  return text;
}

}  // namespace gpuman::queue
