#include "queue/room.h"

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

Room::Room(const Snapshot& snapshot, WallTime now)
    : snapshot_(&snapshot),
      now_(now),
      privileged_(snapshot.users.size(), false),
      reserved_(snapshot.gpus.size(), kNever),
      host_(snapshot.host) {
  for (const Gpu& gpu : snapshot.gpus) {
    Slot slot;
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
    const Running& job = snapshot.running[i];
    const Need& need = snapshot.needs[job.need];
    Subtract(host_, need);
    if (job.phase == Phase::kSuspended) continue;
    const WallTime end = EndOf(job);
    ForEach(job.gpus, [&](std::size_t gpu) {
      const bool leaving = job.phase == Phase::kLeaving || job.leaving.test(gpu);
      Hold(gpu, {static_cast<Index>(i), leaving ? now : end, need.memory, need.share, leaving});
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

WallTime Room::EndOf(const Running& job) const {
  const Millis limit = snapshot_->needs[job.need].time_limit;
  if (limit.count() == 0) return kNever;
  return now_ + std::max(Millis(0), limit - job.ran);
}

void Room::Hold(std::size_t gpu, const Holder& holder) {
  Slot& slot = slots_[gpu];
  slot.holders.push_back(holder);
  slot.exclusive |= !holder.share;
  slot.free = slot.exclusive ? base::Bytes{} : slot.free - holder.memory;
  idle_.reset(gpu);
  empty_.reset(gpu);
  if (!slot.exclusive) return;
  sharable_.reset(gpu);
  partly_.reset(gpu);
}

bool Room::IsUsable(std::size_t gpu, const Need& need) const {
  const Slot& slot = slots_[gpu];
  return slot.open && (!slot.unmanaged || (need.share && snapshot_->settings.share_unmanaged));
}

bool Room::IsUnreserved(std::size_t gpu, Index user, WallTime from, WallTime to) const {
  return std::none_of(snapshot_->reservations.begin(), snapshot_->reservations.end(),
                      [&](const Reservation& each) {
                        if (!each.gpus.test(gpu) || each.end <= std::max(from, now_) || each.start >= to)
                          return false;
                        return std::find(each.users.begin(), each.users.end(), user) == each.users.end();
                      });
}

bool Room::MayHold(std::size_t gpu, const Wish& wish, const Bars& bars) const {
  const Slot& slot = slots_[gpu];
  const bool leaves =
      wish.need.preemptible && snapshot_->settings.preempt;  // when somebody else's time comes
  if (bars.claims && !wish.resumes && wish.end > slot.claimed && (!leaves || slot.claimed_firmly) &&
      !(wish.need.share && wish.need.memory <= slot.spare))
    return false;
  if (!bars.reservations) return true;
  const WallTime end = leaves ? now_ + Millis(1) : wish.end;
  if (!privileged_[wish.user]) return end <= reserved_[gpu];
  return IsUnreserved(gpu, wish.user, now_, end);
}

bool Room::Fits(std::size_t gpu, const Wish& wish, const Bars& bars) const {
  const Slot& slot = slots_[gpu];
  if (wish.need.free_memory > slot.free || (wish.need.share && wish.need.memory > slot.free)) return false;
  const bool managed = !slot.unmanaged || (wish.need.share && snapshot_->settings.share_unmanaged);
  if ((bars.closed && !slot.open) || (bars.unmanaged && !managed)) return false;
  return MayHold(gpu, wish, bars);
}

GpuSet Room::Fitting(const Wish& wish, const Bars& bars) const {
  GpuSet fitting;
  ForEach((wish.need.share ? partly_ : empty_) & wish.need.possible, [&](std::size_t gpu) {
    if (Fits(gpu, wish, bars)) fitting.set(gpu);
  });
  return fitting;
}

bool Room::HostFits(const Wish& wish) const {
  if (wish.host_counted || !HasHost(wish.need)) return true;
  return IsWithin(wish.need, host_) && (wish.end <= host_claimed_ || IsWithin(wish.need, host_spare_));
}

std::optional<GpuSet> Room::Find(const Wish& wish) const {
  if (!HostFits(wish)) return std::nullopt;
  const auto count = static_cast<std::size_t>(wish.need.gpus);
  if (count == 0) return GpuSet{};
  if (((wish.need.share ? sharable_ : idle_) & wish.need.possible).count() < count) return std::nullopt;
  if (wish.need.share && wish.need.memory > most_free_) return std::nullopt;
  const GpuSet fitting = Fitting(wish);
  if (fitting.count() < count) return std::nullopt;
  std::vector<Candidate> candidates;
  ForEach(fitting, [&](std::size_t gpu) {
    candidates.push_back({gpu, !slots_[gpu].holders.empty(), slots_[gpu].free, slots_[gpu].claimed});
  });
  return Choose(*snapshot_, std::move(candidates), count, wish.need.share, wish.job);
}

Reason Room::WhyNot(const Wish& wish) const {
  const auto count = static_cast<std::size_t>(wish.need.gpus);
  const auto would = [&](const Bars& bars) { return Fitting(wish, bars).count() >= count; };
  if (((wish.need.share ? partly_ : empty_) & wish.need.possible).count() < count) return Reason::kResources;
  if (!wish.host_counted && HasHost(wish.need) && !IsWithin(wish.need, host_)) return Reason::kResources;
  if (would({.claims = false})) return Reason::kPriority;
  if (would({.claims = false, .reservations = false})) return Reason::kReservation;
  if (would({.claims = false, .reservations = false, .unmanaged = false})) return Reason::kUnmanaged;
  if (would({.claims = false, .reservations = false, .unmanaged = false, .closed = false}))
    return Reason::kUnavailable;
  return Reason::kResources;
}

void Room::Take(const Wish& wish, const GpuSet& gpus) {
  if (!wish.host_counted) {
    Subtract(host_, wish.need);
    if (wish.end > host_claimed_) Subtract(host_spare_, wish.need);
    host_holders_.push_back({wish.end, wish.need.host_memory, wish.need.cpus});
  }
  ForEach(gpus, [&](std::size_t gpu) {
    Slot& slot = slots_[gpu];
    Hold(gpu, {kNone, wish.end, wish.need.memory, wish.need.share, false});
    if (wish.end > slot.claimed) slot.spare = slot.spare - wish.need.memory;
  });
  FindMostFree();
}

void Room::FindMostFree() {
  most_free_ = {};
  ForEach(sharable_, [&](std::size_t gpu) { most_free_ = std::max(most_free_, slots_[gpu].free); });
}

void Room::Dismiss(Index running) {
  for (Slot& slot : slots_)
    for (Holder& holder : slot.holders)
      if (holder.running == running) {
        holder.leaving = true;
        holder.end = now_;
      }
}

void Room::Claim(const Wish& wish, const GpuSet& gpus, WallTime from) {
  ForEach(gpus, [&](std::size_t gpu) {
    Slot& slot = slots_[gpu];
    slot.claimed = from;
    slot.claimed_firmly = wish.need.preemptible || !snapshot_->settings.preempt;
    slot.spare = {};
    if (!wish.need.share) return;
    slot.spare = snapshot_->gpus[gpu].memory - snapshot_->gpus[gpu].foreign - wish.need.memory;
    for (const Holder& holder : slot.holders)
      if (holder.end > from) slot.spare = slot.spare - holder.memory;
  });
  if (wish.host_counted || !HasHost(wish.need)) return;
  host_claimed_ = from;
  host_spare_ = HostAt(from);
  Subtract(host_spare_, wish.need);
}

Host Room::HostAt(WallTime time) const {
  Host host = snapshot_->host;
  for (const Running& job : snapshot_->running) {
    const Need& need = snapshot_->needs[job.need];
    if (HasHost(need) && job.phase != Phase::kLeaving && EndOf(job) > time) Subtract(host, need);
  }
  for (const HostHolder& holder : host_holders_)
    if (holder.end > time) Subtract(host, Need{.host_memory = holder.memory, .cpus = holder.cpus});
  return host;
}

}  // namespace gpuman::queue
