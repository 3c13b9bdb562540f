// What the scheduler of shared GPUs is told, and what it says. Values; see scheduler.h.
//
// Times are durations of CLOCK_MONOTONIC. Every order that expects an answer has a number of its own, never
// 0 and never used again; an answer names the order it belongs to, and one to an older order is ignored.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/units.h"
#include "share/settings.h"

namespace gpuman::share {

// All processes of a job share a turn.
using TenantId = base::JobId;
using OrderId = std::uint64_t;
using Span = base::MonoTime::duration;

// Of a tenant on one GPU.
struct Demand {
  base::Bytes resident;  // on the device, and could leave it
  base::Bytes away;      // in host memory
  base::Bytes pinned;    // on the device, and cannot leave: contexts, modules, arrays, imported, exported
  base::Bytes wants;     // an allocation waits for so much room
  // Managed memory, which the driver moves: on the device as far as the tenant works on it, and leaves for
  // whatever else needs the room once its gate is shut.
  base::Bytes managed{};
  friend bool operator==(const Demand&, const Demand&) = default;
};

enum class Gate { kOpen, kClosing, kClosed };

// kUnknown counts as busy. kWaiting: a thread of it stands at the closed gate.
enum class Activity { kUnknown, kBusy, kIdle, kWaiting };

namespace event {
// One that is known already (a new daemon) may join with its gate closed; it has no turn before its DemandIs.
// `user`: whoever is of the same user has the same word there.
struct Joined {
  TenantId tenant;
  double weight = 1;
  int priority = 0;
  Gate gate = Gate::kOpen;
  std::string user{};
};
// Over, or not shared any more. Whatever was ordered of it is not answered.
struct Left {
  TenantId tenant;
};
// All its GPUs by UUID, each time. While an Evict or a Bring of it is not answered, resident and away are the
// scheduler's own count from the reports of progress, and only the rest is taken; so tell it again
// after OutDone and BackDone. wants falls to 0 when the allocation succeeded or gave up. `taken`: where what
// was granted for it has been taken, and what waits now is another allocation, maybe as large.
struct DemandIs {
  TenantId tenant;
  std::map<std::string, Demand> gpus;
  std::set<std::string> taken{};
};
// `since`: with kIdle, when the last work came to its end.
struct ActivityIs {
  TenantId tenant;
  Activity activity = Activity::kUnknown;
  base::MonoTime since{};
};
// Work seen done, since the last time.
struct Completed {
  TenantId tenant;
  std::uint64_t count = 0;
};
// The gate is shut and the work drained.
struct Closed {
  TenantId tenant;
  OrderId order = 0;
};
// It says that it cannot. A passed deadline is the same: the order is withdrawn, and it is asked again later.
struct NotClosed {
  TenantId tenant;
  OrderId order = 0;
  std::string why;
};
// Whether its processes take orders up: false where one of them is stopped or does not answer, and `why`.
struct Answers {
  TenantId tenant;
  bool answers = true;
  std::string why{};
};
// So many bytes left the device just now.
struct MovedOut {
  TenantId tenant;
  std::string gpu;
  base::Bytes bytes;
};
// The answer to Evict, after all its MovedOut. `why` is empty, or what failed.
struct OutDone {
  TenantId tenant;
  std::string gpu;
  OrderId order = 0;
  std::string why{};
};
// So many bytes came to the device just now, of those granted.
struct Back {
  TenantId tenant;
  std::string gpu;
  base::Bytes bytes;
};
// The answer to Bring, after all its Back.
struct BackDone {
  TenantId tenant;
  OrderId order = 0;
  std::string why{};
};
// Its memory is wholly away by suspend; no turn until Unsuspended, and all its orders are void.
struct Suspended {
  TenantId tenant;
};
// It can have turns again; its memory as the next DemandIs says.
// With its gate open all of its memory is there; `refused`: because it could not be closed, and why.
struct Unsuspended {
  TenantId tenant;
  Gate gate = Gate::kClosed;
  std::string refused{};
};
struct WeightIs {
  TenantId tenant;
  double weight = 1;
  int priority = 0;
};
struct SettingsChanged {
  SchedulerSettings settings;
};
// What tenants may have of the GPU together. A GPU that was never told of has room for everything.
struct CapacityChanged {
  std::string gpu;
  base::Bytes bytes;
};
struct Tick {};  // the deadline has come
}  // namespace event
using Event = std::variant<event::Joined, event::Left, event::DemandIs, event::ActivityIs, event::Completed,
                           event::Closed, event::NotClosed, event::Answers, event::MovedOut, event::OutDone,
                           event::Back, event::BackDone, event::Suspended, event::Unsuspended,
                           event::WeightIs, event::SettingsChanged, event::CapacityChanged, event::Tick>;

namespace action {
// Not answered: it counts as done. Voids a Close that is not answered yet.
struct Open {
  TenantId tenant;
  OrderId order = 0;
  friend bool operator==(const Open&, const Open&) = default;
};
struct Close {
  TenantId tenant;
  OrderId order = 0;
  base::MonoTime deadline{};
  friend bool operator==(const Close&, const Close&) = default;
};
// Only of a closed tenant: at least so many bytes are to leave the GPU.
struct Evict {
  TenantId tenant;
  std::string gpu;
  OrderId order = 0;
  base::Bytes bytes;
  friend bool operator==(const Evict&, const Evict&) = default;
};
// Everything it has away is to come back, on every GPU, as room is granted.
struct Bring {
  TenantId tenant;
  OrderId order = 0;
  friend bool operator==(const Bring&, const Bring&) = default;
};
// No more is to come back; what has come stays. Answered by the BackDone of that Bring.
struct StopBring {
  TenantId tenant;
  OrderId order = 0;
  friend bool operator==(const StopBring&, const StopBring&) = default;
};
// So much more room: for its Bring (in_bring), or for the allocation that waits. Taken back where Bring
// fails, where DemandIs says that something else waits, or nothing, and when the gate is shut.
struct Grant {
  TenantId tenant;
  std::string gpu;
  base::Bytes bytes;
  bool in_bring = false;
  friend bool operator==(const Grant&, const Grant&) = default;
};
// The waiting allocation can never have its room, as it looks now: it is to fail if that is still so a moment
// later (Scheduler::IsDenied).
struct Deny {
  TenantId tenant;
  std::string gpu;
  friend bool operator==(const Deny&, const Deny&) = default;
};
// Its work did not come to rest in time; `forced`: its processes do not answer and another user's job waits,
// so that one that cannot be suspended is ended.
struct Escalate {
  TenantId tenant;
  OnNoYield how = OnNoYield::kSuspend;
  bool forced = false;
  std::string why{};
  friend bool operator==(const Escalate&, const Escalate&) = default;
};
// For the journal: share_not_yielded, share_move_failed, share_too_large.
struct Report {
  TenantId tenant;
  std::string kind, message;
  std::map<std::string, std::int64_t> data{};
  friend bool operator==(const Report&, const Report&) = default;
};
}  // namespace action
using Action = std::variant<action::Open, action::Close, action::Evict, action::Bring, action::StopBring,
                            action::Grant, action::Deny, action::Escalate, action::Report>;
using Actions = std::vector<Action>;

}  // namespace gpuman::share
