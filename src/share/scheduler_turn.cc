// Which tenants run: the choice of the run set.
#include <algorithm>
#include <utility>

#include "share/scheduler.h"

namespace gpuman::share {
namespace {

bool Contains(const Group& group, const Tenant* tenant) {
  return std::find(group.begin(), group.end(), tenant) != group.end();
}

// Whether `a` stays rather than `b`, if both may leave: a tenant that works stays rather than an idle one,
// then the tenant whose turn began last.
bool StaysRather(const Tenant* a, const Tenant* b) {
  if (a->IsIdle() != b->IsIdle()) return b->IsIdle();
  if (a->turn_since != b->turn_since) return a->turn_since > b->turn_since;
  return a->id < b->id;
}

// The member rests, and may leave to give a part of its memory to the waiter, even if it would fit beside it.
bool MayGive(const Tenant& member, const Tenant& waiter, const PolicyContext& at) {
  if (!member.IsIdle() || member.keeps_until || !member.answers) return false;
  if (at.settings.policy == PolicyKind::kPriority && member.options.priority > waiter.options.priority)
    return false;
  return GapLasts(member, waiter, at) <= at.now;
}

// Tenants that run together, and the room that they take. A value.
class RunSet {
 public:
  explicit RunSet(Packing packing) : packing_(std::move(packing)) {}

  void Put(Tenant& tenant, bool wanted = true) {
    packing_.Put(tenant, wanted);
    members_.push_back(&tenant);
  }
  // False: the member does not fit where the waiter is. One that does not yield keeps no more than it has.
  bool AddBeside(const Tenant& waiter, Tenant& member) {
    const bool wanted = !member.keeps_until;
    if (!packing_.FitsWhere(waiter, member, wanted)) return false;
    Put(member, wanted);
    return true;
  }
  const Group& members() const { return members_; }

