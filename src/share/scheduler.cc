#include "share/scheduler.h"

#include <algorithm>
#include <utility>

namespace gpuman::share {
namespace {

// A tenant that may use several GPUs may come to any of them until it has all of its memory.
void Expect(Tenant& tenant) {
  if (tenant.may_use.size() < 2 || tenant.steady >= kSteady) return;
  for (const std::string& gpu : tenant.may_use)
    if (tenant.parts.count(gpu) == 0) tenant.parts[gpu].expected = true;
}

// Returns whether it was expected anywhere, and is not any more.
bool ExpectNoMore(Tenant& tenant) {
  return tenant.steady >= kSteady &&
         std::erase_if(tenant.parts, [](const auto& part) { return part.second.expected; }) > 0;
}

void FollowGrowth(Tenant& tenant) {
  base::Bytes all;
  for (const auto& [gpu, part] : tenant.parts)
    all += part.demand.resident + part.demand.away + part.demand.pinned + part.demand.managed;
  // A tenant that is steady may still take more, but it does not wait for that.
  if ((all > tenant.peak && tenant.steady < kSteady) || tenant.LacksRoom()) tenant.steady = {};
  tenant.peak = std::max(tenant.peak, all);
}

}  // namespace

Actions Scheduler::On(const Event& event, base::MonoTime now) {
  out_.clear();
  Spend(now);
  std::visit([&](const auto& each) { Handle(each, now); }, event);
  for (auto& [id, tenant] : tenants_) Expire(tenant, now);
  ForceSilent(now);
  bool regroups = std::holds_alternative<event::Joined>(event) ||
                  std::holds_alternative<event::Left>(event) ||
                  std::holds_alternative<event::DemandChanged>(event);
  for (auto& [id, tenant] : tenants_) regroups = ExpectNoMore(tenant) || regroups;
  if (regroups) Regroup();
  for (Domain& domain : domains_) {
    Advance(domain, now);
    TellTooLarge(domain, now);
  }
  for (auto& [id, tenant] : tenants_) CountWait(tenant, now);
  return std::exchange(out_, {});
}

// A wait ends when the tenant's gate opens, or when it has the room. A tenant that only may wait (its
// activity is not known) is not counted.
void Scheduler::CountWait(Tenant& tenant, base::MonoTime now) {
  const bool waits = tenant.Waits() && (tenant.LacksRoom() || tenant.activity == TenantActivity::kWaiting);
  if (waits && !tenant.wait_began) tenant.wait_began = now;
  if (waits || !tenant.wait_began) return;
  if (!tenant.parked) tenant.waits.Add(now - *tenant.wait_began);
  tenant.wait_began.reset();
}

void Scheduler::Regroup() {
  domains_ = DomainsOf(tenants_);
  std::map<std::string, State> kept;
  domain_of_.clear();
  for (const Domain& domain : domains_) {
    kept[domain.name] = std::move(states_[domain.name]);
    for (const Tenant* tenant : domain.tenants)
      for (const auto& [gpu, part] : tenant->parts) domain_of_[gpu] = domain.name;
  }
  states_ = std::move(kept);
  std::erase_if(hand_overs_, [this](const auto& each) { return domain_of_.count(each.first) == 0; });
}

// Charges the time since the last event, before the new event changes anything.
void Scheduler::Spend(base::MonoTime now) {
  const Span passed = last_ ? std::max(now - *last_, Span{}) : Span{};
  last_ = now;
  for (const Domain& domain : domains_) {
    const State& state = states_[domain.name];
    Charge(domain.tenants, passed);
    const Span quantum = QuantumFor(state.meter.HandOver(), settings_);
    const bool moves = std::any_of(domain.tenants.begin(), domain.tenants.end(),
                                   [](const Tenant* tenant) { return tenant->HasAway(); });
    if (state.has_latency) CountHeldBack(domain.tenants, passed);
    if (state.by_share) ChargeShares(domain.tenants, passed, moves ? quantum : kShareTurn, now);
    Rebase(domain.tenants, state.by_share && !moves ? 2 * kShareTurn : quantum);
    if (!state.contended) continue;
    for (const auto& [gpu, name] : domain_of_) {
      if (name != domain.name) continue;
      totals_[gpu].contended += passed;
      if (IsMoving(gpu)) totals_[gpu].moving += passed;
    }
  }
}

bool Scheduler::IsMoving(const std::string& gpu) const {
  const auto hand_over = hand_overs_.find(gpu);
  if (hand_over != hand_overs_.end() && hand_over->second.began) return true;
  return std::any_of(tenants_.begin(), tenants_.end(), [&gpu](const auto& each) {
    const auto part = each.second.parts.find(gpu);
    return part != each.second.parts.end() && (part->second.evict != 0 || each.second.restore != 0);
  });
}

void Scheduler::Expire(Tenant& tenant, base::MonoTime now) {
  if (tenant.out_blocked && now >= *tenant.out_blocked) tenant.out_blocked.reset();
  if (tenant.back_blocked && now >= *tenant.back_blocked) tenant.back_blocked.reset();
  if (tenant.keeps_until && now >= *tenant.keeps_until) tenant.keeps_until.reset();
  if (tenant.gate == GatePosition::kClosing && now >= tenant.close_deadline + kAnswersLate)
    Refuse(tenant, {}, Refusal::kTooLate, now);
  // The scheduler only reports it, because the mover may be the cause.
  if (tenant.IsEvicting() && now >= tenant.left_since + settings_.yield_limit + kStandsStill &&
      !std::exchange(tenant.staying_reported, true))
    Report(tenant.id, "share_not_yielded", kMemoryStays);
}

Tenant* Scheduler::Find(TenantId id) {
  const auto it = tenants_.find(id);
  return it == tenants_.end() ? nullptr : &it->second;
}
const Tenant* Scheduler::Find(TenantId id) const {
  const auto it = tenants_.find(id);
  return it == tenants_.end() ? nullptr : &it->second;
}

void Scheduler::Handle(const event::Joined& joined, base::MonoTime now) {
  Tenant tenant;
  tenant.id = joined.tenant;
  tenant.user = joined.user;
  tenant.options = joined.options;
  tenant.gate = joined.gate;
  tenant.since = tenant.waiting_since = tenant.turn_since = now;
  tenant.member = joined.gate == GatePosition::kOpen;
  tenant.may_use = joined.gpus;
  Expect(tenant);
  tenants_.insert_or_assign(joined.tenant, std::move(tenant));
}

void Scheduler::Handle(const event::Left& left, base::MonoTime) { tenants_.erase(left.tenant); }

void Scheduler::Forget(Tenant& tenant) {
  tenant.restore = tenant.gate_order = 0;
  tenant.stopping = tenant.member = tenant.backfilled = tenant.forced = tenant.stuck = false;
  tenant.in_part = Tenant::InPart::kNo;
  tenant.incoming.reset();
  tenant.keeps_until.reset();
  tenant.out_blocked.reset();
  tenant.back_blocked.reset();
  for (auto& [gpu, part] : tenant.parts) {
    part.evict = 0;
    part.granted = part.promised = part.grown = part.evict_left = {};
    part.denied = part.deadlocked = false;
  }
}

void Scheduler::Handle(const event::DemandChanged& is, base::MonoTime now) {
  Tenant* tenant = Find(is.tenant);
  if (!tenant) return;
  tenant->demand_known = true;
  const bool waited = tenant->Waits(), was_stuck = tenant->stuck;
  std::map<std::string, TenantGpuState> parts;
  if (tenant->restore != 0 || tenant->IsEvicting()) parts = tenant->parts;
  // Memory that moves is followed by its own events; of the rest nothing is left where the tenant tells none.
  for (auto& [gpu, part] : parts) {
    if (is.gpus.count(gpu) > 0) continue;
    part.demand.pinned = part.demand.managed = part.demand.wants = part.promised = {};
    part.denied = false;
  }
  for (const auto& [gpu, told] : is.gpus) {
    const auto old = tenant->parts.find(gpu);
    TenantGpuState& part = parts[gpu] = old == tenant->parts.end() ? TenantGpuState{} : old->second;
    const bool moves = part.evict != 0 || tenant->restore != 0;
    part.expected = false;
    part.demand.pinned = told.pinned;
    part.demand.managed = told.managed;
    if (!moves) {
      // An open tenant has no memory away; a report that says otherwise is older than the return of that
      // memory.
      part.demand.resident = tenant->IsOpen() ? told.resident + told.away : told.resident;
      part.demand.away = tenant->IsOpen() ? base::Bytes{} : told.away;
    }
    if (told.wants == part.demand.wants && is.taken.count(gpu) == 0) continue;
    part.demand.wants = told.wants;
    part.promised = {};
    part.denied = part.deadlocked = tenant->stuck = false;
    tenant->in_part = Tenant::InPart::kNo;
  }
  tenant->parts = std::move(parts);
  // It has the room that it waited for when it did not yield.
  if (was_stuck && !tenant->stuck && !tenant->LacksRoom()) tenant->keeps_until.reset();
  FollowGrowth(*tenant);
  Expect(*tenant);
  tenant->moved = tenant->moved && (tenant->restore != 0 || tenant->IsEvicting());
  SetWaiting(*tenant, waited, now);
}

void Scheduler::Handle(const event::ActivityChanged& is, base::MonoTime now) {
  Tenant* tenant = Find(is.tenant);
  if (!tenant || tenant->activity == is.activity) return;
  const bool waited = tenant->Waits();
  const base::MonoTime since = is.activity == TenantActivity::kIdle ? std::min(is.since, now) : now;
  if (is.activity == TenantActivity::kIdle) {
    tenant->rests_shut = !tenant->IsOpen();
    // The tenant did no work since `since`.
    if (!tenant->rests_shut) EndBurst(*tenant, now - since);
    // A gap in which others wait is charged like work.
    if (!tenant->rests_shut && !IsAwaited(*tenant))
      tenant->budget.Refund(now - std::max(since, tenant->turn_since));
  } else if (tenant->IsIdle()) {
    // If the gate closed, the pause may be no gap: a tenant that soon works again had not ended its burst.
    const Span gap = now - tenant->since;
    const bool paused = tenant->rests_shut && gap >= IdleTime(settings_, tenant->time_part > 0);
    if (paused) EndBurst(*tenant, {});
    if ((paused || !tenant->rests_shut) && tenant->rhythm.KnowsBursts()) tenant->rhythm.AddGap(gap);
  }
  tenant->activity = is.activity;
  tenant->since = since;
  SetWaiting(*tenant, waited, now);
}

// Bursts before the tenant had memory say nothing about its rhythm.
void Scheduler::EndBurst(Tenant& tenant, Span no_work) {
  if (tenant.HasMemory() && tenant.burst > no_work) tenant.rhythm.AddBurst(tenant.burst - no_work);
  tenant.burst = {};
}

void Scheduler::SetWaiting(Tenant& tenant, bool waited, base::MonoTime now) {
  if (!waited && tenant.Waits()) tenant.waiting_since = now;
}

void Scheduler::Handle(const event::Completed& completed, base::MonoTime) {
  const Tenant* tenant = Find(completed.tenant);
  if (!tenant || tenant->parts.empty()) return;
  const auto domain = domain_of_.find(tenant->parts.begin()->first);
  if (domain != domain_of_.end()) states_[domain->second].compute.Add(completed.tenant, completed.count);
}

void Scheduler::Handle(const event::GateClosed& closed, base::MonoTime now) {
  Tenant* tenant = Find(closed.tenant);
  if (!tenant || tenant->gate != GatePosition::kClosing || tenant->gate_order != closed.order) return;
  const bool waited = tenant->Waits();
  tenant->gate = GatePosition::kClosed;
  tenant->gate_order = 0;
  tenant->rests.Add(now - tenant->close_began);
  // A tenant that yields only sometimes keeps a longer limit than a tenant that always yields.
  tenant->refusals /= 2;
  tenant->refused.clear();
  tenant->stuck = false;
  if (tenant->in_part == Tenant::InPart::kAsked) tenant->in_part = Tenant::InPart::kTried;
  // The tenant cannot use promised room any more; the scheduler grants it again in the tenant's next turn.
  for (auto& [gpu, part] : tenant->parts) part.promised = part.grown = {};
  SetWaiting(*tenant, waited, now);
}

void Scheduler::Handle(const event::GateNotClosed& not_closed, base::MonoTime now) {
  Tenant* tenant = Find(not_closed.tenant);
  if (!tenant || tenant->gate != GatePosition::kClosing || tenant->gate_order != not_closed.order) return;
  tenant->stuck = not_closed.for_room;
  if (tenant->in_part == Tenant::InPart::kAsked) tenant->in_part = Tenant::InPart::kTried;
  Refuse(*tenant, not_closed.why, not_closed.late ? Refusal::kTooLate : Refusal::kSaid, now,
         not_closed.figures);
}

void Scheduler::Handle(const event::MovedOut& moved, base::MonoTime now) {
  Tenant* tenant = Find(moved.tenant);
  if (!tenant || tenant->parts.count(moved.gpu) == 0) return;
  TenantGpuState& part = tenant->parts.at(moved.gpu);
  if (part.evict == 0) return;
  tenant->left_since = now;
  tenant->staying_reported = false;
  const base::Bytes bytes = std::min(moved.bytes, part.demand.resident);
  part.demand.resident = part.demand.resident - bytes;
  part.demand.away += bytes;
  part.evict_left = part.evict_left - bytes;
  const base::Bytes copied = std::min(moved.bytes - moved.unchanged, bytes);
  totals_[moved.gpu].out += bytes;
  totals_[moved.gpu].copied_out += copied;
  hand_overs_[moved.gpu].out += bytes;
  hand_overs_[moved.gpu].copied_out += copied;
  hand_overs_[moved.gpu].moved = true;
}

// Most failures pass soon: a mover died, or host memory was short at that moment.
Span Scheduler::RetryAfter(unsigned failures) const {
  constexpr Span kFirst = std::chrono::milliseconds(500);
  constexpr unsigned kMaxDoublings = 20;
  return std::min(Span(settings_.retry), kFirst * (1u << std::min(failures, kMaxDoublings)));
}

void Scheduler::Handle(const event::EvictDone& done, base::MonoTime now) {
  Tenant* tenant = Find(done.tenant);
  if (!tenant || tenant->parts.count(done.gpu) == 0) return;
  TenantGpuState& part = tenant->parts.at(done.gpu);
  if (part.evict == 0 || part.evict != done.order) return;
  const bool short_of = part.evict_left.count > 0 && part.demand.resident.count > 0;
  part.evict = 0;
  part.evict_left = {};
  tenant->moved = true;
  if (done.why.empty() && !short_of) {
    tenant->out_failures = 0;
    return;
  }
  // All of its processes run on, and are asked to come to rest together the next time.
  if (done.works && !tenant->HasAway() && !tenant->IsEvicting() && tenant->restore == 0)
    return Refuse(*tenant, done.why, Refusal::kTooLate, now);
  tenant->out_blocked = now + RetryAfter(tenant->out_failures++);
  if (!tenant->answers) return TellSilence(*tenant);
  // A single failure may mean that the tenant freed the memory meanwhile, or ended.
  constexpr unsigned kOften = 3;
  if (!done.why.empty())
    Report(tenant->id, "share_move_failed", done.why);
  else if (tenant->out_failures >= kOften)
    Report(tenant->id, "share_move_failed", "it had less to give than it said");
}

void Scheduler::Handle(const event::MovedIn& back, base::MonoTime) {
  Tenant* tenant = Find(back.tenant);
  if (!tenant || tenant->restore == 0 || tenant->parts.count(back.gpu) == 0) return;
  TenantGpuState& part = tenant->parts.at(back.gpu);
  const base::Bytes bytes = std::min(back.bytes, part.demand.away);
  part.demand.away = part.demand.away - bytes;
  part.demand.resident += bytes;
  part.granted = part.granted - bytes;
  const base::Bytes copied = std::min(back.bytes - back.unchanged, bytes);
  totals_[back.gpu].in += bytes;
  totals_[back.gpu].copied_in += copied;
  hand_overs_[back.gpu].in += bytes;
  hand_overs_[back.gpu].copied_in += copied;
  hand_overs_[back.gpu].moved = true;
}

void Scheduler::Handle(const event::RestoreDone& done, base::MonoTime now) {
  Tenant* tenant = Find(done.tenant);
  if (!tenant || tenant->restore == 0 || tenant->restore != done.order) return;
  const bool stopped = std::exchange(tenant->stopping, false);
  const bool whole = done.why.empty() && !stopped;
  tenant->restore = 0;
  tenant->moved = true;
  for (auto& [gpu, part] : tenant->parts) {
    if (whole) {
      // All granted memory is on the device now, even if no MovedIn reported it, and no other memory is away.
      part.demand.resident += std::min(part.granted, part.demand.away);
      part.demand.away = {};
    }
    part.granted = {};
  }
  if (whole) tenant->back_failures = 0;
  if (whole || stopped) return;
  tenant->back_blocked = now + RetryAfter(tenant->back_failures++);
  Report(tenant->id, "share_move_failed", done.why);
}

void Scheduler::Handle(const event::Suspended& suspended, base::MonoTime) {
  Tenant* tenant = Find(suspended.tenant);
  if (!tenant) return;
  Forget(*tenant);
  tenant->answers = true;  // it gets no orders now
  tenant->parked = true;
  tenant->gate = GatePosition::kClosed;
  for (auto& [gpu, part] : tenant->parts) part.demand = {{}, part.demand.away + part.demand.resident, {}, {}};
}

void Scheduler::Handle(const event::Unsuspended& unsuspended, base::MonoTime now) {
  Tenant* tenant = Find(unsuspended.tenant);
  if (!tenant) return;
  Forget(*tenant);
  tenant->parked = false;
  tenant->moved = true;
  tenant->gate = unsuspended.gate;
  tenant->member = tenant->IsOpen();
  tenant->activity = TenantActivity::kUnknown;
  tenant->since = tenant->waiting_since = tenant->turn_since = now;
  if (!tenant->IsOpen()) return;
  if (!unsuspended.refused.empty())
    Refuse(*tenant, unsuspended.refused, Refusal::kSaid, now);
  else if (tenant->refusals > 0)
    KeepsRoom(*tenant, CloseLimit(*tenant), now);
}

void Scheduler::Handle(const event::OptionsChanged& is, base::MonoTime) {
  if (Tenant* const tenant = Find(is.tenant)) tenant->options = is.options;
}

// The settings hold at once. Tenants that did not yield are asked again.
void Scheduler::Handle(const event::SettingsChanged& changed, base::MonoTime) {
  const bool how_changed = settings_.on_no_yield != changed.settings.on_no_yield;
  settings_ = changed.settings;
  if (how_changed) EscalateAll();
  for (auto& [id, tenant] : tenants_) {
    tenant.keeps_until.reset();
    tenant.refusals = 0;
  }
}

void Scheduler::Handle(const event::CapacityChanged& changed, base::MonoTime) {
  capacities_[changed.gpu] = changed.bytes;
  for (auto& [id, tenant] : tenants_) {
    const auto found = tenant.parts.find(changed.gpu);
    if (found == tenant.parts.end()) continue;
    TenantGpuState& part = found->second;
    part.denied = part.deadlocked;
    // Promised room that does not fit into the capacity is void: the allocation is denied instead.
    if (part.promised + part.demand.resident + part.demand.pinned > changed.bytes) part.promised = {};
  }
}

void Scheduler::Handle(const event::Tick&, base::MonoTime) {}

void Scheduler::Report(TenantId tenant, std::string kind, std::string message,
                       std::map<std::string, std::int64_t> data) {
  out_.emplace_back(action::EventReport{tenant, std::move(kind), std::move(message), std::move(data)});
}

}  // namespace gpuman::share
