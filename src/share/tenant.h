// What the scheduler knows of a tenant. Internal to src/share.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "share/compute_share.h"
#include "share/events.h"
#include "share/recent_waits.h"
#include "share/rhythm.h"

namespace gpuman::share {

struct TenantGpuState {
  MemoryDemand demand;
  // The part of demand.managed that needs room while the tenant runs: it can run with less than all of it.
  base::Bytes paged{};
  base::Bytes granted;      // room for its Restore, not used yet
  base::Bytes promised;     // room for the allocation that waits; only while the gate is not closed
  OrderId evict = 0;        // not answered yet
  base::Bytes evict_left;   // what has still to leave by that order
  base::Bytes grown;        // memory of others that had to leave for its allocations in this turn
  bool denied = false;      // it does not get the room that it wants
  bool deadlocked = false;  // the tenant that has this room gives it only when it gets room itself
  bool expected = false;    // the tenant has no memory there yet, and may come there

  // The room that it wants and that was neither denied nor promised.
  base::Bytes Lacks() const { return denied ? base::Bytes{} : demand.wants - promised; }
};

// How long after the deadline of a Close an answer counts. An attempt that ends at its deadline is told a
// little later, on a loaded machine much later, and only the answer says why it failed.
inline constexpr Span kAnswersLate = std::chrono::seconds(1);
// How long, beyond yield_limit, memory that has to leave may stand still before that is reported: a mover has
// to start and find host memory.
inline constexpr Span kStandsStill = std::chrono::seconds(30);
inline constexpr const char* kMemoryStays = "its memory does not leave";
// How long a tenant has to be too large for its GPU before that is reported.
inline constexpr Span kTooLargeHolds = std::chrono::seconds(2);
// A tenant that has run for so long without more memory than before is taken to have all that it needs
// (steady).
inline constexpr Span kSteady = std::chrono::seconds(10);

struct Tenant {
  TenantId id;
  std::string user;
  TenantOptions options;
  std::map<std::string, TenantGpuState> parts;
  std::set<std::string> may_use;  // GPUs

  GatePosition gate = GatePosition::kOpen;
  OrderId gate_order = 0;  // number of the Close, until it is answered
  base::MonoTime close_deadline{};
  // The tenant's gate could not be closed and was opened again: the tenant keeps its memory, and is not asked
  // again before this time.
  std::optional<base::MonoTime> keeps_until;
  unsigned refusals = 0;  // in a row
  bool stuck = false;     // it did not yield because it waits for room; until it has that room
  // It is asked to close in part, to break a deadlock; or it was, and the deadlock lasts.
  enum class InPart { kNo, kAsked, kTried } in_part = InPart::kNo;
  base::MonoTime in_part_until{};  // while it is kAsked: when it counts as tried
  std::string refused;  // why it did not yield when it was asked last; empty: it was not asked, or it yielded
  std::optional<base::MonoTime> refusal_reported_at;
  bool unreported = false;  // `refused` was not reported: it may soon be over
  // False: one of its processes is stopped, or takes up no order.
  bool answers = true;
  std::string silence;  // which process, and why
  base::MonoTime silent_since{};
  bool silence_reported = false, forced = false;  // of this silence
  base::MonoTime left_since{};    // while it is evicted: when its memory last left, or was ordered to leave
  bool staying_reported = false;  // it was reported that none of its memory leaves
  bool parked = false;            // suspended
  bool demand_known = false;      // a DemandChanged has come
  bool moved = false;     // its memory moved, and no DemandChanged has said since then how much is away
  base::Bytes peak;       // the most memory that it had on all of its GPUs together
  Span steady{};          // how long it has run since it had more than ever before, or waited for room;
                          // a part of the time in which it rested counts, too
  bool grows = false;     // it is on several GPUs, or may come there, and may soon want more memory
  OrderId restore = 0;    // not answered yet
  bool stopping = false;  // CancelRestore was sent for that Restore
  // A move failed: the scheduler does not try again before this time.
  std::optional<base::MonoTime> out_blocked, back_blocked;
  unsigned out_failures = 0, back_failures = 0;  // in a row

  TenantActivity activity = TenantActivity::kUnknown;
  base::MonoTime since{};          // when the activity began
  base::MonoTime waiting_since{};  // for a turn or for room
  RecentWaits waits;
  base::MonoTime close_began{};  // while the gate is kClosing
  RecentWaits rests;             // how long its work took to come to rest, or was waited for in vain
  std::optional<base::MonoTime> wait_began;  // of the wait that is not in `waits` yet
  Rhythm rhythm;
  Span burst{};             // of the present burst, the time in which it had a turn
  bool rests_shut = false;  // it came to rest while its gate was closed, which may be the reason