 private:
  Packing packing_;
  Group members_;
};

// What the members of a run set do for a tenant that waits on their GPUs.
struct Concession {
  Group stay;       // until a later time
  Group may_leave;  // those that would rather stay come first, here and below
  Group may_give;   // a part of their memory: they are idle
  std::optional<base::MonoTime> more_may_leave_at;
};
// `all_fit`: the members fit beside the waiter, so none has to leave.
Concession ConcessionOf(const Group& members, const Tenant& waiter, bool all_fit,
                        const std::set<const Tenant*>& frozen, const PolicyContext& at) {
  Concession concession;
  for (Tenant* member : members) {
    const bool is_frozen = frozen.count(member) != 0;
    // LeavesAt begins another turn of a member whose turn is over, also of one that only gives.
    const base::MonoTime leaves = member->keeps_until    ? *member->keeps_until
                                  : all_fit || is_frozen ? base::MonoTime::max()
                                                         : LeavesAt(*member, waiter, at);
    if (!is_frozen && MayGive(*member, waiter, at)) {
      concession.may_give.push_back(member);
      continue;
    }
    if (leaves <= at.now) {
      concession.may_leave.push_back(member);
      continue;
    }
    concession.stay.push_back(member);
    auto& next = concession.more_may_leave_at;
    if (!all_fit) next = std::min(next.value_or(leaves), leaves);
  }
  std::sort(concession.may_leave.begin(), concession.may_leave.end(), StaysRather);
  std::sort(concession.may_give.begin(), concession.may_give.end(), StaysRather);
  return concession;
}

// It is as the run set says, and nothing of it moves.
bool IsInPlace(const Tenant& tenant) {
  if (tenant.parked) return true;
  if (tenant.member) return tenant.Runs();
  return tenant.gate == GatePosition::kClosed && tenant.restore == 0 && !tenant.IsEvicting();
}

// The tenant was to come in for another one that grows, and that one did not yield.
bool WaitsForOneThatGrows(const Domain& domain, const Tenant& tenant) {
  if (tenant.IsOpen()) return false;
  return std::any_of(domain.tenants.begin(), domain.tenants.end(), [&](const Tenant* other) {
    return other != &tenant && other->member && other->IsOpen() && other->MayDeadlockWith(tenant);
  });
}

}  // namespace

void Scheduler::SetPaged(const Domain& domain) {
  std::map<std::string, base::Bytes> pinned;
  for (const Tenant* tenant : domain.tenants)
    for (const auto& [gpu, part] : tenant->parts) pinned[gpu] += part.demand.pinned;
  for (Tenant* tenant : domain.tenants) {
    for (auto& [gpu, part] : tenant->parts) {
      part.paged = settings_.managed_turns ? part.demand.managed : base::Bytes{};
      const auto capacity = capacities_.find(gpu);
      if (capacity == capacities_.end()) continue;
      const base::Bytes taken = pinned[gpu] + part.promised + part.demand.resident + part.demand.away;
      part.paged = std::min(part.paged, capacity->second - taken);
    }
  }
}

void Scheduler::Advance(Domain& domain, base::MonoTime now) {
  State& state = states_[domain.name];
  SetPaged(domain);
  for (Tenant* tenant : domain.tenants) tenant->urgent = IsUrgent(*tenant, ContextOf(state, now));
  for (Tenant* tenant : domain.tenants)
    tenant->grows = !settings_.pause && tenant->parts.size() > 1 && tenant->steady < kSteady;
  const Packing beside(domain.tenants, capacities_, /*exclusive=*/false);
  for (Tenant* tenant : domain.tenants) tenant->fits_beside_all = beside.FitsBesideAll(*tenant);
  UpdateShares(domain, state);
  state.has_latency = !domain.name.empty() && !settings_.pause && HaveLatencyTenant(domain.tenants);
  if (state.has_latency)
    UpdateHoldBack(domain.tenants, now);
  else
    for (Tenant* tenant : domain.tenants) tenant->goes_first = tenant->held_back = tenant->paced = false;
  UpdateCompute(domain, state, now);
  BreakDeadlock(domain, state, now);
  DenyImpossible(domain);
  // There is more than one round if all orders take effect at once.
  for (int round = 0; round < 4; ++round) {
    const bool finished = FinishHandOvers(domain, state, now);
    if (round > 0 && !finished) break;
    state.decide_at.reset();
    Decide(domain, state, IsPossible(domain) ? FrozenOf(domain) : Frozen{}, now);
    IssueOrders(domain, now);
  }
  const bool in_turns = state.by_share || state.has_latency ||
                        (settings_.compute != ConcurrencyMode::kConcurrent && domain.tenants.size() > 1);
  state.contended =
      !domain.name.empty() &&
      (in_turns || std::any_of(domain.tenants.begin(), domain.tenants.end(), [](const auto* tenant) {
         return !IsInPlace(*tenant) || (!tenant->parked && (!tenant->member || tenant->LacksRoom()));
       }));
}

void Scheduler::UpdateShares(const Domain& domain, State& state) {
  const bool had = state.by_share;
  state.by_share = !domain.name.empty() && !settings_.pause && HaveTurnsByShare(domain.tenants);
  std::vector<double> rates;
  for (const Tenant* tenant : domain.tenants) rates.push_back(tenant->Rate());
  if (state.by_share)
    SetTimeParts(domain.tenants);
  else
    for (Tenant* tenant : domain.tenants) tenant->time_part = 0;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    Tenant& tenant = *domain.tenants[i];
    // The time that it was ahead of others stays the same, within a limit: with a small rate it would wait
    // for ever.
    if (state.by_share != had)
      tenant.ahead = 0;
    else if (tenant.Rate() != rates[i])
      tenant.ahead = std::min(tenant.ahead * rates[i], kMaxOwed) / tenant.Rate();
    tenant.spent = state.by_share && tenant.HasUpperLimit() && tenant.budget.IsSpent();
  }
}

