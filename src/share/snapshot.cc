#include "share/snapshot.h"

#include <algorithm>

#include "share/policy.h"
#include "share/scheduler.h"

namespace gpuman::share {
namespace {

std::string WhatFor(const Tenant& tenant, bool is_blocked) {
  if (tenant.too_large_reported) return "too_large";
  if (tenant.restore != 0) return "return";
  if (tenant.back_blocked || (tenant.out_blocked && !tenant.IsOpen())) return "retry";
  if (is_blocked) return "yield";
  if (tenant.spent) return "share";
  if (tenant.held_back && tenant.Waits()) return "latency";
  if (tenant.LacksRoom()) return "room";
  return tenant.Waits() ? "turn" : "";
}

// `unbooked`: the time since the last event.
TenantStatus StatusOf(const Tenant& tenant, const TenantGpuState& part, base::MonoTime now, Span unbooked) {
  TenantStatus status{.tenant = tenant.id,
                      .demand = part.demand,
                      .in_run_set = tenant.member,
                      .gate = tenant.gate,
                      .activity = tenant.activity,
                      .suspended = tenant.parked,
                      .had_turn = tenant.had_turn + (HasTurn(tenant) ? unbooked : Span{}),
                      .options = tenant.options,
                      .compute_part = tenant.time_part > 0 ? std::optional(tenant.time_part) : std::nullopt,
                      .compute_had = tenant.time_part > 0 ? tenant.recent_use.Part() : std::nullopt,
                      .held_others = tenant.held_others,
                      .waits = tenant.waits.Get()};
  if (const auto rests = tenant.rests.Get(); rests.count > 0) status.longest_unit = rests.longest;
  if (tenant.Waits()) status.waiting = std::max(now - tenant.waiting_since, Span{});
  return status;
}

}  // namespace

Snapshot Scheduler::View(base::MonoTime now) const {
  const Span unbooked = last_ ? std::max(now - *last_, Span{}) : Span{};
  std::map<std::string, SharedGpuStatus> gpus;
  for (const auto& [gpu, capacity] : capacities_) gpus[gpu].capacity = capacity;
  for (const auto& [id, tenant] : tenants_) {
    for (const auto& [gpu, part] : tenant.parts) {
      if (part.expected) continue;
      gpus[gpu].demand += part.demand.resident + part.demand.away + part.demand.pinned + part.demand.wants +
                          part.demand.managed;
      TenantStatus& status = gpus[gpu].tenants.emplace_back(StatusOf(tenant, part, now, unbooked));
      const auto obstacle = ObstacleOf(id);
      if (const auto domain = domain_of_.find(gpu); domain != domain_of_.end())
        status.learned_interactive = IsLearnedInteractive(tenant, ContextOf(states_.at(domain->second), now));
      status.waits_for = WhatFor(tenant, obstacle && obstacle->tenant != id);
      if (!obstacle) continue;
      status.obstacle = obstacle->tenant;
      status.why = obstacle->why;
    }
  }
  Snapshot snapshot;
  for (auto& [gpu, status] : gpus) {
    status.gpu = gpu;
    Span moving{}, contended{};  // unbooked
    if (const auto domain = domain_of_.find(gpu); domain != domain_of_.end()) {
      const State& state = states_.at(domain->second);
      status.contended = state.contended;
      status.exclusive = state.IsExclusive();
      status.by_share = state.by_share;
      status.handing_over = IsMoving(gpu);
      if (status.contended) contended = unbooked;
      if (status.contended && status.handing_over) moving = unbooked;
      status.quantum = QuantumFor(state.meter.HandOver(), settings_);
      if (state.decide_at) status.quantum_left = std::max(*state.decide_at - now, Span{});
    }
    if (const auto totals = totals_.find(gpu); totals != totals_.end()) {
      status.moved_out = totals->second.out;
      status.moved_in = totals->second.in;
      status.copied_out = totals->second.copied_out;
      status.copied_in = totals->second.copied_in;
      status.hand_overs = totals->second.hand_overs;
      status.hand_over_times = totals->second.times;
      status.moving = totals->second.moving + moving;
      contended += totals->second.contended;
      if (contended > Span{})
        status.moving_share = std::chrono::duration<double>(status.moving).count() /
                              std::chrono::duration<double>(contended).count();
    }
    snapshot.gpus.push_back(std::move(status));
  }
  return snapshot;
}

std::optional<TenantWait> WaitOf(const Snapshot& snapshot, TenantId id) {
  TenantWait wait;
  for (const auto& gpu : snapshot.gpus) {
    const auto mine = std::find_if(gpu.tenants.begin(), gpu.tenants.end(),
                                   [id](const auto& tenant) { return tenant.tenant == id; });
    if (mine == gpu.tenants.end() || mine->waits_for.empty()) continue;
    wait.gpus.push_back(gpu.gpu);
    wait.for_what = mine->waits_for;
    wait.waiting = std::max(wait.waiting, mine->waiting);
    for (const auto& tenant : gpu.tenants)
      if (tenant.tenant != id && tenant.in_run_set && !tenant.suspended) wait.others.push_back(tenant.tenant);
  }
  if (wait.gpus.empty()) return std::nullopt;
  std::sort(wait.others.begin(), wait.others.end());
  wait.others.erase(std::unique(wait.others.begin(), wait.others.end()), wait.others.end());
  return wait;
}

bool Scheduler::IsContended(const std::string& gpu) const {
  const auto domain = domain_of_.find(gpu);
  return domain != domain_of_.end() && states_.at(domain->second).contended;
}

Scheduler::Watch Scheduler::WatchOf(TenantId id) const {
  const Tenant* const tenant = Find(id);
  if (!tenant) return {settings_.idle};
  Span idle = IdleTime(settings_, tenant->time_part > 0);
  if (tenant->options.latency) idle = std::min(idle, kLatencyIdle);
  return {idle, tenant->paced};
}

bool Scheduler::IsDenied(TenantId id) const {
  const auto tenant = tenants_.find(id);
  return tenant != tenants_.end() && std::any_of(tenant->second.parts.begin(), tenant->second.parts.end(),
                                                 [](const auto& part) { return part.second.denied; });
}

std::optional<base::MonoTime> Scheduler::Deadline() const {
  std::optional<base::MonoTime> first;
  const auto due = [&first](const std::optional<base::MonoTime>& when) {
    if (when && (!first || *when < *first)) first = when;
  };
  for (const auto& [id, tenant] : tenants_) {
    if (tenant.gate == GatePosition::kClosing) due(tenant.close_deadline + kAnswersLate);
    if (tenant.keeps_until && IsAwaited(tenant)) due(tenant.keeps_until);
    due(ForcedAt(tenant));
    due(tenant.out_blocked);
    due(tenant.back_blocked);
    if (tenant.IsEvicting() && !tenant.staying_reported)
      due(tenant.left_since + settings_.yield_limit + kStandsStill);
    if (tenant.time_part > 0 && tenant.HasUpperLimit()) {
      const bool has_gpu = tenant.IsComingToRest() || (HasTurn(tenant) && !tenant.IsIdle());
      const Span left = tenant.budget.ChangesIn(has_gpu, tenant.options.compute->part);
      if (left != Span::max() && (tenant.IsOpen() || tenant.Waits())) due(*last_ + left);
    }
    if (last_) due(NextHoldBackChange(tenant, *last_));
    if (tenant.too_large_since && !tenant.too_large_reported) due(*tenant.too_large_since + kTooLargeHolds);
  }
  for (const auto& [name, state] : states_) {
    due(state.decide_at);
    due(state.deadlock_ends);
    due(state.compute.Deadline());
  }
  return first;
}

}  // namespace gpuman::share
