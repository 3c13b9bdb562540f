// Decides which tenants of a GPU run, and where each tenant's memory is. Pure: events and the time go in,
// actions come out.
//
// While the demands of all tenants fit, all gates are open, nothing moves and no timer runs. Otherwise each
// domain (domain.h) has a *run set*: as many tenants as fit together. The others' gates are closed; their
// memory stays until another tenant needs the room, and then only as much leaves as is needed, from the
// tenant whose turn is furthest away.
//
//             a tenant waits, and enough of the run set may leave for it (policy.h)
//   settled ----------------------------------------------------------------------> handing over
//      ^    every member runs, every other tenant is closed, nothing moves               |
//      +---------------------------------------------------------------------------------+
//   handing over: Close the tenants that leave; Evict from closed ones while Restore copies into the room as it
//   is granted, so memory moves in both directions at once; Open.
//
// Each GPU of a domain hands over by itself. A tenant on several GPUs has one turn on all of them, so it is
// part of a hand-over on all of them at once, and a tenant is chosen or sent off only where all of its GPUs
// are settled. A GPU is for the first tenant that waits for it: tenants after that one come in only where
// nobody has to leave for them, and give way to it.
//
// Tenants on several GPUs that may still want more memory than they have do not run together on a GPU, even
// where they fit (packing.h).
//
// Managed memory is neither evicted nor brought: a tenant that has some waits at its gate until there is room
// for it, and then the driver moves it. A tenant with more than the GPU runs when it can have all of the GPU.
//
// The next step always follows from what is known of each tenant. The scheduler does not reverse a hand-over,
// but makes a new choice whenever a tenant ends, a step fails or a demand no longer fits.
//
// No tenant starves where the policy is fair and tenants yield: a tenant that waits has its turn after a
// limited time (WaitBound in test_random_world.h). Under strict priority that holds only among the tenants
// with the highest priority.
//
// The scheduler opens a gate again at once if it cannot be closed in time: the processes of a job may wait
// for each other on the GPU, and would wait for ever if one of them is held. Such a tenant keeps its place
// and runs on. The scheduler asks it again later, less often and with a longer deadline each time; tenants
// that fit beside it run. If tenants wait for room that the others of them have, and none of them yields
// before it has its room, the scheduler denies one allocation (scheduler_deadlock.cc). It uses force against
// a tenant whose processes do not answer when that tenant keeps another user's job waiting
// (scheduler_yield.cc).
//
// scheduler_test.cc is the specification (scheduler_gang_test.cc for tenants on several GPUs).
// scheduler_property_test.cc and scheduler_gang_property_test.cc check what is always true: the capacity is
// never passed, a closed tenant gets its turn, the scheduler comes to rest.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "share/compute_share.h"
#include "share/concurrency_tuner.h"
#include "share/domain.h"
#include "share/events.h"
#include "share/hand_over_cost.h"
#include "share/latency.h"
#include "share/packing.h"
#include "share/policy.h"
#include "share/snapshot.h"

namespace gpuman::share {

// Thread-compatible. The caller carries out the actions in order.
class Scheduler {
 public:
  explicit Scheduler(SchedulerSettings settings) : settings_(std::move(settings)) {}

  // Unknown tenants, and answers to orders that are not the last, are ignored.
  Actions On(const Event& event, base::MonoTime now);

  // When a Tick is due; nullopt: never.
  std::optional<base::MonoTime> Deadline() const;

  Snapshot View(base::MonoTime now) const;
  const SchedulerSettings& settings() const { return settings_; }
  // True: a tenant of this GPU waits or will have to wait, so the caller has to report activity. False: no
  // shim needs to look for idleness.
  bool IsContended(const std::string& gpu) const;
  // What a tenant's processes have to watch for.
  struct Watch {
    Span idle{};         // without work for so long, the tenant is idle
    bool paced = false;  // the GPU can stop between its launches
  };
  Watch WatchOf(TenantId tenant) const;
  // The tenant still cannot have the room that it was denied.
  bool IsDenied(TenantId tenant) const;
  // The tenant that does not yield, and why: the waiting tenant itself, or a tenant that has the room that it
  // waits for.
  struct Obstacle {
    TenantId tenant;
    std::string why;
    bool runs = true;  // false: it stands behind its gate, and its memory does not leave
  };
  std::optional<Obstacle> ObstacleOf(TenantId tenant) const;

