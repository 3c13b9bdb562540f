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
  UpdateCompute(domain, state, now);
  DenyImpossible(domain);
  // There is more than one round if all orders take effect at once.
  for (int round = 0; round < 4; ++round) {
    state.decide_at.reset();
    const bool settled = IsSettled(domain);
    if (settled) FinishHandOver(domain, state, now);
    if (settled || !IsPossible(domain)) Decide(domain, state, now);
    IssueOrders(domain, now);
    if (!state.began || !IsSettled(domain)) break;
  }
  const bool in_turns = settings_.compute != Compute::kConcurrent && domain.tenants.size() > 1;
  state.contended = !domain.name.empty() &&
                    (state.began || in_turns ||
                     std::any_of(domain.tenants.begin(), domain.tenants.end(), [](const Tenant* tenant) {
                       return !tenant->parked && (!tenant->member || tenant->LacksRoom());
                     }));
}

void Scheduler::UpdateCompute(const Domain& domain, State& state, base::MonoTime now) {
  std::set<TenantId> working;
  if (!domain.name.empty())
    for (const Tenant* tenant : domain.tenants)
      if (tenant->Wants() || (!tenant->parked && now - tenant->since < settings_.compute_trial))
        working.insert(tenant->id);
  state.compute.Update(working, settings_, now);
}

bool Scheduler::IsSettled(const Domain& domain) const {
  return std::all_of(domain.tenants.begin(), domain.tenants.end(), [](const Tenant* tenant) {
    if (tenant->parked) return true;
    if (tenant->member) return tenant->Runs();
    return tenant->gate == Gate::kClosed && tenant->bring == 0 && !tenant->IsEvicting();
  });
}

// A tenant that could not use a turn gets none.
bool Scheduler::MayRun(const Tenant& tenant) {
  // The scheduler does not know how much memory a closed tenant has, and where, before its first DemandIs.
  if (!tenant.told && !tenant.IsOpen()) return false;
  if (tenant.parked || (tenant.back_blocked && tenant.HasAway())) return false;
  return tenant.answers || tenant.IsOpen();
}