  bool member = false;           // of the run set
  bool fits_beside_all = false;  // no memory has to leave for what it has and wants
  // latency.h: its work goes first; a tenant that goes first has work, so this one gets no turn; the GPU
  // can stop between its launches.
  bool goes_first = false, held_back = false, paced = false;
  bool urgent = false;      // it is interactive, and had no more than its overdraft (policy.h)
  bool starves = false;     // it lacks room that only another run set can give it, and not memory that leaves
  bool backfilled = false;  // let in while a tenant before it kept waiting
  bool gives = false;       // idle, and leaves the run set to give a part of its memory with others
  Span brought_in{};        // how long the hand-over took that brought its memory in for this turn
  std::optional<base::MonoTime> incoming;  // since when a hand-over brings its memory in
  int moves_charged = 1;  // hand-overs charged to it; 2: it pushed another tenant off; 0: it was pushed off
  std::optional<base::MonoTime> too_large_since;  // since when it would not fit alone
  bool too_large_reported = false;
  base::MonoTime turn_since{};
  // GPU seconds divided by the rate, relative to the tenant with the least among those that want a turn.
  // Never negative while this tenant wants a turn itself; while it wants none, not below minus its credit
  // (kCredit).
  double ahead = 0;
  Span had_turn{};     // how long all its turns were together
  Span held_others{};  // how long other tenants stood still, while it had work that goes first
  // While its domain has turns by shares (compute_share.h), else 0: its part of the time, from 0 to 1.
  double time_part = 0;
  ShareBudget budget;  // of a tenant with an upper limit
  RecentUse recent_use;
  bool spent = false;  // it has used its share up, and gets no turn until it has some again

  // How much more of the time it gets than a tenant with the rate 1.
  double Rate() const { return time_part > 0 ? time_part : options.weight; }
  bool HasUpperLimit() const {
    return options.compute && !options.compute->may_exceed && options.compute->part < 1;
  }
  // Its gate closes, and its work is still on the GPU. Where turns go by shares this is its own time.
  bool IsComingToRest() const { return time_part > 0 && gate == GatePosition::kClosing && !parked; }
  bool IsOpen() const { return gate == GatePosition::kOpen; }
  bool IsIdle() const { return activity == TenantActivity::kIdle; }
  // Some of its memory on its GPUs could leave.
  bool HoldsRoom() const {
    return std::any_of(parts.begin(), parts.end(), [](const auto& part) {
      return (part.second.demand.resident + part.second.demand.managed).count > 0;
    });
  }
  bool Meets(const Tenant& other) const {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const auto& part) { return other.parts.count(part.first) > 0; });
  }
  // If both ran, each could take the room that the other needs before it comes to rest.
  bool MayDeadlockWith(const Tenant& other) const { return grows && other.grows && Meets(other); }
  bool LacksRoom() const {
    return std::any_of(parts.begin(), parts.end(),
                       [](const auto& part) { return part.second.Lacks().count > 0; });
  }
  bool HasMemory() const {
    return std::any_of(parts.begin(), parts.end(), [](const auto& part) {
      return (part.second.demand.resident + part.second.demand.away + part.second.demand.managed).count > 0;
    });
  }
  bool HasAway() const {
    return std::any_of(parts.begin(), parts.end(),
                       [](const auto& part) { return part.second.demand.away.count > 0; });
  }
  bool IsEvicting() const {
    return std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.second.evict != 0; });
  }
  // The tenant could use a turn now.
  bool Wants() const { return !parked && (!IsIdle() || LacksRoom()); }
  // The tenant stands still because it lacks a turn or room.
  bool Waits() const {
    if (parked) return false;
    if (LacksRoom()) return true;
    return !IsOpen() && (activity == TenantActivity::kWaiting || activity == TenantActivity::kUnknown);
  }
  // The tenant runs, and all its memory is on its GPUs.
  bool Runs() const { return IsOpen() && !HasAway() && restore == 0; }
  // Managed memory that is on the GPU while the tenant may work. PagedToCome: managed memory that comes to
  // the GPU by itself once the tenant may work.
  base::Bytes PagedHere(const TenantGpuState& part) const {
    return gate == GatePosition::kClosed ? base::Bytes{} : part.paged;
  }
  base::Bytes PagedToCome(const TenantGpuState& part) const {
    return gate == GatePosition::kClosed ? part.paged : base::Bytes{};
  }
  // PagedToCome on the GPU where it is largest.
  base::Bytes MostPagedToCome() const {
    base::Bytes most;
    for (const auto& [gpu, part] : parts) most = std::max(most, PagedToCome(part));
    return most;
  }
  // How many bytes have to come to a GPU before the tenant runs, on the GPU where this is most.
  base::Bytes Missing() const {
    base::Bytes most;
    for (const auto& [gpu, part] : parts) most = std::max(most, part.demand.away + part.Lacks());
    return most;
  }
};

using Group = std::vector<Tenant*>;

}  // namespace gpuman::share
