#include "queue/admission.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "queue/explain.h"
#include "queue/quota_tracker.h"

namespace gpuman::queue {
namespace {

using base::ErrorCode;
using base::Fail;

base::Result<> Never(std::string message, std::string hint = {}) {
  return Fail(ErrorCode::kUnsatisfiable, std::move(message), std::move(hint));
}

base::Result<> CheckQuota(std::string_view kind, const QueueAccount& account, const Need& need) {
  const Quota& quota = account.quota;
  if (quota.running && *quota.running < 1)
    return Never(fmt::format("{} {} may run no job", kind, account.name));
  if (quota.gpus && need.gpus > *quota.gpus)
    return Never(fmt::format("it asks for {}, and the quota of {} {} is {}", Describe(need), kind,
                             account.name, *quota.gpus));
  if (!quota.gpu_hours || need.gpus == 0) return {};
  const double hours = UsageOf(need, Millis(0), false).GpuHours();
  if (std::isinf(hours))
    return Never(fmt::format("{} {} has a quota of {} GPU-hours, so a job needs a time limit", kind,
                             account.name, base::FormatHours(*quota.gpu_hours)),
                 "give one with --time");
  if (hours > *quota.gpu_hours)
    return Never(fmt::format("it may use {} GPU-hours, and the quota of {} {} is {} within {}",
                             base::FormatUsedHours(hours), kind, account.name,
                             base::FormatHours(*quota.gpu_hours), base::FormatDuration(quota.window)));
  return {};
}

// The GPUs that the request names; all where it names none.
std::vector<const Gpu*> Named(const Snapshot& snapshot, const GpuRequest& asked) {
  std::vector<const Gpu*> gpus;
  for (const Gpu& gpu : snapshot.gpus)
    if (asked.devices.empty() ||
        std::find(asked.devices.begin(), asked.devices.end(), gpu.uuid) != asked.devices.end())
      gpus.push_back(&gpu);
  return gpus;
}

// "NVIDIA A100, NVIDIA H200": each once.
std::string ModelsOf(const std::vector<const Gpu*>& gpus) {
  std::set<std::string> models;
  for (const Gpu* const gpu : gpus) models.insert(gpu->model);
  return fmt::format("{}", fmt::join(models, ", "));
}

// kUnsatisfiable: too few GPUs meet the need. A part of the request that no GPU meets is to blame, else the
// number. The messages use the words of the API, which are also options of the command line.
base::Result<> HasGpus(const Snapshot& snapshot, const Need& need, const GpuRequest& asked) {
  const std::size_t possible = need.possible.count();
  if (static_cast<std::size_t>(need.gpus) <= possible) return {};
  const std::string_view which = need.exact ? "that it names" : "of this machine";
  auto gpus = Named(snapshot, asked);
  if (!gpus.empty()) {
    const std::string models = ModelsOf(gpus);
    std::erase_if(gpus, [&](const Gpu* gpu) { return !IsOfModel(*gpu, asked.model.value_or("")); });
    if (gpus.empty())
      return Never(fmt::format("gpus.model: no GPU {} has '{}' in its name; {} {}", which, *asked.model,
                               need.exact ? "they are" : "it has", models));
    base::Bytes most{};
    for (const Gpu* const gpu : gpus) most = std::max(most, gpu->memory);
    const auto model = asked.model ? fmt::format(" with '{}' in its name", *asked.model) : std::string();
    for (const auto& [field, bytes] :
         {std::pair("memory", need.memory), std::pair("gpus.free_memory", need.free_memory)})
      if (bytes > most)
        return Never(fmt::format("{}: it asks for {} on each GPU; the largest {}{} has {} for jobs", field,
                                 base::FormatBytes(bytes), which, model, base::FormatBytes(most)));
  }
  const bool has_instances =
      std::any_of(snapshot.gpus.begin(), snapshot.gpus.end(), [](const Gpu& gpu) { return gpu.instance; });
  return Never(
      fmt::format("{}: it asks for {}{}; of the {} of this machine {} could be used",
                  need.exact ? "gpus.devices" : "gpus.count", Describe(need),
                  need.memory.count > 0 && !need.share ? " and " + base::FormatBytes(need.memory) : "",
                  snapshot.gpus.size() == 1 ? "1 GPU" : fmt::format("{} GPUs", snapshot.gpus.size()),
                  possible),
      has_instances ? "instances (MIG) count as GPUs; CUDA gives a process one of them at most" : "");
}

}  // namespace

base::Result<> CanEverRun(const Snapshot& snapshot, const Need& need, const GpuRequest& asked, Index user,
                          Index project) {
  if (need.share && need.memory.count == 0)
    return Fail(ErrorCode::kInvalidArgument,
                "a job that shares its GPUs has to say how much memory it needs on each",
                "give it with --memory");
  GPUMAN_TRY(HasGpus(snapshot, need, asked));
  if (snapshot.host.memory && need.host_memory > *snapshot.host.memory)
    return Never(fmt::format("host_memory: it asks for {} of the machine's memory, which has {}",
                             base::FormatBytes(need.host_memory), base::FormatBytes(*snapshot.host.memory)));
  if (snapshot.host.cpus && need.cpus > *snapshot.host.cpus)
    return Never(
        fmt::format("cpus: it asks for {} processors; this machine has {}", need.cpus, *snapshot.host.cpus));
  if (user != kNone) GPUMAN_TRY(CheckQuota("user", snapshot.users[user], need));
  if (project != kNone) GPUMAN_TRY(CheckQuota("project", snapshot.projects[project], need));
  return {};
}

base::Result<> MayQueue(const QueueAccount& account, std::string_view what, int queued, int more) {
  if (!account.quota.queued || queued + more <= *account.quota.queued) return {};
  return Never(fmt::format("{} {} has {} waiting jobs; with {} more that passes the quota of {}", what,
                           account.name, queued, more, *account.quota.queued),
               fmt::format("submit the rest when some of them have started; an administrator may raise it: "
                           "`gpuman quota set --{} {} --queued-jobs N`",
                           what, account.name));
}

base::Result<> MayDepend(std::string_view user, std::size_t there, std::size_t more) {
  if (more == 0 || there + more <= kMaxDependenciesOfUser) return {};
  return Never(
      fmt::format("depends: the waiting jobs of user {} have {} dependencies; with {} more that passes "
                  "the bound of {}",
                  user, there, more, kMaxDependenciesOfUser),
      "put a job between that waits for all of them, as `-- true` does, and wait for that one; or submit "
      "the rest when some of them have started");
}

base::Result<> MayGoTo(const Snapshot& snapshot, Index running, std::size_t gpu, WallTime now) {
  const RunningJobInput& job = snapshot.running[running];
  const Gpu& info = snapshot.gpus[gpu];
  const auto no = [&](std::string why) {
    return Fail(ErrorCode::kConflict,
                fmt::format("job {} cannot go to GPU {} now: {}", job.id.value, NumberOf(info), why),
                job.phase == RunningPhase::kSuspended
                    ? "without --gpu it comes back by itself when its turn comes"
                    : "`gpuman info` shows who has which GPU");
  };
  if (job.gpus.count() != 1) return no(fmt::format("it has {} GPUs, not one", job.gpus.count()));
  if (job.phase == RunningPhase::kSuspended && QuotaTracker(snapshot).Refuses(job) != WaitReason::kStarts)
    return no("the quota of its user or project allows it no GPU beside the others");
  const RoomChecker room(snapshot, now);
  PlacementRequest request{
      .need = snapshot.needs[job.need], .user = job.user, .job = job.id, .host_counted = true};
  request.need.gpus = 1;
  request.need.exact = false;
  request.need.possible = GpuSet().set(gpu);
  request.end = room.EndOf(job);
  if (room.Find(request)) return {};
  switch (room.WhyNot(request)) {
    case WaitReason::kReservation:
      return no("it is reserved for others while the job may run");
    case WaitReason::kUnmanaged:
      return no("it is in use by " + info.holder);
    case WaitReason::kUnavailable:
      return no(info.lost        ? "it is lost"
                : info.unhealthy ? "it is unhealthy"
                : info.drained   ? "it is drained"
                                 : "the queue does not use it");
    default:
      break;
  }
  std::string others;
  for (const PlacementHolder& holder : room.slots()[gpu].holders)
    if (holder.running != kNone)
      others += fmt::format("{}{}", others.empty() ? "" : ", ", snapshot.running[holder.running].id.value);
  if (!others.empty()) return no("it has no room beside job " + others);
  std::string left;
  for (const ResidualMemory& each : room.slots()[gpu].left)
    if (each.job != job.id)
      left += fmt::format("{}{} of suspended job {}", left.empty() ? "" : ", ", base::FormatBytes(each.bytes),
                          each.job.value);
  return no("too little of its memory is free" + (left.empty() ? "" : ": " + left + " stay there"));
}

base::Result<GpuSet> PickReserved(const Snapshot& snapshot, int count, WallTime start, WallTime end,
                                  WallTime now) {
  const RoomChecker room(snapshot, now);
  std::vector<std::pair<WallTime, std::size_t>> gpus;
  for (std::size_t gpu = 0; gpu < snapshot.gpus.size(); ++gpu) {
    const bool reserved = std::any_of(
        snapshot.reservations.begin(), snapshot.reservations.end(),
        [&](const Reservation& each) { return each.gpus.test(gpu) && each.start < end && each.end > start; });
    if (reserved || snapshot.gpus[gpu].lost) continue;
    WallTime free = start;
    for (const PlacementHolder& holder : room.slots()[gpu].holders) free = std::max(free, holder.end);
    gpus.emplace_back(free, snapshot.gpus.size() - gpu);
  }
  if (gpus.size() < static_cast<std::size_t>(count))
    return Fail(ErrorCode::kUnsatisfiable,
                fmt::format("{} of {} GPUs are not reserved at that time; {} are asked for", gpus.size(),
                            snapshot.gpus.size(), count));
  std::sort(gpus.begin(), gpus.end());
  GpuSet set;
  for (int i = 0; i < count; ++i) set.set(snapshot.gpus.size() - gpus[static_cast<std::size_t>(i)].second);
  return set;
}

}  // namespace gpuman::queue
