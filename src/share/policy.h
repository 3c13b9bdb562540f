// Whose turn is next, and from when on a holder makes room for it. Pure. Internal to src/share.
//
// A holder leaves for one that waits
//   - when nothing of it was in flight for the idle time, and its last gaps say that this one will go on for
//     longer than it takes to move the other in; a gap longer than all of those counts once it has lasted as
//     much longer than the idle time,
//   - when its turn is used up and the other had less than it. A turn that its own work will end soon, as its
//     last bursts say (within two more quanta), is let come to that end: a hand-over in a burst costs one
//     that a gap would have hidden, and then another,
//   - when the other goes again by itself (its gaps are longer than moving takes), and its whole visit (what
//   is left of a burst as it usually has, moving in, moving the holder back) fits into what
//     it is behind: who mostly sleeps gets in at once, whatever the turn. Not before the holder had a turn as
//     long as its own coming took: so at most half of the time goes into moving, whatever visitors do,
//   - at once where the policy is strict priority and the other's is higher, where it was let in only while
//     the other had to wait anyway, and where it stands still itself, for room that it does not get in this
//     set.
#pragma once

#include "share/quantum.h"
#include "share/tenant.h"

namespace gpuman::share {

struct Circumstances {
  const SchedulerSettings& settings;
  const MovingMeter& meter;
  base::MonoTime now;
};

// The longest turn of one that does not give up its turn, in quanta: where its burst is let come to its end.
constexpr int kLongestTurn = 3;
// What one can save up by not wanting a turn, in quanta.
constexpr int kCredit = 2;

// Among those that wait.
bool IsBefore(const Tenant& a, const Tenant& b, Policy policy);

// When the holder makes room for the one that waits: now, or not before the time returned, when it has to be
// asked again. Where its turn is over and the other is not owed one, the holder begins another.
base::MonoTime LeavesAt(Tenant& holder, const Tenant& waiter, const Circumstances& at);

// The quantum of a hand-over for this one; a turn among those who fit together is another than one that
// moves memory.
Span TurnFor(const Tenant& waiter, const Circumstances& at);

// It has a turn and can use it: one that waits for room stands still.
bool HasTurn(const Tenant& tenant);

// Charges what ran for the time since the last event, and keeps the books relative to who has least.
void Charge(const Group& tenants, Span passed);
void Rebase(const Group& tenants, Span quantum);

}  // namespace gpuman::share
