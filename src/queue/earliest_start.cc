#include "queue/earliest_start.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gpuman::queue {
namespace {

// A preemptible job is no obstacle for one that may preempt it.
bool Yields(const RoomChecker& room, const Ranks& ranks, const PlacementHolder& holder,
            const PlacementRequest& request) {
  const Snapshot& snapshot = room.snapshot();
  if (holder.running == kNone || request.need.preemptible || !snapshot.settings.preempt) return false;
  const RunningJobInput& job = snapshot.running[holder.running];
  return snapshot.needs[job.need].preemptible &&
         ranks.Of(room.now(), job.member, job.need, job.priority) > request.rank;
}

// When enough of this GPU is free for the job.
WallTime FreeAt(const RoomChecker& room, const Ranks& ranks, std::size_t gpu,
                const PlacementRequest& request) {
  const GpuRoom& slot = room.slots()[gpu];
  std::vector<std::pair<WallTime, base::Bytes>> ends;
  WallTime last = room.now();
  base::Bytes held;
  for (const PlacementHolder& holder : slot.holders) {
    const WallTime end = Yields(room, ranks, holder, request) ? room.now() : holder.end;
    if (!holder.share || !request.need.share) last = std::max(last, end);
    if (!holder.share) continue;
    ends.emplace_back(end, holder.memory);
    held += holder.memory;
  }
  if (!request.need.share) return last;
  const Gpu& info = room.snapshot().gpus[gpu];
  const base::Bytes whole = info.memory - info.foreign - room.LeftBeside(gpu, request.job);
  std::sort(ends.begin(), ends.end());
  WallTime at = last;
  for (const auto& [end, memory] : ends) {
    if (held + request.need.memory <= whole) break;
    at = std::max(at, end);
    held = held - memory;
  }
  return held + request.need.memory <= whole ? at : kNever;
}

struct Timed {
  WallTime at;
  std::size_t gpu;
};

// All times at which the job could start: a GPU becomes free, a reservation ends, or a job frees its host
// memory.
std::vector<WallTime> Moments(const RoomChecker& room, const PlacementRequest& request,
                              const std::vector<Timed>& gpus) {
  std::vector<WallTime> moments{room.now()};
  for (const Timed& each : gpus)
    if (each.at != kNever) moments.push_back(each.at);
  for (const Reservation& each : room.snapshot().reservations)
    if (each.end > room.now()) moments.push_back(each.end);
  if (!request.host_counted && (request.need.host_memory.count > 0 || request.need.cpus > 0))
    for (const RunningJobInput& job : room.snapshot().running)
      if (const WallTime end = room.EndOf(job); end != kNever) moments.push_back(end);
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  return moments;
}

bool HostSuffices(const RoomChecker& room, const PlacementRequest& request, WallTime time) {
  if (request.host_counted || (request.need.host_memory.count == 0 && request.need.cpus == 0)) return true;
  const Host host = room.HostAt(time);
  return request.need.host_memory <= host.memory.value_or(request.need.host_memory) &&
         request.need.cpus <= host.cpus.value_or(request.need.cpus);
}

}  // namespace

std::optional<EarliestStart> Earliest(const RoomChecker& room, const Ranks& ranks,
                                      const PlacementRequest& request) {
  const auto count = static_cast<std::size_t>(request.need.gpus);
  std::vector<Timed> gpus;
  for (std::size_t gpu = 0; gpu < room.slots().size(); ++gpu)
    if (request.need.possible.test(gpu) && room.IsUsable(gpu, request.need) &&
        room.HasRoomBesideLeft(gpu, request.need, request.job))
      gpus.push_back({FreeAt(room, ranks, gpu, request), gpu});
  if (gpus.size() < count) return std::nullopt;
  std::stable_sort(gpus.begin(), gpus.end(), [](const Timed& a, const Timed& b) { return a.at > b.at; });

  const Millis limit = request.need.time_limit;
  for (const WallTime moment : Moments(room, request, gpus)) {
    if (!HostSuffices(room, request, moment)) continue;
    EarliestStart ahead{moment, {}};
    const WallTime end = limit.count() > 0 ? moment + limit : kNever;
    for (const Timed& each : gpus)
      if (each.at <= moment && ahead.gpus.count() < count &&
          room.IsUnreserved(each.gpu, request.user, moment, end))
        ahead.gpus.set(each.gpu);
    if (ahead.gpus.count() == count) return ahead;
  }
  // A job without a known end must end first. The GPUs to keep are those that are free soonest.
  EarliestStart ahead;
  for (auto each = gpus.rbegin(); each != gpus.rend() && ahead.gpus.count() < count; ++each)
    if (room.IsUnreserved(each->gpu, request.user, room.now(), kNever)) ahead.gpus.set(each->gpu);
  if (ahead.gpus.count() < count) return std::nullopt;
  return ahead;
}

}  // namespace gpuman::queue
