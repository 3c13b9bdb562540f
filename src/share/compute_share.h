// Shares of a GPU's time. While a tenant of a domain has a share, the tenants of that domain take turns even
// where all of them fit together, and each is charged for the time from the moment its gate opens until its
// work has come to rest. What one of them had too much it has less later. Pure. Internal to src/share.
//
// The time of a GPU is divided so: each tenant with a share has that part of it; where the shares are more
// than the whole, each is made smaller by the same factor. The tenants without a share divide the rest by
// their weights, and have at least kPartOfOthers together. What a tenant does not use goes to the others,
// except to a tenant with an upper limit (ComputeShare::may_exceed), which never has more than its share.
#pragma once

#include <deque>
#include <vector>

#include "share/events.h"

namespace gpuman::share {

struct Tenant;

// While tenants have turns by shares: the length of a turn of tenants whose memory is there, and after how
// long without work the rest of a turn is lost. A hand-over without moving takes about a millisecond.
inline constexpr Span kShareTurn = std::chrono::milliseconds(50);
inline constexpr Span kShareIdle = std::chrono::milliseconds(2);
// The most that a tenant owes for time that it had too much, in GPU seconds.
inline constexpr double kMaxOwed = 10;
// Tenants without a share have at least this much together, from 0 to 1.
inline constexpr double kPartOfOthers = 0.05;

// How much of its share a tenant with an upper limit has not used yet. A value.
class ShareBudget {
 public:
  // `passed` time went by; the tenant used the GPU for `used` of it. `part`: its share, from 0 to 1. `turn`:
  // how long a turn should be; the tenant can save up at least as much.
  void Pass(Span passed, Span used, double part, Span turn = kShareTurn);
  // The tenant did not use the GPU for the last `span`, though it was charged for it.
  void Refund(Span span);
  // From the moment that it has used all until it has enough for a turn again.
  bool IsSpent() const { return spent_; }
  // How long until IsSpent changes, if the tenant has the GPU all the time, or none of the time.
  Span ChangesIn(bool has_gpu, double part) const;

 private:
  void Limit();
  double seconds_ = 0;  // of GPU time
  double turn_ = 0;     // seconds
  bool spent_ = false;
};

// The part of the time in which a tenant had the GPU, over the last kRemembered. A value.
class RecentUse {
 public:
  static constexpr Span kRemembered = std::chrono::seconds(10);
  void Add(base::MonoTime now, Span passed, Span used);
  // From 0 to 1; nullopt: nothing is known.
  std::optional<double> Part() const;

 private:
  struct Piece {
    base::MonoTime end;
    Span passed, used;
  };
  std::deque<Piece> pieces_;
};

// Whether the tenants have turns by shares: one of them has an upper limit, or a share and a neighbour.
bool HaveTurnsByShare(const std::vector<Tenant*>& tenants);
// Sets Tenant::time_part of all tenants of a domain. Where they have no turns by shares it becomes 0.
void SetTimeParts(const std::vector<Tenant*>& tenants);
// Charges the time since the last event to budgets and to recent use. `turn`: how long turns are.
void ChargeShares(const std::vector<Tenant*>& tenants, Span passed, Span turn, base::MonoTime now);

}  // namespace gpuman::share
