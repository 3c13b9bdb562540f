// Decides whether tenants that fit together run side by side or in turns: trials show in which mode they
// complete more. Value; pure.
//
//   kConcurrent trial -> kExclusive trial -> keep the better -- compute_again, or other tenants --> trial
//
// Different tenants count different things, so each tenant is compared with itself: turns are better where
// the tenants on average complete more in turns than side by side.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "share/events.h"

namespace gpuman::share {

class ConcurrencyTuner {
 public:
  // `working`: the tenants that have work and share a GPU; fewer than two need no choice.
  void Update(const std::set<TenantId>& working, const SchedulerSettings& settings, base::MonoTime now);
  void Add(TenantId tenant, std::uint64_t completed);

  bool IsExclusive() const { return exclusive_; }
  std::optional<base::MonoTime> Deadline() const;

 private:
  enum class TrialPhase { kNone, kConcurrent, kExclusive, kKept };
  void Enter(TrialPhase phase, base::MonoTime until);
  void Compare();

  TrialPhase phase_ = TrialPhase::kNone;
  bool exclusive_ = false, alone_ = false;
  std::set<TenantId> working_;
  base::MonoTime until_{};
  std::map<TenantId, std::uint64_t> counts_, side_by_side_;
};

}  // namespace gpuman::share