void Scheduler::UpdateCompute(const Domain& domain, State& state, base::MonoTime now) {
  std::set<TenantId> working;
  if (!domain.name.empty())
    for (const Tenant* tenant : domain.tenants)
      if (tenant->Wants() || (!tenant->parked && now - tenant->since < settings_.compute_trial))
        working.insert(tenant->id);
  state.compute.Update(working, settings_, now);
}

Scheduler::Frozen Scheduler::FrozenOf(const Domain& domain) const {
  Frozen frozen;
  for (const Tenant* tenant : domain.tenants) {
    if (IsInPlace(*tenant)) continue;
    for (const Tenant* other : domain.tenants)
      if (other == tenant || other->Meets(*tenant)) frozen.insert(other);
  }
  return frozen;
}

// A tenant that could not use a turn gets none.
bool Scheduler::MayRun(const Tenant& tenant) {
  // The scheduler does not know how much memory a closed tenant has, and where, before its first
  // DemandChanged.
  if (!tenant.demand_known && !tenant.IsOpen()) return false;
  // One that could not be closed is asked again later.
  if ((tenant.spent || tenant.held_back) && !tenant.keeps_until) return false;
  if (tenant.parked || (tenant.back_blocked && tenant.HasAway())) return false;
  return tenant.answers || tenant.IsOpen();
}

// Whether the hand-over in progress can finish. Room that an allocation wants in addition can wait until
// then.
bool Scheduler::IsPossible(const Domain& domain) const {
  std::map<std::string, base::Bytes> used;
  bool all_run = true;
  for (const Tenant* tenant : domain.tenants) {
    if (tenant->member && (!MayRun(*tenant) || WaitsForOneThatGrows(domain, *tenant))) return false;
    if (tenant->member && !tenant->Runs()) all_run = false;
    for (const auto& [gpu, part] : tenant->parts)
      used[gpu] += tenant->member ? part.demand.pinned + part.promised + part.demand.resident +
                                        part.demand.away + part.paged
                                  : Immovable(*tenant, part);
  }
  if (all_run) return true;
  return std::all_of(used.begin(), used.end(), [this](const auto& each) {
    const auto capacity = capacities_.find(each.first);
    return capacity == capacities_.end() || each.second <= capacity->second;
  });
}

void Scheduler::Decide(Domain& domain, State& state, const Frozen& frozen, base::MonoTime now) {
  Group members;
  for (Tenant* tenant : domain.tenants)
    if (tenant->member && MayRun(*tenant)) members.push_back(tenant);
  Packing wanted(domain.tenants, capacities_, /*exclusive=*/false);
  for (const Tenant* tenant : members) wanted.Put(*tenant);
  for (Tenant* tenant : domain.tenants) tenant->gives = false;
  for (Tenant* tenant : domain.tenants)
    tenant->starves = tenant->LacksRoom() && !(tenant->member && wanted.HoldsWhere(*tenant));
  Group chosen = Remain(members, domain, state, frozen);
  const Group waiters = settings_.pause ? Group{} : WaitersOf(domain, state);
  // Each GPU is for the first tenant that waits for it; the others take what is left beside that tenant.
  std::set<std::string> awaited;
  for (Tenant* waiter : waiters) {
    bool first = frozen.count(waiter) == 0;
    for (const auto& [gpu, part] : waiter->parts) first = awaited.insert(gpu).second && first;
    if (!first) continue;
    if (auto with = MakeRoomFor(*waiter, chosen, domain, state, frozen, now)) chosen = std::move(*with);
  }
  Extend(chosen, domain, state, frozen, waiters);
  SetMembers(domain, chosen, now);
}

