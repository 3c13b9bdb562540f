// Which tenant has the next turn, and when a holder (a tenant that has a turn) makes room for it. Pure.
// Internal to src/share.
//
// A holder leaves for a tenant that waits
//   - when none of the holder's work was in flight for the idle time, and its last gaps say that this gap
//     will last longer than it takes to move the waiter in; a gap longer than all of the last gaps counts
//     once it has lasted for the idle time and then for as long as that move takes,
//   - when the holder's turn is used up and the waiter had less GPU time than the holder. If the holder's
//     last bursts say that its work will end soon (within two more quanta), it may finish: a hand-over in the
//     middle of a burst costs time that a gap would have hidden, and needs a second hand-over later,
//   - where turns go by shares: when the holder's turn is used up and the waiter has had less than its share by
//     a turn's length of GPU time. The holder does not finish then,
//   - when the waiter leaves again by itself (its gaps are longer than moving takes), and its whole short
//     turn (the usual rest of its burst, moving the waiter in, moving the holder back) fits into the time
//     that the waiter is behind: a tenant that mostly sleeps gets in at once, however much of the holder's
//     turn is left. The holder first has a turn as long as its own hand-over took: so moving takes at most
//     half of the time, however many short turns there are,
//   - when the waiter is interactive and has waited for interactive_wait, whatever is left of the holder's
//     turn (the holder first has a turn as long as its own hand-over took, as above). A tenant is interactive
//     where its user says so, or where its bursts are usually shorter than the shortest turn and its gaps
//     longer than moving takes; and only as long as it had no more than its overdraft beyond its fair part,
//   - at once where the waiter's work goes first and the holder's does not (latency.h). If memory has to move
//     for it, the holder first has a turn as long as its own hand-over took,
//   - at once where the policy is strict priority and the waiter's priority is higher, where the holder was
//     let in only while the waiter had to wait anyway, and where the holder itself waits for room that it
//     does not get in this run set.
#pragma once

#include "share/hand_over_cost.h"
#include "share/tenant.h"

namespace gpuman::share {

// After how long without work a tenant is idle. `by_share`: the tenants have turns by shares
// (compute_share.h).
inline Span IdleTime(const SchedulerSettings& settings, bool by_share) {
  return by_share ? std::min(kShareIdle, Span(settings.idle)) : Span(settings.idle);
}

struct PolicyContext {
  const SchedulerSettings& settings;
  const HandOverCostEstimator& meter;
  base::MonoTime now;
  bool by_share = false;

  Span Idle() const { return IdleTime(settings, by_share); }
};

// The longest turn of a tenant that does not give up its turn, in quanta: its burst may end within it.
constexpr int kLongestTurn = 3;
// The credit that a tenant can save up while it wants no turn, in quanta.
constexpr int kCredit = 2;

// An interactive tenant may be ahead of the tenant that had least by this many quanta.
constexpr int kOverdraft = 2;

// Whether the tenant is interactive, and within its overdraft.
bool IsUrgent(const Tenant& tenant, const PolicyContext& at);
// Whether it is interactive by its rhythm, whatever its user says.
bool IsLearnedInteractive(const Tenant& tenant, const PolicyContext& at);

// The order of waiting tenants: under kFair and among equals of kPriority those that are urgent come first.
bool IsBefore(const Tenant& a, const Tenant& b, PolicyKind policy);

// When the holder makes room for the waiter: now, or not before the returned time; then the caller asks
// again. Where the holder's turn is over and the waiter is not owed a turn, the holder begins another turn.
base::MonoTime LeavesAt(Tenant& holder, const Tenant& waiter, const PolicyContext& at);

// Until when an idle holder's gap counts as short, whatever its turn says: now, or a later time.
base::MonoTime GapLasts(const Tenant& holder, const Tenant& waiter, const PolicyContext& at);

// How long a turn has to be, given the waiter's hand-over: compute_quantum where no memory has to move (by
// shares less, unless it is on several GPUs, which takes longer), else long enough for the moving time.
Span TurnFor(const Tenant& waiter, const PolicyContext& at);

// The tenant has a turn and can use it; a tenant that waits for room cannot use it.
bool HasTurn(const Tenant& tenant);

// Whether others wait, and whether any of them waits for memory to leave.
struct Contention {
  bool any = false, for_room = false;
};
Contention ContentionOf(const Group& tenants);
// Whether the tenant, which has a turn, is charged for it: it works, or rests while others wait for what it
// has. A tenant whose work goes first keeps only those waiting that need its room.
bool IsCharged(const Tenant& tenant, Contention contention);

// Charge adds the time since the last event to Tenant::ahead of the tenants that ran; Rebase makes `ahead`
// relative to the tenant with the least.
void Charge(const Group& tenants, Span passed);
void Rebase(const Group& tenants, Span quantum);

}  // namespace gpuman::share
