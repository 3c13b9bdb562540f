// What the scheduler knows of a tenant. Internal to src/share.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "share/events.h"
#include "share/rhythm.h"

namespace gpuman::share {

struct GpuPart {
  Demand demand;
  // Of demand.managed, what takes place while the tenant runs: it can run with less than all of it.
  base::Bytes paged{};
  base::Bytes granted;     // room for its Bring, not used yet
  base::Bytes promised;    // room for the allocation that waits; only while the gate is not shut
  OrderId evict = 0;       // not answered yet
  base::Bytes evict_left;  // of that order
  base::Bytes grown;       // others had to leave for it, for its allocations in this turn
  bool denied = false;     // what it wants can never be had

  // Wanted and neither denied nor promised.
  base::Bytes Lacks() const { return denied ? base::Bytes{} : demand.wants - promised; }
};

// Beyond yield_limit, for a mover to start and host memory to be found: how long memory that is to leave may
// stand still before that is said.
inline constexpr Span kStandsStill = std::chrono::seconds(30);
// How long one has to be too large for its GPU before that is said.
inline constexpr Span kTooLargeHolds = std::chrono::seconds(2);

struct Tenant {
  TenantId id;
  std::string user;
  double weight = 1;
  int priority = 0;
  std::map<std::string, GpuPart> parts;

  Gate gate = Gate::kOpen;
  OrderId gate_order = 0;  // Close, until it is answered
  base::MonoTime close_deadline{};
  // Its gate could not be closed and was given back: it keeps what it has, and is not asked again before
  // then.
  std::optional<base::MonoTime> keeps_until;
  unsigned refusals = 0;  // one after the other
  std::string refused;    // why, the last time it was asked; empty: it was not asked, or yielded
  std::optional<base::MonoTime> told_refused;
  // False: one of its processes is stopped, or takes no order up.
  bool answers = true;
  std::string silence;  // which, and how
  base::MonoTime silent_since{};
  bool told_silent = false, forced = false;  // of this silence
  base::MonoTime left_since{};  // while it is being evicted: something of it left, or was told to
  bool told_staying = false;    // that nothing of it does
  bool parked = false;          // suspended
  bool told = false;            // its demand
  bool moved = false;           // and not told since what it has away is
  OrderId bring = 0;            // not answered yet
  bool stopping = false;        // that one, by StopBring
  // A move failed: not tried again before then.
  std::optional<base::MonoTime> out_blocked, back_blocked;
  unsigned out_failures = 0, back_failures = 0;  // one after the other

  Activity activity = Activity::kUnknown;
  base::MonoTime since{};          // of activity
  base::MonoTime waiting_since{};  // for a turn or for room
  Rhythm rhythm;
  Span burst{};             // of the present burst, while it had a turn
  bool rests_shut = false;  // it came to rest behind its gate, which may be why

  bool member = false;      // of the run set
  bool starves = false;     // lacks room that takes another run set, not only memory that is to leave
  bool backfilled = false;  // let in while one before it waited on
  bool incoming = false;    // its memory is brought in this hand-over
  int moves_charged =
      1;  // how many hand-overs its coming in is charged: 2 of who pushed another off, then 0 of that one
  std::optional<base::MonoTime> too_large_since;  // it would not fit alone
  bool told_too_large = false;
  base::MonoTime turn_since{};
  // Seconds of the GPU for its weight, ahead of who has least of those that want a turn; never negative while
  // it wants one itself, and down to its credit while it does not.
  double ahead = 0;
  Span had_turn{};  // sum

  bool IsOpen() const { return gate == Gate::kOpen; }
  bool IsIdle() const { return activity == Activity::kIdle; }
  // Of what it has there, something could leave.
  bool HoldsRoom() const {
    return std::any_of(parts.begin(), parts.end(), [](const auto& part) {
      return (part.second.demand.resident + part.second.demand.managed).count > 0;
    });
  }
  bool Meets(const Tenant& other) const {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const auto& part) { return other.parts.count(part.first) > 0; });
  }
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
  // It would use a turn now.
  bool Wants() const { return !parked && (!IsIdle() || LacksRoom()); }
  // It stands still for want of a turn or of room.
  bool Waits() const {
    if (parked) return false;
    if (LacksRoom()) return true;
    return !IsOpen() && (activity == Activity::kWaiting || activity == Activity::kUnknown);
  }
  // It runs, and all it has is on its GPUs.
  bool Runs() const { return IsOpen() && !HasAway() && bring == 0; }
  // Managed memory on the GPU while it may work, and what of it comes there by itself once it may.
  base::Bytes PagedHere(const GpuPart& part) const {
    return gate == Gate::kClosed ? base::Bytes{} : part.paged;
  }
  base::Bytes PagedToCome(const GpuPart& part) const {
    return gate == Gate::kClosed ? part.paged : base::Bytes{};
  }
  // Of the GPU where that is most.
  base::Bytes MostPagedToCome() const {
    base::Bytes most;
    for (const auto& [gpu, part] : parts) most = std::max(most, PagedToCome(part));
    return most;
  }
  // What has to come to its GPUs before it runs: of the GPU where that is most.
  base::Bytes Missing() const {
    base::Bytes most;
    for (const auto& [gpu, part] : parts) most = std::max(most, part.demand.away + part.Lacks());
    return most;
  }
};

using Group = std::vector<Tenant*>;

}  // namespace gpuman::share