 private:
  // The state of one domain; kept while its name is the same.
  struct State {
    HandOverCostEstimator meter;
    ConcurrencyTuner compute;
    bool by_share = false;                        // its tenants have turns by shares
    bool has_latency = false;                     // a tenant whose work goes first shares a GPU with others
    std::optional<base::MonoTime> decide_at;      // the next time a holder may have to leave
    std::optional<base::MonoTime> deadlock_ends;  // when an attempt to break a deadlock is over, or its wait
    bool contended = false;
    // No two tenants on one GPU run at once, even if they fit.
    bool IsExclusive() const { return by_share || compute.IsExclusive(); }
  };
  // What changes on one GPU; a hand-over of a tenant on several GPUs is one on each of them.
  struct HandOver {
    std::optional<base::MonoTime> began{};  // nullopt: none is in progress
    base::Bytes out{}, in{};
    base::Bytes copied_out{}, copied_in{};  // of these
    bool moved = false;                     // memory moved, if only by the driver
  };
  struct GpuTotals {
    base::Bytes out, in;
    base::Bytes copied_out, copied_in;  // of these
    std::uint64_t hand_overs = 0;
    base::Histogram times{HandOverBounds()};
    Span moving{}, contended{};
  };

  // --- scheduler.cc: events
  void Handle(const event::Joined& joined, base::MonoTime now);
  void Handle(const event::Left& left, base::MonoTime now);
  void Handle(const event::DemandChanged& is, base::MonoTime now);
  void Handle(const event::ActivityChanged& is, base::MonoTime now);
  void Handle(const event::Completed& completed, base::MonoTime now);
  void Handle(const event::GateClosed& closed, base::MonoTime now);
  void Handle(const event::GateNotClosed& not_closed, base::MonoTime now);
  void Handle(const event::ResponsivenessChanged& answers, base::MonoTime now);
  void Handle(const event::MovedOut& moved, base::MonoTime now);
  void Handle(const event::EvictDone& done, base::MonoTime now);
  void Handle(const event::MovedIn& back, base::MonoTime now);
  void Handle(const event::RestoreDone& done, base::MonoTime now);
  void Handle(const event::Suspended& suspended, base::MonoTime now);
  void Handle(const event::Unsuspended& unsuspended, base::MonoTime now);
  void Handle(const event::OptionsChanged& is, base::MonoTime now);
  void Handle(const event::SettingsChanged& changed, base::MonoTime now);
  void Handle(const event::CapacityChanged& changed, base::MonoTime now);
  void Handle(const event::Tick&, base::MonoTime now);
  Tenant* Find(TenantId id);
  const Tenant* Find(TenantId id) const;
  void Forget(Tenant& tenant);  // forgets all orders to it
  void Regroup();
  void Spend(base::MonoTime now);
  // True between two run sets of the GPU, and while memory moves for an allocation of a tenant that runs
  // already.
  bool IsMoving(const std::string& gpu) const;
  void Expire(Tenant& tenant, base::MonoTime now);
  void EndBurst(Tenant& tenant, Span no_work);
  void SetWaiting(Tenant& tenant, bool waited, base::MonoTime now);
  static void CountWait(Tenant& tenant, base::MonoTime now);

  // --- scheduler_yield.cc: tenants that do not yield
  using Figures = std::map<std::string, std::int64_t>;
  // kTooLate: the tenant took too long; `why` may be empty then. `figures` go into the report.
  enum class Refusal { kSaid, kTooLate };
  void Refuse(Tenant& tenant, const std::string& why, Refusal how, base::MonoTime now, Figures figures = {});
  // `asked`: how long it was asked for.
  void KeepsRoom(Tenant& tenant, Span asked, base::MonoTime now);
  void TellSilence(Tenant& tenant);
  void EscalateAll();
  void Escalate(const Tenant& tenant, const std::string& why);
  void ForceSilent(base::MonoTime now);
  std::optional<base::MonoTime> ForcedAt(const Tenant& tenant) const;
  bool IsAwaited(const Tenant& tenant) const;
  Span CloseLimit(const Tenant& tenant) const;

  // --- scheduler_deadlock.cc: tenants that wait for each other's room
  void BreakDeadlock(const Domain& domain, State& state, base::MonoTime now);