// In the order of their turns. Leaves out tenants that could not fit now, whichever tenants leave: a turn
// alone would not help them.
Group Scheduler::WaitersOf(const Domain& domain, const State& state) const {
  Group waiters;
  const Packing alone(domain.tenants, capacities_, state.IsExclusive());
  for (Tenant* tenant : domain.tenants) {
    if (!tenant->Waits() || (tenant->IsOpen() && !tenant->starves)) continue;
    if (MayRun(*tenant) && alone.Fits(*tenant)) waiters.push_back(tenant);
  }
  std::sort(waiters.begin(), waiters.end(),
            [this](const Tenant* a, const Tenant* b) { return IsBefore(*a, *b, settings_.policy); });
  return waiters;
}

std::optional<Group> Scheduler::MakeRoomFor(Tenant& waiter, const Group& members, const Domain& domain,
                                            State& state, const Frozen& frozen, base::MonoTime now) {
  RunSet run(Packing(domain.tenants, capacities_, state.IsExclusive()));
  run.Put(waiter);
  Group meeting;
  for (Tenant* member : members) {
    if (member == &waiter) continue;
    if (member->Meets(waiter))
      meeting.push_back(member);
    else
      run.Put(*member);
  }
  RunSet everybody = run;
  const bool all_fit = std::all_of(meeting.begin(), meeting.end(),
                                   [&](Tenant* member) { return everybody.AddBeside(waiter, *member); });
  const PolicyContext at = ContextOf(state, now);
  Concession concession = ConcessionOf(meeting, waiter, all_fit, frozen, at);
  if (const auto when = concession.more_may_leave_at)
    state.decide_at = std::min(state.decide_at.value_or(*when), *when);
  for (Tenant* member : concession.stay)
    if (!run.AddBeside(waiter, *member)) return std::nullopt;
  if (waiter.IsOpen()) waiter.turn_since = now;
  Group leaving;
  for (Tenant* member : concession.may_leave)
    if (!run.AddBeside(waiter, *member)) leaving.push_back(member);
  for (Tenant* member : leaving) {
    if (member->IsIdle() || now >= member->turn_since + TurnFor(waiter, at)) continue;
    // The waiter pushes the member off before the member's turn is over, so both moves are charged to the
    // waiter.
    waiter.moves_charged = 2;
    member->moves_charged = 0;
  }
  const std::set<const Tenant*> givers =
      GiversAmong(concession.may_give, waiter, run.members(), leaving, domain);
  for (Tenant* member : concession.may_give) {
    member->gives = givers.count(member) != 0;
    if (!member->gives) run.AddBeside(waiter, *member);
  }
  return run.members();
}

// If no tenant needs room, all members that fit stay; a tenant that does not even fit alone is not closed
// without need. A tenant that is frozen or does not yield stays in any case, and comes first.
Group Scheduler::Remain(const Group& members, const Domain& domain, const State& state,
                        const Frozen& frozen) const {
  Group sorted = members, chosen;
  std::sort(sorted.begin(), sorted.end(), [&](const Tenant* a, const Tenant* b) {
    if (frozen.count(a) != frozen.count(b)) return frozen.count(a) != 0;
    if (a->keeps_until.has_value() != b->keeps_until.has_value()) return a->keeps_until.has_value();
    return a->Runs() != b->Runs() ? a->Runs() : StaysRather(a, b);
  });
  Packing packing(domain.tenants, capacities_, state.IsExclusive(), /*wanted=*/false);
  for (Tenant* member : sorted) {
    const bool alone = std::none_of(chosen.begin(), chosen.end(),
                                    [member](const Tenant* other) { return member->Meets(*other); });
    if (frozen.count(member) != 0 || member->keeps_until || packing.Fits(*member) ||
        (alone && member->Runs())) {
      packing.Put(*member);
      chosen.push_back(member);
    }
  }
  return chosen;
}

