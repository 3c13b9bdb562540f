// Which tenant has the next turn, and from when on a holder makes room for it. Pure. Internal to src/share.
//
// A holder leaves for a tenant that waits
//   - when none of its work was in flight for the idle time, and its last gaps say that this one will last
//     longer than it takes to move the waiter in; a gap longer than all of those counts once it has lasted
//     for as much longer than the idle time,
//   - when its turn is used up and the waiter had less than it. If its own work will end soon, as its last
//     bursts say (within two more quanta), it may finish: a hand-over in a burst costs one that a gap would
//     have hidden, and then another,
//   - when the waiter leaves again by itself (its gaps are longer than moving takes), and its whole visit
//     (what usually is left of its burst, moving it in, moving the holder back) fits into the time that it is
//     behind: a tenant that mostly sleeps gets in at once, whatever the turn. Not before the holder had a
//     turn as long as its own coming took: so at most half of the time goes into moving, whatever visitors
//     do,
//   - at once where the policy is strict priority and the waiter's is higher, where the holder was let in
//     only while the waiter had to wait anyway, and where the holder stands still itself, for room that it
//     does not get in this run set.
#pragma once

#include "share/quantum.h"
#include "share/tenant.h"

namespace gpuman::share {

struct Circumstances {
  const SchedulerSettings& settings;
  const MovingMeter& meter;
  base::MonoTime now;
};

// The longest turn of a tenant that does not give up its turn, in quanta: its burst may end within it.
constexpr int kLongestTurn = 3;
// The credit that a tenant can save up while it wants no turn, in quanta.
constexpr int kCredit = 2;

// The order of waiting tenants.
bool IsBefore(const Tenant& a, const Tenant& b, Policy policy);

// When the holder makes room for the waiter: now, or not before the returned time, when the caller asks
// again. Where the holder's turn is over and the waiter is not owed one, the holder begins another.
base::MonoTime LeavesAt(Tenant& holder, const Tenant& waiter, const Circumstances& at);

// The length of a turn that the waiter's hand-over asks for; it differs between tenants that fit together and
// a hand-over that moves memory.
Span TurnFor(const Tenant& waiter, const Circumstances& at);

// The tenant has a turn and can use it; a tenant that waits for room stands still.
bool HasTurn(const Tenant& tenant);

// Charges the tenants that ran for the time since the last event; Rebase counts relative to the tenant that
// has least.
void Charge(const Group& tenants, Span passed);
void Rebase(const Group& tenants, Span quantum);

}  // namespace gpuman::share
