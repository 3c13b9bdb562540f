// Tenants that do not yield: what they keep, when they are asked again, and when force is used.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "share/scheduler.h"

namespace gpuman::share {
namespace {

// Each time the scheduler asks a tenant, the tenant has longer to come to rest, up to kLongestAttempt times
// yield_limit. In between it runs for a longer time too, ten times as long as it was asked for at first, so
// asking costs it a tenth of its time and then less and less.
constexpr unsigned kLongestAttempt = 4;
constexpr Span kShortestAttempt = std::chrono::milliseconds(10);
constexpr int kRunsBetween = 10, kRunsLonger = 4;
constexpr Span kLongestBetween = std::chrono::minutes(30);
// The scheduler does not report the same tenant more often than this, since a tenant may yield only
// sometimes.
constexpr Span kTellAgain = std::chrono::minutes(10);
// A tenant that waits for room refuses at once, and yields when it has that room. So many such refusals in a
// row are not reported.
constexpr unsigned kSoonOver = 2;

base::Millis MillisOf(Span span) { return std::chrono::duration_cast<base::Millis>(span); }

}  // namespace

Span Scheduler::CloseLimit(const Tenant& tenant) const {
  return settings_.yield_limit * std::min(1u << std::min(tenant.refusals, 8u), kLongestAttempt);
}

// The tenant's gate is open, and stays open for a while.
void Scheduler::KeepsRoom(Tenant& tenant, Span asked, base::MonoTime now) {
  Span pause = kRunsBetween * asked;
  const Span longest = std::max(pause, kLongestBetween);
  for (unsigned i = 0; i < tenant.refusals && pause < longest; ++i) pause *= kRunsLonger;
  tenant.keeps_until = now + std::min(pause, longest);
  tenant.member = true;
}

void Scheduler::Refuse(Tenant& tenant, const std::string& why, Refusal how, base::MonoTime now,
                       Figures figures) {
  const bool late = how == Refusal::kTooLate;
  const Span limit = CloseLimit(tenant);
  // One that refuses at once has lost little time by it, and may yield soon: it waits for room, for example.
  const bool at_once = !late && tenant.gate == GatePosition::kClosing;
  const Span asked = limit - (tenant.close_deadline - now);
  // How long its work would have needed is not known, only that it is longer. One that waits for room, or
  // does not answer, says nothing of its work.
  if (late && tenant.gate == GatePosition::kClosing && tenant.answers && !tenant.stuck)
    tenant.rests.Add(std::min(now, tenant.close_deadline) - tenant.close_began);
  KeepsRoom(tenant, at_once ? std::clamp(asked, kShortestAttempt, limit) : limit, now);
  if (tenant.gate != GatePosition::kOpen) out_.emplace_back(action::Open{tenant.id, NextOrder()});
  tenant.gate = GatePosition::kOpen;
  tenant.gate_order = 0;
  const bool told = (!tenant.refused.empty() && !tenant.unreported) ||
                    (tenant.refusal_reported_at && now < *tenant.refusal_reported_at + kTellAgain);
  tenant.unreported = !told && at_once && tenant.stuck && tenant.refusals < kSoonOver;
  if (!tenant.answers) {
    tenant.refused = tenant.silence;
    return TellSilence(tenant);
  }
  ++tenant.refusals;
  tenant.refused = !late ? why
                         : fmt::format("its work did not come to rest within {}{}{}",
                                       base::FormatDuration(MillisOf(limit)), why.empty() ? "" : ": ", why);
  if (!told && !tenant.unreported) {
    tenant.refusal_reported_at = now;
    figures.emplace("milliseconds", MillisOf(limit).count());
    figures["asked_again_milliseconds"] = MillisOf(*tenant.keeps_until - now).count();
    Report(tenant.id, "share_not_yielded", tenant.refused + "; it runs on and keeps its place",
           std::move(figures));
  }
  Escalate(tenant, tenant.refused);
}

// Reports each silence once.
void Scheduler::TellSilence(Tenant& tenant) {
  if (!std::exchange(tenant.silence_reported, true)) Report(tenant.id, "share_not_yielded", tenant.silence);
  Escalate(tenant, tenant.silence);
}

void Scheduler::Escalate(const Tenant& tenant, const std::string& why) {
  if (settings_.on_no_yield == OnNoYield::kWait || tenant.forced || tenant.parked) return;
  out_.emplace_back(action::Escalate{.tenant = tenant.id, .how = settings_.on_no_yield, .why = why});
}

// Escalates for each tenant for which others wait.
void Scheduler::EscalateAll() {
  for (const auto& [id, tenant] : tenants_) {
    if (!IsAwaited(tenant)) continue;
    if (tenant.keeps_until || (!tenant.answers && tenant.HoldsRoom()))
      Escalate(tenant, tenant.answers ? tenant.refused : tenant.silence);
  }
}

bool Scheduler::IsAwaited(const Tenant& tenant) const {
  return std::any_of(tenants_.begin(), tenants_.end(), [&](const auto& each) {
    const Tenant& other = each.second;
    return other.id != tenant.id && other.Waits() && tenant.Meets(other);
  });
}

void Scheduler::Handle(const event::ResponsivenessChanged& is, base::MonoTime now) {
  Tenant* const tenant = Find(is.tenant);
  if (!tenant || tenant->answers == is.answers) return;
  tenant->answers = is.answers;
  tenant->silence = is.why;
  tenant->silent_since = now;
  tenant->silence_reported = tenant->forced = false;
  if (is.answers) {
    // The tenant can yield again, and its memory can leave.
    tenant->keeps_until.reset();
    tenant->out_blocked.reset();
    return;
  }
  if (!tenant->keeps_until) return;
  tenant->refused = tenant->silence;
  TellSilence(*tenant);
}

// The time from which force is used against a tenant that does not answer: a job of another user has waited
// for answer_limit then. If only jobs of the tenant's own user wait, or none, on_no_yield decides.
std::optional<base::MonoTime> Scheduler::ForcedAt(const Tenant& tenant) const {
  if (tenant.answers || tenant.forced || tenant.parked || settings_.on_no_answer == OnNoYield::kWait ||
      !tenant.HoldsRoom())
    return std::nullopt;
  std::optional<base::MonoTime> first;
  for (const auto& [id, other] : tenants_) {
    if (id == tenant.id || other.user == tenant.user || !other.Waits() || !tenant.Meets(other)) continue;
    const base::MonoTime due = std::max(tenant.silent_since, other.waiting_since) + settings_.answer_limit;
    first = first ? std::min(*first, due) : due;
  }
  return first;
}

void Scheduler::ForceSilent(base::MonoTime now) {
  for (auto& [id, tenant] : tenants_) {
    const auto due = ForcedAt(tenant);
    if (!due || now < *due) continue;
    tenant.forced = true;
    out_.emplace_back(
        action::Escalate{.tenant = id, .how = settings_.on_no_answer, .forced = true, .why = tenant.silence});
  }
}

std::optional<Scheduler::Obstacle> Scheduler::ObstacleOf(TenantId id) const {
  const Tenant* const tenant = Find(id);
  if (!tenant || tenant->parked) return std::nullopt;
  if (!tenant->refused.empty() && tenant->IsOpen()) return Obstacle{id, tenant->refused};
  const auto stays = [](const Tenant& one) { return one.staying_reported && one.IsEvicting(); };
  if (stays(*tenant)) return Obstacle{id, kMemoryStays, false};
  if (!tenant->Waits()) return std::nullopt;
  if (tenant->restore != 0 || tenant->LacksRoom())
    for (const auto& [other_id, other] : tenants_)
      if (other_id != id && stays(other) && other.Meets(*tenant))
        return Obstacle{other_id, kMemoryStays, false};
  const auto domain = std::find_if(domains_.begin(), domains_.end(), [&](const Domain& each) {
    return std::any_of(each.tenants.begin(), each.tenants.end(),
                       [&](const Tenant* one) { return one == tenant; });
  });
  // A tenant that fits beside the memory that stays waits only for its turn.
  if (domain == domains_.end() || Packing(domain->tenants, capacities_, /*exclusive=*/false).Fits(*tenant))
    return std::nullopt;
  for (const auto& [other_id, other] : tenants_) {
    if (other_id == id || !other.Meets(*tenant)) continue;
    if (other.keeps_until) return Obstacle{other_id, other.refused};
    if (!other.answers && other.HoldsRoom()) return Obstacle{other_id, other.silence};
  }
  return std::nullopt;
}

}  // namespace gpuman::share