  // --- scheduler_turn.cc: which tenants run
  void Advance(Domain& domain, base::MonoTime now);
  void SetPaged(const Domain& domain);
  void UpdateShares(const Domain& domain, State& state);
  void UpdateCompute(const Domain& domain, State& state, base::MonoTime now);
  // The tenants that a decision leaves as they are, because a hand-over is in progress on one of their GPUs.
  using Frozen = std::set<const Tenant*>;
  Frozen FrozenOf(const Domain& domain) const;
  bool IsPossible(const Domain& domain) const;
  void Decide(Domain& domain, State& state, const Frozen& frozen, base::MonoTime now);
  Group WaitersOf(const Domain& domain, const State& state) const;
  // The run set with this waiter, if enough tenants may leave for it now.
  std::optional<Group> MakeRoomFor(Tenant& waiter, const Group& members, const Domain& domain, State& state,
                                   const Frozen& frozen, base::MonoTime now);
  Group Remain(const Group& members, const Domain& domain, const State& state, const Frozen& frozen) const;
  void Extend(Group& chosen, const Domain& domain, const State& state, const Frozen& frozen,
              const Group& waiters);
  void SetMembers(const Domain& domain, const Group& chosen, base::MonoTime now);
  // Ends the hand-overs on GPUs where all is settled; false: there was none.
  bool FinishHandOvers(Domain& domain, State& state, base::MonoTime now);
  PolicyContext ContextOf(const State& state, base::MonoTime now) const {
    return {settings_, state.meter, now, state.by_share};
  }
  static bool MayRun(const Tenant& tenant);

  // --- scheduler_move.cc: what has to be done for the run set
  void IssueOrders(Domain& domain, base::MonoTime now);
  void SendOff(const Domain& domain, base::MonoTime now);
  void MakeRoom(const Domain& domain);
  // The room that these members lack, less what is on its way out; negative where some is free.
  std::int64_t Lack(const Domain& domain, const std::string& gpu, const Group& members) const;
  bool EvictFrom(const Domain& domain, const std::string& gpu, base::Bytes bytes);
  // How much each tenant gives, the first to give first. `resting`: idle members that could leave as well.
  // `waiter`: gives nothing, since the room is for it.
  struct Victim {
    Tenant* tenant;
    base::Bytes gives;
  };
  std::vector<Victim> VictimsOn(const Domain& domain, const std::string& gpu, base::Bytes bytes,
                                const Group& resting = {}, const Tenant* waiter = nullptr) const;
  // Those of `resting` that give a part of their memory to the waiter. `chosen`: the run set without them;
  // `leaving`: the members that leave anyway, and give all that they have first.
  std::set<const Tenant*> GiversAmong(const Group& resting, const Tenant& waiter, const Group& chosen,
                                      const Group& leaving, const Domain& domain) const;
  void OrderRestores(Domain& domain);
  void GrantRoom(const Domain& domain);
  void GrantWanted(const Domain& domain, Tenant& tenant, base::MonoTime now);
  bool HasRoomToPage(const Domain& domain, const Tenant& tenant) const;
  void OpenReady(const Domain& domain, base::MonoTime now);
  static base::Bytes NeedsOfItsOwn(const TenantGpuState& part);
  static base::Bytes NeedsAlone(const Domain& domain, const std::string& gpu, const TenantGpuState& part);
  void DenyImpossible(const Domain& domain);
  void TellTooLarge(const Domain& domain, base::MonoTime now);
  // The room that neither present memory nor grants take; negative where the capacity was lowered.
  std::int64_t Free(const Domain& domain, const std::string& gpu) const;

  OrderId NextOrder() { return ++last_order_; }
  Span RetryAfter(unsigned failures) const;
  void Report(TenantId tenant, std::string kind, std::string message,
              std::map<std::string, std::int64_t> data = {});

  SchedulerSettings settings_;
  Capacities capacities_;
  std::map<TenantId, Tenant> tenants_;
  std::vector<Domain> domains_;                 // of tenants_, as it is
  std::map<std::string, State> states_;         // by the domain's name
  std::map<std::string, HandOver> hand_overs_;  // by GPU
  std::map<std::string, GpuTotals> totals_;
  std::map<std::string, std::string> domain_of_;  // by GPU
  OrderId last_order_ = 0;
  std::optional<base::MonoTime> last_;  // time of the last event
  Actions out_;                         // of the event being handled
};

}  // namespace gpuman::share
