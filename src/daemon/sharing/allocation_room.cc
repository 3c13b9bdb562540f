#include "daemon/sharing/allocation_room.h"

#include <utility>

namespace gpuman::daemon {
namespace {

// After this time a promise is offered again, or is void.
constexpr base::Millis kPromiseHolds{20};
constexpr int kMaxInVain = 20;

}  // namespace

void AllocationRoom::Promise(const std::string& gpu, base::Bytes bytes, base::Bytes counted,
                             base::Bytes most_wanted) {
  in_vain_ = counted == counted_at_promise_ ? in_vain_ + 1 : 0;
  counted_at_promise_ = counted;
  if (in_vain_ > kMaxInVain) denied_ = most_wanted;
  promised_[gpu] = {bytes, counted};
  wants_fell_.reset();
  deny_at_.reset();
  offer_ = true;
}

void AllocationRoom::DenyAt(const std::string& gpu, base::MonoTime when) {
  promised_.erase(gpu);
  deny_at_ = when;
}

bool AllocationRoom::TakeDueDenial(base::MonoTime now) {
  if (!deny_at_ || now < *deny_at_) return false;
  deny_at_.reset();
  return true;
}

std::set<std::string> AllocationRoom::Check(share::MemoryDemands& demand, const share::MemoryDemands& before,
                                            const std::function<base::Bytes(const std::string&)>& counted,
                                            bool open, base::MonoTime now) {
  std::set<std::string> taken;
  for (const auto& [gpu, promise] : promised_) {
    share::MemoryDemand& part = demand[gpu];
    const base::Bytes has = counted(gpu);
    if (part.wants.count > 0) {
      wants_fell_.reset();
      if (has >= promise.counted + promise.bytes)
        taken.insert(gpu);
      else if (open && now >= offered_ + kPromiseHolds)
        offer_ = true;
      continue;
    }
    if (has != promise.counted) continue;
    if (!wants_fell_) wants_fell_ = now;
    if (now >= *wants_fell_ + kPromiseHolds) continue;
    if (const auto wanted = before.find(gpu); wanted != before.end()) part.wants = wanted->second.wants;
  }
  return taken;
}

void AllocationRoom::OnDemand(const share::MemoryDemands& demand, const share::MemoryDemands& before,
                              const std::set<std::string>& taken) {
  bool wants = false;
  for (const auto& [gpu, part] : demand) {
    wants = wants || part.wants.count > 0;
    const auto earlier = before.find(gpu);
    const bool same = earlier != before.end() && earlier->second.wants == part.wants;
    if (!same || taken.contains(gpu)) promised_.erase(gpu);
    if (!same) denied_ = {};  // other allocations wait now; the denial was for the earlier ones
  }
  if (!wants) deny_at_.reset();
}

void AllocationRoom::Clear() {
  promised_.clear();
  deny_at_.reset();
}

base::Bytes AllocationRoom::PromisedOn(const std::string& gpu) const {
  const auto promised = promised_.find(gpu);
  return promised == promised_.end() ? base::Bytes{} : promised->second.bytes;
}

bool AllocationRoom::TakeOffer(base::MonoTime now) {
  if (!std::exchange(offer_, false)) return false;
  offered_ = now;
  return true;
}

}  // namespace gpuman::daemon
