#include "suspend/member_process.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuman::suspend {

using base::Bytes;
using base::MonoTime;

Bytes Sum(const ObservedProcess& view, Bytes GpuFootprint::*part) {
  Bytes sum;
  for (const auto& [gpu, share] : view.gpus) sum += share.*part;
  return sum;
}

bool IsOnGpu(const MemberProcess& member) {
  if (member.saved == DriverState::kCheckpointed) return false;
  // Evicted memory implies a context, also where the driver does not show the size of the context.
  return Sum(member.seen, &GpuFootprint::used).count > 0 ||
         Sum(member.seen, &GpuFootprint::evicted).count > 0;
}

bool IsOff(const MemberProcess& member) {
  return (member.saved != DriverState::kRunning && !member.no_cuda) ||
         member.seen.eviction == EvictionProgress::kEvicted ||
         Sum(member.seen, &GpuFootprint::evicted).count > 0;
}

bool IsAway(const MemberProcess& member) { return Sum(member.seen, &GpuFootprint::evicted).count > 0; }

bool ComesBack(const MemberProcess& member) {
  return member.seen.has_shim &&
         (member.seen.eviction == EvictionProgress::kRestoring || !member.seen.answered);
}

bool IsShimAtWork(const MemberProcess& member) {
  return member.seen.eviction == EvictionProgress::kEvicting ||
         member.seen.eviction == EvictionProgress::kRestoring;
}

bool Stays(const MemberProcess& member) {
  return member.seen.eviction == EvictionProgress::kEvicted && member.seen.answered && Shares(member);
}

MonoTime AtWorkSince(const MemberProcess& member) {
  return std::max(member.ordered_at, member.eviction_since);
}

bool MayBegin(const MemberProcess& member) {
  return member.order == ProcessOrder::kEvict && !member.seen.answered && !member.without_shim &&
         member.saved == DriverState::kRunning;
}

bool MayNotCome(const MemberProcess& member) {
  return MustCome(member) && !member.seen.answered && !member.without_shim &&
         member.seen.eviction != EvictionProgress::kNone;
}

std::string WhyStopped(const MemberProcess& member) {
  return fmt::format("process {} is stopped (by a signal or a debugger), and the driver waits for it",
                     member.seen.id.pid);
}

void ShowRestored(MemberProcess& member) {
  for (const auto& [gpu, bytes] : member.restored) {
    GpuFootprint& share = member.seen.gpus[gpu];
    if (bytes > share.evicted) share.used = std::max(share.used, bytes - share.evicted);
    if (share.evictable.count == 0) member.seen.figures_current = false;  // its shim counts nothing
  }
}

void CorrectRestored(MemberProcess& member, MonoTime now, base::Millis patience) {
  if (now >= member.restored_at + patience) member.restored.clear();
  std::erase_if(member.restored, [&](const auto& one) {
    const auto share = member.seen.gpus.find(one.first);
    return share != member.seen.gpus.end() && share->second.sampled_at >= member.restored_at &&
           share->second.used > kResidue;
  });
  ShowRestored(member);
}

void CorrectLocation(MemberProcess& member, MonoTime now, base::Millis patience) {
  if (!member.arrived) return;
  const auto stale = member.seen.gpus.find(member.arrived->from);
  if (stale == member.seen.gpus.end() || now >= member.arrived_at + patience) return member.arrived.reset();
  const GpuFootprint was = stale->second;
  member.seen.gpus.erase(stale);
  GpuFootprint& there = member.seen.gpus[member.arrived->to];
  there.used = std::max(there.used, was.used);
  there.evictable = std::max(there.evictable, was.evictable);
  there.evicted = std::max(there.evicted, was.evicted);
  there.context = std::max(there.context, was.context);
}

}  // namespace gpuman::suspend
