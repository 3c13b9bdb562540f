#include "share/policy.h"

#include <algorithm>
#include <tuple>

#include "share/seconds.h"

namespace gpuman::share {
namespace {

constexpr Span kSoon = std::chrono::milliseconds(1);  // an expected end is not checked more often
// A tenant that rests becomes steady so many times later than one that works.
constexpr int kRestCounts = 6;

bool NeedsMoving(const Tenant& waiter) {
  return waiter.HasAway() || waiter.MostPagedToCome().count > 0 ||
         (waiter.LacksRoom() && !waiter.fits_beside_all);
}

// The time to bring the waiter's memory in.
Span CostOf(const Tenant& waiter, const PolicyContext& at) {
  return at.meter.TimeFor(waiter.Missing()) + PagingTime(waiter.MostPagedToCome());
}

// When a holder in a gap leaves: now, or when the forecast may change.
base::MonoTime GapEnds(const Tenant& holder, Span cost, const PolicyContext& at) {
  const Span so_far = at.now - holder.since;
  const Span idle = cost > Span{} ? Span(at.settings.idle) : at.Idle();
  // If all its earlier gaps were long, there is no reason to wait for the idle time.
  if (so_far < idle && !holder.rhythm.AreGapsOver(idle + cost)) return holder.since + idle;
  if (holder.rhythm.KnowsGaps()) {
    const auto left = holder.rhythm.GapLeft(so_far);
    if (!left && so_far < idle + cost) return holder.since + idle + cost;
    if (left && *left <= cost)
      return std::max(holder.since + *holder.rhythm.NextGapEnd(so_far), at.now + kSoon);
  }
  return at.now;
}

// Where shares decide, the turn ends when the holder has had a turn and the waiter deserves as much.
base::MonoTime ShareEnds(const Tenant& holder, const Tenant& waiter, Span turn, const PolicyContext& at) {
  const double deserved = (holder.ahead - waiter.ahead) * waiter.Rate();
  const double lacks = std::max(Seconds(turn) - deserved, 0.0);
  const base::MonoTime when = at.now + FromSeconds(lacks * holder.Rate() / waiter.Rate());
  return std::max(when, holder.turn_since + turn);
}

base::MonoTime TurnEnds(Tenant& holder, const Tenant& waiter, Span turn, const PolicyContext& at) {
  if (at.now < holder.turn_since + turn) return holder.turn_since + turn;
  if (at.by_share) return ShareEnds(holder, waiter, turn, at);
  const bool deserved = at.settings.policy == PolicyKind::kFcfs || waiter.ahead < holder.ahead;
  if (!deserved) {
    holder.turn_since = at.now;
    return at.now + turn;
  }
  const auto left = holder.rhythm.BurstLeft(holder.burst);
  const base::MonoTime last = holder.turn_since + kLongestTurn * turn;
  if (holder.IsIdle() || !left || *left > (kLongestTurn - 1) * turn || at.now >= last) return at.now;
  return std::min(last, at.now + std::max(*left, kSoon));
}

// An urgent waiter does not wait for the end of a turn. A holder that is itself interactive may finish its
// burst, within the shortest turn.
base::MonoTime UrgentGetsIn(const Tenant& holder, const Tenant& waiter, const PolicyContext& at) {
  if (!waiter.urgent) return base::MonoTime::max();
  if (holder.urgent && !holder.IsIdle()) {
    const auto left = holder.rhythm.BurstLeft(holder.burst);
    const base::MonoTime last = holder.turn_since + at.settings.quantum_min;
    if (left && at.now < last) return std::min(last, at.now + std::max(*left, kSoon));
  }
  return std::max(waiter.waiting_since + at.settings.interactive_wait,
                  holder.turn_since + at.meter.HandOver());
}

base::MonoTime ShortTurnFits(const Tenant& holder, const Tenant& waiter, Span cost, const PolicyContext& at) {
  // A waiter that does not leave again by itself gets no short turn. Nor does a waiter whose present burst,
  // which its gate has interrupted, is already longer than any burst before.
  const Span shortest_gap = at.by_share ? std::max(2 * cost, kShareTurn) : 2 * cost;
  if (waiter.rhythm.GapLeft(Span{}).value_or(Span{}) <= shortest_gap) return base::MonoTime::max();
  const auto rest = waiter.rhythm.BurstLeft(waiter.burst);
  if (!rest) return base::MonoTime::max();
  const Span short_turn = *rest + 2 * cost;
  // A holder whose burst ends before the short turn would end may finish it.
  const auto left = holder.IsIdle() ? std::nullopt : holder.rhythm.BurstLeft(holder.burst);
  if (left && *left <= short_turn) return at.now + std::max(*left, kSoon);
  const double behind = holder.ahead - waiter.ahead - Seconds(short_turn) / waiter.Rate();
  const base::MonoTime fits = behind >= 0 ? at.now : at.now + FromSeconds(-behind * holder.Rate()) + kSoon;
  return std::max(fits, holder.turn_since + at.meter.HandOver());
}

}  // namespace

bool IsLearnedInteractive(const Tenant& tenant, const PolicyContext& at) {
  const Span pause = std::max(2 * CostOf(tenant, at), at.Idle());
  const auto usual = tenant.rhythm.BurstLeft(Span{});
  return usual && *usual <= at.settings.quantum_min && tenant.rhythm.AreGapsOver(pause) &&
         tenant.rhythm.BurstLeft(tenant.burst);  // the present burst is not longer than all before
}

bool IsUrgent(const Tenant& tenant, const PolicyContext& at) {
  const Span turn = TurnFor(tenant, at);
  const bool interactive =
      (tenant.options.interactive && tenant.burst <= turn) || IsLearnedInteractive(tenant, at);
  return interactive && tenant.ahead <= kOverdraft * Seconds(turn) / tenant.Rate();
}

bool IsBefore(const Tenant& a, const Tenant& b, PolicyKind policy) {
  const auto key = [policy](const Tenant& tenant) {
    const bool fcfs = policy == PolicyKind::kFcfs;
    return std::make_tuple(policy == PolicyKind::kPriority ? -tenant.options.priority : 0, !tenant.goes_first,
                           fcfs || !tenant.urgent, fcfs ? 0.0 : tenant.ahead, tenant.waiting_since,
                           tenant.id);
  };
  return key(a) < key(b);
}

Span TurnFor(const Tenant& waiter, const PolicyContext& at) {
  if (!NeedsMoving(waiter) && at.by_share && waiter.parts.size() < 2)
    return std::min(kShareTurn, Span(at.settings.compute_quantum));
  if (!NeedsMoving(waiter)) return at.settings.compute_quantum;
  return QuantumFor(at.meter.HandOver() > Span{} ? at.meter.HandOver() : CostOf(waiter, at), at.settings);
}

base::MonoTime GapLasts(const Tenant& holder, const Tenant& waiter, const PolicyContext& at) {
  return GapEnds(holder, NeedsMoving(waiter) ? CostOf(waiter, at) : Span{}, at);
}

base::MonoTime LeavesAt(Tenant& holder, const Tenant& waiter, const PolicyContext& at) {
  const Span cost = CostOf(waiter, at);
  const Span turn = TurnFor(waiter, at);
  base::MonoTime when = base::MonoTime::max();
  if (holder.IsIdle()) when = GapLasts(holder, waiter, at);
  if (at.settings.policy == PolicyKind::kPriority && holder.options.priority != waiter.options.priority)
    return waiter.options.priority > holder.options.priority ? at.now : when;
  if (holder.starves) return at.now;
  // So moving never takes more than half of the time.
  if (waiter.goes_first && !holder.goes_first)
    return NeedsMoving(waiter) ? std::max(at.now, holder.turn_since + at.meter.HandOver()) : at.now;
  if (holder.backfilled && waiter.waiting_since <= holder.turn_since) return at.now;
  when = std::min(when, TurnEnds(holder, waiter, turn, at));
  if (at.settings.policy != PolicyKind::kFcfs)
    when = std::min({when, ShortTurnFits(holder, waiter, cost, at), UrgentGetsIn(holder, waiter, at)});
  return std::max(when, at.now);
}

bool HasTurn(const Tenant& tenant) { return tenant.IsOpen() && !tenant.parked && !tenant.Waits(); }

Contention ContentionOf(const Group& tenants) {
  Contention contention;
  for (const Tenant* tenant : tenants) {
    if (!tenant->Waits()) continue;
    contention.any = true;
    contention.for_room = contention.for_room || !tenant->fits_beside_all;
  }
  return contention;
}

bool IsCharged(const Tenant& tenant, Contention contention) {
  return !tenant.IsIdle() || (tenant.options.latency ? contention.for_room : contention.any);
}

void Charge(const Group& tenants, Span passed) {
  const Contention contention = ContentionOf(tenants);
  for (Tenant* tenant : tenants) {
    if (tenant->IsComingToRest()) tenant->ahead += Seconds(passed) / tenant->Rate();
    if (!tenant->IsOpen() || tenant->parked || tenant->starves) continue;
    if (HasTurn(*tenant)) tenant->had_turn += passed;
    if (HasTurn(*tenant) && tenant->HasMemory())
      tenant->steady += tenant->IsIdle() ? passed / kRestCounts : passed;
    if (IsCharged(*tenant, contention)) tenant->ahead += Seconds(passed) / tenant->Rate();
    if (!tenant->IsIdle()) tenant->burst += passed;
  }
}

void Rebase(const Group& tenants, Span quantum) {
  std::optional<double> least;
  for (const Tenant* tenant : tenants)
    if (tenant->Wants() && (!least || tenant->ahead < *least)) least = tenant->ahead;
  if (!least) return;
  for (Tenant* tenant : tenants)
    tenant->ahead = std::max(tenant->ahead - *least, -kCredit * Seconds(quantum) / tenant->Rate());
}

}  // namespace gpuman::share
