// The events that the scheduler of shared GPUs takes, and the actions it returns. Values; see scheduler.h.
//
// Times are durations of CLOCK_MONOTONIC. Every order that expects an answer has a number of its own, never 0
// and never used again; an answer names its order, and an answer to an older order is ignored.
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
#include "share/tenant_options.h"

namespace gpuman::share {

// All processes of a job share a turn.
using TenantId = base::JobId;
using OrderId = std::uint64_t;
using Span = base::MonoTime::duration;

// A tenant's memory on one GPU.
struct MemoryDemand {
  base::Bytes resident;  // on the device, and could leave it
  base::Bytes away;      // in host memory
  base::Bytes pinned;    // on the device, and cannot leave it: contexts, modules, arrays, imported, exported
  base::Bytes wants;     // an allocation waits for so much room
  // Managed memory, which the driver moves. The part that the tenant works on is on the device. Once the
  // tenant's gate is closed, this memory leaves for any other memory that needs the room.
  base::Bytes managed{};
  friend bool operator==(const MemoryDemand&, const MemoryDemand&) = default;
};

using MemoryDemands = std::map<std::string, MemoryDemand>;  // by GPU

enum class GatePosition { kOpen, kClosing, kClosed };

// kUnknown counts as busy. kWaiting: one of its threads waits at the closed gate.
enum class TenantActivity { kUnknown, kBusy, kIdle, kWaiting };

namespace event {
// A tenant that runs already (the daemon is new) may join with its gate closed; it has no turn before its
// first DemandChanged. `user`: a word that is the same for all tenants of one user. `gpus`: the UUIDs of the
// GPUs that it may use.
struct Joined {
  TenantId tenant;
  TenantOptions options{};
  GatePosition gate = GatePosition::kOpen;
  std::string user{};
  std::set<std::string> gpus{};
};
// The job is over, or does not share a GPU any more. Orders to the tenant are not answered.
struct Left {
  TenantId tenant;
};
// Each DemandChanged names all GPUs of the tenant, by UUID. While an Evict or a Restore of the tenant is not
// answered, the scheduler counts resident and away itself from the reports of progress, and takes only the
// other fields; so the caller sends DemandChanged again after EvictDone and RestoreDone. wants falls to 0
// when the allocation succeeded or gave up. `taken`: GPUs where the tenant has used the granted room, and
// another allocation, maybe as large, waits now.
struct DemandChanged {
  TenantId tenant;
  MemoryDemands gpus;
  std::set<std::string> taken{};
};
// `since`: with kIdle, when the last work ended.
struct ActivityChanged {
  TenantId tenant;
  TenantActivity activity = TenantActivity::kUnknown;
  base::MonoTime since{};
};
// How much work the tenant was seen to complete since the last Completed.
struct Completed {
  TenantId tenant;
  std::uint64_t count = 0;
};
// The gate is closed and the work drained.
struct GateClosed {
  TenantId tenant;
  OrderId order = 0;
};
// The tenant says that it cannot close its gate: the scheduler withdraws the order and asks the tenant again
// later. An answer counts until a second after the deadline; then the scheduler does the same without one.
struct GateNotClosed {
  TenantId tenant;
  OrderId order = 0;
  std::string why;
  bool late = false;  // it only took too long; `why` says what had not come to rest
  // One of its threads waits for room for an allocation, and the rest of its work for that thread.
  bool for_room = false;
  std::map<std::string, std::int64_t> figures{};  // of the attempt, for the report
};
// Whether the tenant's processes take up orders; if one of them is stopped or does not answer, `why` says so.
struct ResponsivenessChanged {
  TenantId tenant;
  bool answers = true;
  std::string why{};
};
// So many bytes have just left the device. `unchanged`: those of them that were not copied, since the host
// has them, or they are zeros.
struct MovedOut {
  TenantId tenant;
  std::string gpu;
  base::Bytes bytes;
  base::Bytes unchanged{};
};
// The answer to Evict, after all its MovedOut. `why` is empty, or what failed.
struct EvictDone {
  TenantId tenant;
  std::string gpu;
  OrderId order = 0;
  std::string why{};
  // A process of the tenant works and could not be held by itself: its work may wait for those that are held.
  bool works = false;
};
// So many of the granted bytes have just come to the device. `unchanged`: those of them that were not copied.
struct MovedIn {
  TenantId tenant;
  std::string gpu;
  base::Bytes bytes;
  base::Bytes unchanged{};
};
// The answer to Restore, after all its MovedIn.
struct RestoreDone {
  TenantId tenant;
  OrderId order = 0;
  std::string why{};
};
// A suspension has taken all memory of the tenant away; the tenant has no turn until Unsuspended, and all
// orders to it are void.
struct Suspended {
  TenantId tenant;
};
// The tenant can have turns again; the next DemandChanged tells of its memory. With an open gate all of its
// memory is on its GPUs; `refused`: why its gate could not be closed.
struct Unsuspended {
  TenantId tenant;
  GatePosition gate = GatePosition::kClosed;
  std::string refused{};
};
struct OptionsChanged {
  TenantId tenant;
  TenantOptions options;
};
struct SettingsChanged {
  SchedulerSettings settings;
};
// The memory that all tenants together may have on the GPU. A GPU that was never named has room for
// everything.
struct CapacityChanged {
  std::string gpu;
  base::Bytes bytes;
};
struct Tick {};  // the deadline has come
}  // namespace event
using Event =
    std::variant<event::Joined, event::Left, event::DemandChanged, event::ActivityChanged, event::Completed,
                 event::GateClosed, event::GateNotClosed, event::ResponsivenessChanged, event::MovedOut,
                 event::EvictDone, event::MovedIn, event::RestoreDone, event::Suspended, event::Unsuspended,
                 event::OptionsChanged, event::SettingsChanged, event::CapacityChanged, event::Tick>;

namespace action {
// An Open has no answer: it counts as done. It voids a Close that is not answered yet.
struct Open {
  TenantId tenant;
  OrderId order = 0;
  friend bool operator==(const Open&, const Open&) = default;
};
// `in_part`: the tenant's processes wait for each other and cannot all come to rest. Those that wait for
// room, and are at rest themselves, are closed; the others run on, and until the next Open their memory is
// pinned.
struct Close {
  TenantId tenant;
  OrderId order = 0;
  base::MonoTime deadline{};
  bool in_part = false;
  friend bool operator==(const Close&, const Close&) = default;
};
// Only for a closed tenant: at least so many bytes have to leave the GPU.
struct Evict {
  TenantId tenant;
  std::string gpu;
  OrderId order = 0;
  base::Bytes bytes;
  friend bool operator==(const Evict&, const Evict&) = default;
};
// All of the tenant's memory that is away comes back, on every GPU, as room is granted.
struct Restore {
  TenantId tenant;
  OrderId order = 0;
  friend bool operator==(const Restore&, const Restore&) = default;
};
// No more memory comes back; memory that has come back stays. The answer is the RestoreDone of that Restore.
struct CancelRestore {
  TenantId tenant;
  OrderId order = 0;
  friend bool operator==(const CancelRestore&, const CancelRestore&) = default;
};
// So much more room: for the tenant's Restore (for_restore), or for the allocation that waits. The grant is
// void when Restore fails, when DemandChanged says that another allocation waits or that none waits, and when
// the gate is closed.
struct MemoryGrant {
  TenantId tenant;
  std::string gpu;
  base::Bytes bytes;
  bool for_restore = false;
  friend bool operator==(const MemoryGrant&, const MemoryGrant&) = default;
};
// As things are, the waiting allocation can never have its room: it fails if this is still true a moment
// later (Scheduler::IsDenied). `for_others`: it would fit without what other tenants have there and cannot
// give, such as their contexts, which may be about to end.
struct Deny {
  TenantId tenant;
  std::string gpu;
  bool for_others = false;
  friend bool operator==(const Deny&, const Deny&) = default;
};
// The tenant's work did not come to rest in time. `forced`: its processes do not answer and another user's
// job waits, so a tenant that cannot be suspended is ended.
struct Escalate {
  TenantId tenant;
  OnNoYield how = OnNoYield::kSuspend;
  bool forced = false;
  std::string why{};
  friend bool operator==(const Escalate&, const Escalate&) = default;
};
// An event for users: share_not_yielded, share_move_failed, share_too_large.
struct EventReport {
  TenantId tenant;
  std::string kind, message;
  std::map<std::string, std::int64_t> data{};
  friend bool operator==(const EventReport&, const EventReport&) = default;
};
}  // namespace action
using Action =
    std::variant<action::Open, action::Close, action::Evict, action::Restore, action::CancelRestore,
                 action::MemoryGrant, action::Deny, action::Escalate, action::EventReport>;
using Actions = std::vector<Action>;

}  // namespace gpuman::share
