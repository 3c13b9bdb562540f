// What the waiting allocations of one job may take, or are denied, on each GPU.
//
// The shims are told by an offer: each waiting allocation then tries again. An allocation with promised room
// stops waiting just before it takes that room, and waits again if it fails nevertheless; neither ends the
// promise. What is denied fails at once.
//
// Pure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/units.h"
#include "share/events.h"

namespace gpuman::daemon {

class AllocationRoom {
 public:
  // An allocation may take so many bytes. `counted`: what the ledgers count for the job on the GPU now;
  // `most_wanted`: the most that one process waits for. After many promises in vain the driver has less free
  // memory than the figures say: then so much is denied.
  void Promise(const std::string& gpu, base::Bytes bytes, base::Bytes counted, base::Bytes most_wanted);
  // There will be no room on the GPU: what the job wants then, on any GPU, is denied from `when` on.
  void DenyAt(const std::string& gpu, base::MonoTime when);
  // Whether that time has come; true only once.
  bool TakeDueDenial(base::MonoTime now);
  // Allocations of this size or more fail.
  void Deny(base::Bytes size) { denied_ = size; }

  // Looks at the job's new demand, of which `before` was the last. Where a promise may still be taken though
  // nothing waits, the demand keeps what was wanted. Returns the GPUs where the promised room was taken and
  // another allocation already waits. `counted`: what the job counts on a GPU; `open`: its gate is.
  std::set<std::string> Check(share::MemoryDemands& demand, const share::MemoryDemands& before,
                              const std::function<base::Bytes(const std::string&)>& counted, bool open,
                              base::MonoTime now);
  // The scheduler is told of this demand.
  void OnDemand(const share::MemoryDemands& demand, const share::MemoryDemands& before,
                const std::set<std::string>& taken);
  void OnGateOpened() { in_vain_ = 0; }
  void OnGateClosed() { promised_.clear(); }
  // Promises are void, and nothing will be denied.
  void Clear();

  base::Bytes PromisedOn(const std::string& gpu) const;
  base::Bytes denied() const { return denied_; }
  // Whether the ledgers have to be looked at often: allocations take room without a notification.
  bool IsBeingTaken() const { return !promised_.empty() || deny_at_ || denied_.count > 0; }
  // Whether the shims have something to be told.
  bool MustTellShims() const { return offer_ || denied_.count > 0; }
  // The shims have new settings: if something is denied, waiting allocations try again.
  void OnSettingsChanged() { offer_ = offer_ || denied_.count > 0; }
  // Whether waiting allocations are to try again now. They are not asked again before there is a reason.
  bool TakeOffer(base::MonoTime now);

 private:
  struct PromisedRoom {
    base::Bytes bytes, counted;  // what the job counted then
  };

  std::map<std::string, PromisedRoom> promised_;  // by GPU
  std::optional<base::MonoTime> wants_fell_;      // when demand fell although no promised room was taken
  bool offer_ = false;                            // there is something to offer
  base::MonoTime offered_{};
  std::optional<base::MonoTime> deny_at_;
  base::Bytes denied_{};
  int in_vain_ = 0;  // promises since the job last grew
  base::Bytes counted_at_promise_{};
};

}  // namespace gpuman::daemon