void Scheduler::Extend(Group& chosen, const Domain& domain, const State& state, const Frozen& frozen,
                       const Group& waiters) {
  Packing packing(domain.tenants, capacities_, state.IsExclusive());
  for (const Tenant* tenant : chosen) packing.Put(*tenant);
  Group waiting, resting;
  for (Tenant* tenant : domain.tenants) {
    if (Contains(chosen, tenant) || !MayRun(*tenant) || frozen.count(tenant) != 0 || tenant->gives) continue;
    (tenant->Waits() ? waiting : resting).push_back(tenant);
  }
  std::sort(waiting.begin(), waiting.end(),
            [this](const Tenant* a, const Tenant* b) { return IsBefore(*a, *b, settings_.policy); });
  for (Tenant* tenant : waiting) {
    if (!packing.Add(*tenant)) continue;
    tenant->backfilled = std::any_of(waiters.begin(), waiters.end(), [&](const Tenant* waiter) {
      return IsBefore(*waiter, *tenant, settings_.policy) && !Contains(chosen, waiter) &&
             waiter->Meets(*tenant);
    });
    chosen.push_back(tenant);
  }
  // No tenant is evicted for a tenant that would not run.
  for (Tenant* tenant : resting)
    if ((!tenant->HasAway() || packing.FitsBesideAll(*tenant)) && packing.Add(*tenant))
      chosen.push_back(tenant);
}

void Scheduler::SetMembers(const Domain& domain, const Group& chosen, base::MonoTime now) {
  for (Tenant* tenant : domain.tenants) {
    const bool member = Contains(chosen, tenant);
    if (member == tenant->member) continue;
    tenant->member = member;
    tenant->incoming.reset();
    tenant->brought_in = {};
    if (member && (tenant->HasAway() || tenant->MostPagedToCome().count > 0)) tenant->incoming = now;
    if (!member) tenant->backfilled = false;
    if (IsInPlace(*tenant)) continue;
    for (const auto& [gpu, part] : tenant->parts)
      if (!hand_overs_[gpu].began) hand_overs_[gpu] = {.began = now};
  }
}

bool Scheduler::FinishHandOvers(Domain& domain, State& state, base::MonoTime now) {
  std::set<std::string> finished;
  for (const auto& [gpu, hand_over] : hand_overs_)
    if (hand_over.began && domain_of_[gpu] == domain.name) finished.insert(gpu);
  for (const Tenant* tenant : domain.tenants)
    for (const auto& [gpu, part] : tenant->parts)
      if (!IsInPlace(*tenant)) finished.erase(gpu);
  if (finished.empty()) return false;
  Group incoming;
  HandOverCostEstimator::Moved most{};
  base::Bytes paged;
  for (Tenant* tenant : domain.tenants) {
    if (!tenant->incoming || !std::all_of(tenant->parts.begin(), tenant->parts.end(), [&](const auto& part) {
          return finished.count(part.first) != 0 || !hand_overs_[part.first].began;
        }))
      continue;
    incoming.push_back(tenant);
    for (const auto& [gpu, part] : tenant->parts) {
      paged = std::max(paged, part.paged);
      if (part.paged.count > 0) hand_overs_[gpu].moved = true;  // memory that the driver moves counts too
    }
  }
  base::MonoTime began = now;
  for (const std::string& gpu : finished) {
    const HandOver done = std::exchange(hand_overs_[gpu], {});
    began = std::min(began, *done.began);
    if (!done.moved) continue;
    most.bytes = std::max({most.bytes, done.out, done.in});
    most.copied = std::max({most.copied, done.copied_out, done.copied_in});
    ++totals_[gpu].hand_overs;
    totals_[gpu].times.Observe(std::chrono::duration<double>(now - *done.began).count());
  }
  if ((most.bytes + paged).count > 0) state.meter.Add(now - began, most, PagingTime(paged));
  for (Tenant* tenant : incoming) {
    const Span took = now - *std::exchange(tenant->incoming, std::nullopt);
    tenant->brought_in = took;
    const double seconds = std::chrono::duration<double>(took).count() * tenant->moves_charged;
    tenant->ahead += seconds / static_cast<double>(incoming.size()) / tenant->Rate();
    tenant->moves_charged = 1;
  }
  return true;
}

}  // namespace gpuman::share