// Whether the hand-over in progress can finish. Room that an allocation wants in addition can wait until
// then.
bool Scheduler::IsPossible(const Domain& domain) const {
  std::map<std::string, base::Bytes> used;
  bool all_run = true;
  for (const Tenant* tenant : domain.tenants) {
    if (tenant->member && !MayRun(*tenant)) return false;
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

void Scheduler::Decide(Domain& domain, State& state, base::MonoTime now) {
  Group members;
  for (Tenant* tenant : domain.tenants)
    if (tenant->member && MayRun(*tenant)) members.push_back(tenant);
  Packing wanted(domain.tenants, capacities_, /*exclusive=*/false);
  const bool all_fit =
      std::all_of(members.begin(), members.end(), [&](const Tenant* tenant) { return wanted.Add(*tenant); });
  for (Tenant* tenant : domain.tenants) tenant->starves = tenant->LacksRoom() && !(tenant->member && all_fit);
  Tenant* waiter = settings_.pause ? nullptr : FirstWaiter(domain, state);
  std::optional<Group> chosen;
  if (waiter) chosen = MakeRoomFor(*waiter, members, domain, state, now);
  if (!chosen) chosen = Remain(members, domain, state);
  Extend(*chosen, domain, state, waiter);
  SetMembers(domain, state, *chosen, now);
}

// Leaves out tenants that could not fit now, whichever tenants leave: a turn alone would not help them.
Tenant* Scheduler::FirstWaiter(const Domain& domain, const State& state) const {
  Tenant* first = nullptr;
  const Packing alone(domain.tenants, capacities_, state.compute.IsExclusive());
  for (Tenant* tenant : domain.tenants) {
    if (!tenant->Waits() || (tenant->IsOpen() && !tenant->starves)) continue;
    if (!MayRun(*tenant) || !alone.Fits(*tenant)) continue;
    if (!first || IsBefore(*tenant, *first, settings_.policy)) first = tenant;
  }
  return first;
}

std::optional<Group> Scheduler::MakeRoomFor(Tenant& waiter, const Group& members, const Domain& domain,
                                            State& state, base::MonoTime now) {
  Packing packing(domain.tenants, capacities_, state.compute.IsExclusive());
  packing.Put(waiter);
  Group chosen{&waiter}, stay, may_leave;
  Packing everybody = packing;
  const bool all_fit = std::all_of(members.begin(), members.end(), [&](const Tenant* member) {
    return member == &waiter || everybody.Add(*member);
  });
  const Circumstances at{settings_, state.meter, now};
  for (Tenant* member : members) {
    if (member == &waiter) continue;
    const base::MonoTime when = member->keeps_until ? *member->keeps_until
                                : all_fit           ? base::MonoTime::max()
                                                    : LeavesAt(*member, waiter, at);
    (when > now ? stay : may_leave).push_back(member);
    if (when > now && !all_fit) state.decide_at = std::min(state.decide_at.value_or(when), when);
  }
  std::sort(may_leave.begin(), may_leave.end(), StaysRather);
  for (Tenant* member : stay) {
    if (!packing.Add(*member)) return std::nullopt;
    chosen.push_back(member);
  }
  state.decide_at.reset();
  if (waiter.IsOpen()) waiter.turn_since = now;
  for (Tenant* member : may_leave) {
    if (packing.Add(*member)) {
      chosen.push_back(member);
    } else if (!member->IsIdle() && now < member->turn_since + TurnFor(waiter, at)) {
      // The waiter pushes the member off before the member's turn is over, so both moves are charged to the
      // waiter.
      waiter.moves_charged = 2;
      member->moves_charged = 0;
    }
  }
  return chosen;
}

// If no tenant needs room, all members that fit stay; a tenant that does not even fit alone is not closed
// without need. A tenant that does not yield stays in any case, and comes first.
Group Scheduler::Remain(const Group& members, const Domain& domain, const State& state) const {
  Group sorted = members, chosen;
  std::sort(sorted.begin(), sorted.end(), [](const Tenant* a, const Tenant* b) {
    if (a->keeps_until.has_value() != b->keeps_until.has_value()) return a->keeps_until.has_value();
    return a->Runs() != b->Runs() ? a->Runs() : StaysRather(a, b);
  });
  Packing packing(domain.tenants, capacities_, state.compute.IsExclusive(), /*wanted=*/false);
  for (Tenant* member : sorted) {
    const bool alone = std::none_of(chosen.begin(), chosen.end(),
                                    [member](const Tenant* other) { return member->Meets(*other); });
    if (member->keeps_until || packing.Fits(*member) || (alone && member->Runs())) {
      packing.Put(*member);
      chosen.push_back(member);
    }
  }
  return chosen;
}

void Scheduler::Extend(Group& chosen, const Domain& domain, const State& state, const Tenant* waiter) {
  Packing packing(domain.tenants, capacities_, state.compute.IsExclusive());
  for (const Tenant* tenant : chosen) packing.Put(*tenant);
  Group waiting, resting;
  for (Tenant* tenant : domain.tenants) {
    if (Contains(chosen, tenant) || !MayRun(*tenant)) continue;
    (tenant->Waits() ? waiting : resting).push_back(tenant);
  }
  std::sort(waiting.begin(), waiting.end(),
            [this](const Tenant* a, const Tenant* b) { return IsBefore(*a, *b, settings_.policy); });
  for (Tenant* tenant : waiting) {
    if (!packing.Add(*tenant)) continue;
    tenant->backfilled = waiter && waiter != tenant && !Contains(chosen, waiter);
    chosen.push_back(tenant);
  }
  // No tenant is evicted for a tenant that would not run.
  for (Tenant* tenant : resting)
    if ((!tenant->HasAway() || packing.FitsBesideAll(*tenant)) && packing.Add(*tenant))
      chosen.push_back(tenant);
}

void Scheduler::SetMembers(const Domain& domain, State& state, const Group& chosen, base::MonoTime now) {
  bool changed = false;
  for (Tenant* tenant : domain.tenants) {
    const bool member = Contains(chosen, tenant);
    if (member == tenant->member) continue;
    changed = true;
    tenant->member = member;
    tenant->incoming = member && (tenant->HasAway() || tenant->MostPagedToCome().count > 0);
    if (!member) tenant->backfilled = false;
  }
  if (!changed || state.began || IsSettled(domain)) return;
  state.began = now;
  state.moved.clear();
}

void Scheduler::FinishHandOver(Domain& domain, State& state, base::MonoTime now) {
  if (!state.began) return;
  const Span took = now - *std::exchange(state.began, std::nullopt);
  base::Bytes most, paged;
  for (const Tenant* tenant : domain.tenants) {
    if (!tenant->incoming) continue;
    for (const auto& [gpu, part] : tenant->parts) {
      paged = std::max(paged, part.paged);
      if (part.paged.count > 0) state.moved[gpu];  // memory that the driver moves counts too
    }
  }
  for (const auto& [gpu, moved] : state.moved) {
    most = std::max({most, moved.first, moved.second});
    ++totals_[gpu].hand_overs;
    totals_[gpu].times.Observe(std::chrono::duration<double>(took).count());
  }
  state.moved.clear();
  if ((most + paged).count > 0) state.meter.Add(took, most, PagingTime(paged));
  const auto incoming = std::count_if(domain.tenants.begin(), domain.tenants.end(),
                                      [](const Tenant* tenant) { return tenant->incoming; });
  for (Tenant* tenant : domain.tenants) {
    if (!std::exchange(tenant->incoming, false)) continue;
    const double seconds = std::chrono::duration<double>(took).count() * tenant->moves_charged;
    tenant->ahead += seconds / static_cast<double>(incoming) / tenant->weight;
    tenant->moves_charged = 1;
  }
}

}  // namespace gpuman::share
