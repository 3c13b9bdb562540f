#include "queue/make_room.h"

#include <algorithm>
#include <tuple>

namespace gpuman::queue {
namespace {

// One GPU: the part that stays in use when the job comes, and the jobs that could leave.
struct Ground {
  base::Bytes free{};
  base::Bytes left{};    // the part of `free` that jobs leave behind that are on their way off the GPU
  bool blocked = false;  // by a job that stays
  std::vector<Index> may_go{};
};

// The jobs that leave a GPU, and those of them that have to be ended for that.
struct Leavers {
  std::vector<Index> jobs{};
  std::vector<Index> ends{};
};

template <typename MayGo>
Ground Survey(const RoomChecker& room, std::size_t gpu, const PlacementRequest& request, MayGo may_go) {
  const Gpu& info = room.snapshot().gpus[gpu];
  Ground ground{.free = info.memory - info.foreign - room.LeftBeside(gpu, request.job)};
  for (const PlacementHolder& holder : room.slots()[gpu].holders) {
    if (holder.leaving) {
      ground.left += holder.left;
      continue;
    }
    if (holder.share && request.need.share) ground.free = ground.free - holder.memory;
    if (holder.running != kNone && may_go(room.snapshot().running[holder.running]))
      ground.may_go.push_back(holder.running);
    else
      ground.blocked |= !holder.share || !request.need.share;
  }
  return ground;
}

base::Bytes MemoryOf(const RoomChecker& room, Index running) {
  return room.snapshot().needs[room.snapshot().running[running].need].memory;
}

// Returns the memory of the job that stays on the GPU when the job leaves for another.
base::Bytes LeftOf(const RunningJobInput& job, std::size_t gpu) {
  return job.suspendable ? LeftOn(job, gpu) : base::Bytes{};
}

// Whether the job fits where so much is free, of which `left` stays in use.
bool Fits(const RoomChecker& room, std::size_t gpu, const PlacementRequest& request, base::Bytes free,
          base::Bytes left) {
  const Need& need = request.need;
  const base::Bytes wanted = need.share ? std::max(need.memory, need.free_memory) : need.free_memory;
  return free - left >= wanted && room.HasRoomBesideLeft(gpu, need, request.job, left);
}

// Which of `may_go` must leave, in their order, so that the job fits; nullopt: the job does not fit even if
// all leave. For an exclusive job all must leave, for a shared job enough of them. Jobs that leave too much
// behind are ended, those that leave most first.
std::optional<Leavers> WhoGoes(const RoomChecker& room, std::size_t gpu, const PlacementRequest& request,
                               const Ground& ground) {
  if (ground.blocked) return std::nullopt;
  const auto& running = room.snapshot().running;
  Leavers going;
  base::Bytes free = ground.free, left = ground.left;
  for (const Index each : ground.may_go) {
    const bool shared = room.snapshot().needs[running[each].need].share;
    if (request.need.share && shared && Fits(room, gpu, request, free, left)) continue;
    going.jobs.push_back(each);
    if (request.need.share && shared) free += MemoryOf(room, each);
    left += LeftOf(running[each], gpu);
  }
  auto by_left = going.jobs;
  std::stable_sort(by_left.begin(), by_left.end(),
                   [&](Index a, Index b) { return LeftOf(running[a], gpu) > LeftOf(running[b], gpu); });
  for (const Index each : by_left) {
    const base::Bytes stays = LeftOf(running[each], gpu);
    if (stays.count == 0 || Fits(room, gpu, request, free, left)) break;
    going.ends.push_back(each);
    left = left - stays;
  }
  if (!Fits(room, gpu, request, free, left)) return std::nullopt;
  return going;
}

bool Has(const std::vector<Index>& jobs, Index job) {
  return std::find(jobs.begin(), jobs.end(), job) != jobs.end();
}

bool IsCandidate(const RoomChecker& room, std::size_t gpu, const PlacementRequest& request) {
  return request.need.possible.test(gpu) && room.IsUsable(gpu, request.need) && room.MayHold(gpu, request);
}

bool HasRunLongEnough(const RoomChecker& room, const RunningJobInput& job) {
  return job.phase == RunningPhase::kRunning && job.undisturbed >= room.snapshot().settings.preempt_after;
}

double CostOf(const RunningJobInput& job, bool ends) {
  if (job.suspendable && !ends) return job.idle ? 0.5 : 1;
  return 10 + std::chrono::duration<double, std::ratio<60>>(job.ran).count();  // its work is lost
}

// A request for other GPUs, for a job that must leave `gpu`.
PlacementRequest Elsewhere(const RoomChecker& room, Index running, std::size_t gpu, const GpuSet& kept) {
  const RunningJobInput& job = room.snapshot().running[running];
  PlacementRequest request{
      .need = room.snapshot().needs[job.need], .user = job.user, .job = job.id, .priority = job.priority};
  request.end = room.EndOf(job);
  request.host_counted = true;
  request.need.possible &= ~kept;
  request.need.possible.reset(gpu);
  return request;
}

// Moves the jobs that are in the way of `request` on `gpu` to other GPUs, in `trial`.
bool MoveAway(RoomChecker& trial, const PlacementRequest& request, std::size_t gpu, const GpuSet& kept,
              RoomPlan& plan) {
  Ground ground = Survey(trial, gpu, request, [&](const RunningJobInput& job) {
    return job.movable && job.gpus.count() == 1 && HasRunLongEnough(trial, job);
  });
  const auto& running = trial.snapshot().running;
  std::sort(ground.may_go.begin(), ground.may_go.end(), [&](Index a, Index b) {
    return std::tuple(MemoryOf(trial, a), running[a].id) < std::tuple(MemoryOf(trial, b), running[b].id);
  });
  const auto going = WhoGoes(trial, gpu, request, ground);
  if (!going || !going->ends.empty()) return false;
  if (!going->jobs.empty() && !trial.Find(Elsewhere(trial, going->jobs.back(), gpu, kept)))
    return false;  // a copy costs more than this check
  RoomChecker tried = trial;
  std::vector<std::pair<Index, GpuSet>> moves;
  for (const Index each : going->jobs) {
    const PlacementRequest elsewhere = Elsewhere(tried, each, gpu, kept);
    const auto to = tried.Find(elsewhere);
    if (!to) return false;
    tried.Take(elsewhere, *to);
    tried.Dismiss(each);
    moves.emplace_back(each, *to);
  }
  plan.moves.insert(plan.moves.end(), moves.begin(), moves.end());
  plan.gpus.set(gpu);
  trial = std::move(tried);
  return true;
}

}  // namespace

std::optional<RoomPlan> MakeRoomByMoving(const RoomChecker& room, const PlacementRequest& request) {
  if (!room.snapshot().settings.move || !room.HostFits(request) || request.need.gpus == 0)
    return std::nullopt;
  const auto count = static_cast<std::size_t>(request.need.gpus);
  RoomPlan plan{.gpus = room.Fitting(request)};
  GpuSet kept = plan.gpus;
  if (request.need.exact) kept |= request.need.possible;
  std::vector<std::pair<std::size_t, std::size_t>> candidates;  // by the number of their holders
  for (std::size_t gpu = 0; gpu < room.slots().size(); ++gpu)
    if (!plan.gpus.test(gpu) && IsCandidate(room, gpu, request))
      candidates.emplace_back(room.slots()[gpu].holders.size(), gpu);
  std::sort(candidates.begin(), candidates.end());
  RoomChecker trial = room;
  for (const auto& [holders, gpu] : candidates) {
    if (plan.gpus.count() >= count) break;
    if (MoveAway(trial, request, gpu, kept, plan)) kept.set(gpu);
  }
  if (plan.gpus.count() < count || plan.moves.empty()) return std::nullopt;
  return plan;
}

std::optional<RoomPlan> MakeRoomByPreempting(const RoomChecker& room, const Ranks& ranks,
                                             const PlacementRequest& request, WallTime& again) {
  const Snapshot& snapshot = room.snapshot();
  if (!room.HostFits(request) || request.need.gpus == 0) return std::nullopt;
  const auto yields = [&](const RunningJobInput& job) {
    const bool urgent =
        job.priority < request.priority ||
        (!request.need.preemptible && room.now() >= request.since + snapshot.settings.preempt_wait);
    return snapshot.settings.preempt && snapshot.needs[job.need].preemptible && urgent &&
           job.phase == RunningPhase::kRunning &&
           ranks.Of(room.now(), job.member, job.need, job.priority) > request.rank;
  };
  std::vector<std::pair<std::size_t, Leavers>> candidates;
  for (std::size_t gpu = 0; gpu < room.slots().size(); ++gpu) {
    if (!IsCandidate(room, gpu, request)) continue;
    Ground ground = Survey(room, gpu, request, [&](const RunningJobInput& job) {
      if (!yields(job)) return false;
      if (!HasRunLongEnough(room, job))
        again = std::min(again, room.now() + snapshot.settings.preempt_after - job.undisturbed);
      return HasRunLongEnough(room, job);
    });
    std::sort(ground.may_go.begin(), ground.may_go.end(), [&](Index a, Index b) {
      const RunningJobInput &x = snapshot.running[a], &y = snapshot.running[b];
      return std::tuple(!x.idle, !x.suspendable, x.priority, x.undisturbed, -x.id.value) <
             std::tuple(!y.idle, !y.suspendable, y.priority, y.undisturbed, -y.id.value);
    });
    if (auto going = WhoGoes(room, gpu, request, ground)) candidates.emplace_back(gpu, std::move(*going));
  }
  RoomPlan plan;
  while (plan.gpus.count() < static_cast<std::size_t>(request.need.gpus)) {
    auto best = candidates.end();
    double least = 0;
    for (auto each = candidates.begin(); each != candidates.end(); ++each) {
      double cost = 0;
      for (const Index job : each->second.jobs) {
        const bool ends = Has(each->second.ends, job);
        if (!Has(plan.preempts, job) || (ends && !Has(plan.ends, job)))
          cost += CostOf(snapshot.running[job], ends);
      }
      if (best == candidates.end() || cost < least) std::tie(best, least) = std::pair(each, cost);
    }
    if (best == candidates.end()) return std::nullopt;
    plan.gpus.set(best->first);
    for (const Index job : best->second.jobs)
      if (!Has(plan.preempts, job)) plan.preempts.push_back(job);
    for (const Index job : best->second.ends)
      if (!Has(plan.ends, job)) plan.ends.push_back(job);
    candidates.erase(best);
  }
  return plan;
}

}  // namespace gpuman::queue
