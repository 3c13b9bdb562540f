#include "queue/room_checker.h"

#include <algorithm>

#include "queue/placement.h"

namespace gpuman::queue {
namespace {

bool IsWithin(const Need& need, const Host& host) {
  return need.host_memory <= host.memory.value_or(need.host_memory) &&
         need.cpus <= host.cpus.value_or(need.cpus);
}

void Subtract(Host& host, const Need& need) {
  if (host.memory) *host.memory = *host.memory - need.host_memory;
  if (host.cpus) *host.cpus = std::max(0, *host.cpus - need.cpus);
}

bool HasHost(const Need& need) { return need.host_memory.count > 0 || need.cpus > 0; }

}  // namespace

RoomChecker::RoomChecker(const Snapshot& snapshot, WallTime now)
    : snapshot_(&snapshot),
      now_(now),
      privileged_(snapshot.users.size(), false),
      reserved_(snapshot.gpus.size(), kNever),
      host_(snapshot.host) {
  for (const Gpu& gpu : snapshot.gpus) {
    GpuRoom slot;
    slot.open = !gpu.drained && !gpu.restricted && !gpu.lost;
    slot.unmanaged = gpu.unmanaged;
    slot.free = gpu.memory - gpu.foreign;
    const std::size_t place = slots_.size();
    idle_.set(place, slot.open && !slot.unmanaged);
    sharable_.set(place, slot.open && (!slot.unmanaged || snapshot.settings.share_unmanaged));
    empty_.set(place);
    partly_.set(place);
    slots_.push_back(slot);
  }
  for (std::size_t i = 0; i < snapshot.running.size(); ++i) {
    const RunningJobInput& job = snapshot.running[i];
    const Need& need = snapshot.needs[job.need];
    Subtract(host_, need);
    if (job.phase == RunningPhase::kSuspended) {
      for (const ResidualOnGpu& each : job.left) {
        slots_[each.gpu].left.push_back({job.id, each.bytes});
        slots_[each.gpu].free = slots_[each.gpu].free - each.bytes;
      }
      continue;
    }
    const WallTime end = EndOf(job);
    ForEach(job.gpus, [&](std::size_t gpu) {
      const bool leaving = job.phase == RunningPhase::kLeaving || job.leaving.test(gpu);
      const base::Bytes left = job.suspendable ? LeftOn(job, gpu) : base::Bytes{};
      Hold(gpu, {static_cast<Index>(i), leaving ? now : end, need.memory, need.share, leaving, left});
    });
  }
  FindMostFree();
  for (const Reservation& reservation : snapshot.reservations) {
    if (reservation.end <= now) continue;
    for (const Index user : reservation.users) privileged_[user] = true;
    for (std::size_t gpu = 0; gpu < slots_.size(); ++gpu)
      if (reservation.gpus.test(gpu)) reserved_[gpu] = std::min(reserved_[gpu], reservation.start);
  }
}

WallTime RoomChecker::EndOf(const RunningJobInput& job) const {
  const Millis limit = snapshot_->needs[job.need].time_limit;
  if (limit.count() == 0) return kNever;
  return now_ + std::max(Millis(0), limit - job.ran);
}

void RoomChecker::Hold(std::size_t gpu, const PlacementHolder& holder) {
  GpuRoom& slot = slots_[gpu];
  slot.holders.push_back(holder);
  slot.exclusive |= !holder.share;
  slot.free = slot.exclusive ? base::Bytes{} : slot.free - holder.memory;
  idle_.reset(gpu);
  empty_.reset(gpu);
  if (!slot.exclusive) return;
  sharable_.reset(gpu);
  partly_.reset(gpu);
}

bool RoomChecker::IsUsable(std::size_t gpu, const Need& need) const {
  const GpuRoom& slot = slots_[gpu];
  return slot.open && (!slot.unmanaged || (need.share && snapshot_->settings.share_unmanaged));
}

bool RoomChecker::IsUnreserved(std::size_t gpu, Index user, WallTime from, WallTime to) const {
  return std::none_of(snapshot_->reservations.begin(), snapshot_->reservations.end(),
                      [&](const Reservation& each) {
                        if (!each.gpus.test(gpu) || each.end <= std::max(from, now_) || each.start >= to)
                          return false;
                        return std::find(each.users.begin(), each.users.end(), user) == each.users.end();
                      });
}

bool RoomChecker::MayHold(std::size_t gpu, const PlacementRequest& request,
                          const PlacementChecks& constraints) const {
  const GpuRoom& slot = slots_[gpu];
  const bool leaves =
      request.need.preemptible && snapshot_->settings.preempt;  // when a claim or a reservation begins
  if (constraints.claims && !request.resumes && request.end > slot.claimed &&
      (!leaves || slot.claimed_firmly) && !(request.need.share && request.need.memory <= slot.spare))
    return false;
  if (!constraints.reservations) return true;
  const WallTime end = leaves ? now_ + Millis(1) : request.end;
  if (!privileged_[request.user]) return end <= reserved_[gpu];
  return IsUnreserved(gpu, request.user, now_, end);
}

base::Bytes RoomChecker::LeftBeside(std::size_t gpu, JobId job) const {
  base::Bytes sum;
  for (const ResidualMemory& each : slots_[gpu].left)
    if (each.job != job) sum += each.bytes;
  return sum;
}

base::Bytes RoomChecker::FreeFor(std::size_t gpu, JobId job) const {
  const GpuRoom& slot = slots_[gpu];
  if (slot.exclusive) return slot.free;
  base::Bytes free = slot.free;
  for (const ResidualMemory& each : slot.left)
    if (each.job == job) free += each.bytes;
  return free;
}

bool RoomChecker::HasRoomBesideLeft(std::size_t gpu, const Need& need, JobId job, base::Bytes more) const {
  return std::max(need.memory, need.free_memory) <= snapshot_->gpus[gpu].memory - LeftBeside(gpu, job) - more;
}

bool RoomChecker::Fits(std::size_t gpu, const PlacementRequest& request,
                       const PlacementChecks& constraints) const {
  const GpuRoom& slot = slots_[gpu];
  const base::Bytes free = FreeFor(gpu, request.job);
  if (request.need.free_memory > free || (request.need.share && request.need.memory > free) ||
      !HasRoomBesideLeft(gpu, request.need, request.job))
    return false;
  const bool managed = !slot.unmanaged || (request.need.share && snapshot_->settings.share_unmanaged);
  if ((constraints.closed && !slot.open) || (constraints.unmanaged && !managed)) return false;
  return MayHold(gpu, request, constraints);
}

GpuSet RoomChecker::Fitting(const PlacementRequest& request, const PlacementChecks& constraints) const {
  GpuSet fitting;
  ForEach((request.need.share ? partly_ : empty_) & request.need.possible, [&](std::size_t gpu) {
    if (Fits(gpu, request, constraints)) fitting.set(gpu);
  });
  return fitting;
}

bool RoomChecker::HostFits(const PlacementRequest& request) const {
  if (request.host_counted || !HasHost(request.need)) return true;
  return IsWithin(request.need, host_) &&
         (request.end <= host_claimed_ || IsWithin(request.need, host_spare_));
}

std::optional<GpuSet> RoomChecker::Find(const PlacementRequest& request) const {
  if (!HostFits(request)) return std::nullopt;
  const auto count = static_cast<std::size_t>(request.need.gpus);
  if (count == 0) return GpuSet{};
  if (((request.need.share ? sharable_ : idle_) & request.need.possible).count() < count) return std::nullopt;
  if (request.need.share && !request.host_counted && request.need.memory > most_free_) return std::nullopt;
  const GpuSet fitting = Fitting(request);
  if (fitting.count() < count) return std::nullopt;
  std::vector<CandidateGpu> candidates;
  ForEach(fitting, [&](std::size_t gpu) {
    candidates.push_back({gpu, !slots_[gpu].holders.empty(), FreeFor(gpu, request.job), slots_[gpu].claimed});
  });
  return Choose(*snapshot_, std::move(candidates), count, request.need.share, request.job);
}

WaitReason RoomChecker::WhyNot(const PlacementRequest& request) const {
  const auto count = static_cast<std::size_t>(request.need.gpus);
  const auto would = [&](const PlacementChecks& constraints) {
    return Fitting(request, constraints).count() >= count;
  };
  if (((request.need.share ? partly_ : empty_) & request.need.possible).count() < count)
    return WaitReason::kResources;
  if (!request.host_counted && HasHost(request.need) && !IsWithin(request.need, host_))
    return WaitReason::kResources;
  if (would({.claims = false})) return WaitReason::kPriority;
  if (would({.claims = false, .reservations = false})) return WaitReason::kReservation;
  if (would({.claims = false, .reservations = false, .unmanaged = false})) return WaitReason::kUnmanaged;
  if (would({.claims = false, .reservations = false, .unmanaged = false, .closed = false}))
    return WaitReason::kUnavailable;
  return WaitReason::kResources;
}

void RoomChecker::Take(const PlacementRequest& request, const GpuSet& gpus) {
  if (!request.host_counted) {
    Subtract(host_, request.need);
    if (request.end > host_claimed_) Subtract(host_spare_, request.need);
    host_holders_.push_back({request.end, request.need.host_memory, request.need.cpus});
  }
  ForEach(gpus, [&](std::size_t gpu) {
    GpuRoom& slot = slots_[gpu];
    // A suspended job that comes back holds what had stayed.
    slot.free = FreeFor(gpu, request.job);
    std::erase_if(slot.left, [&](const ResidualMemory& each) { return each.job == request.job; });
    Hold(gpu, {kNone, request.end, request.need.memory, request.need.share});
    if (request.end > slot.claimed) slot.spare = slot.spare - request.need.memory;
  });
  FindMostFree();
}

void RoomChecker::FindMostFree() {
  most_free_ = {};
  ForEach(sharable_, [&](std::size_t gpu) { most_free_ = std::max(most_free_, slots_[gpu].free); });
}

void RoomChecker::Dismiss(Index running, bool ends) {
  for (GpuRoom& slot : slots_)
    for (PlacementHolder& holder : slot.holders)
      if (holder.running == running) {
        holder.leaving = true;
        holder.end = now_;
        if (ends) holder.left = {};
      }
}

void RoomChecker::Claim(const PlacementRequest& request, const GpuSet& gpus, WallTime from) {
  ForEach(gpus, [&](std::size_t gpu) {
    GpuRoom& slot = slots_[gpu];
    slot.claimed = from;
    slot.claimed_firmly = request.need.preemptible || !snapshot_->settings.preempt;
    slot.spare = {};
    if (!request.need.share) return;
    slot.spare = snapshot_->gpus[gpu].memory - snapshot_->gpus[gpu].foreign - LeftBeside(gpu, request.job) -
                 request.need.memory;
    for (const PlacementHolder& holder : slot.holders)
      if (holder.end > from) slot.spare = slot.spare - holder.memory;
  });
  if (request.host_counted || !HasHost(request.need)) return;
  host_claimed_ = from;
  host_spare_ = HostAt(from);
  Subtract(host_spare_, request.need);
}

Host RoomChecker::HostAt(WallTime time) const {
  Host host = snapshot_->host;
  for (const RunningJobInput& job : snapshot_->running) {
    const Need& need = snapshot_->needs[job.need];
    if (HasHost(need) && job.phase != RunningPhase::kLeaving && EndOf(job) > time) Subtract(host, need);
  }
  for (const HostHolder& holder : host_holders_)
    if (holder.end > time) Subtract(host, Need{.host_memory = holder.memory, .cpus = holder.cpus});
  return host;
}

}  // namespace gpuman::queue
