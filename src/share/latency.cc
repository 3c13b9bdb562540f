#include "share/latency.h"

#include <algorithm>

#include "share/seconds.h"
#include "share/tenant.h"

namespace gpuman::share {
namespace {

// A program of which nothing is known yet counts as one without work: it may be one that never tells.
bool HasWork(const Tenant& tenant) {
  return !tenant.parked && (tenant.activity == TenantActivity::kBusy ||
                            tenant.activity == TenantActivity::kWaiting || tenant.LacksRoom());
}

// A tenant whose memory had to move has a turn as long as that took, so moving never takes more than half of
// the time.
base::MonoTime CameUntil(const Tenant& tenant) {
  return tenant.IsOpen() ? tenant.turn_since + tenant.brought_in : base::MonoTime::min();
}

// The first one has work that holds the other back.
bool HoldsBack(const Tenant& first, const Tenant& other) {
  return &first != &other && first.goes_first && first.IsOpen() && HasWork(first) && first.Meets(other);
}

bool HadWorkLately(const Tenant& tenant, base::MonoTime now) {
  return HasWork(tenant) || (!tenant.parked && tenant.IsIdle() && now < tenant.since + kPacedAfter);
}

}  // namespace

bool HaveLatencyTenant(const Group& tenants) {
  return std::any_of(tenants.begin(), tenants.end(), [&](const Tenant* first) {
    return first->options.latency && !first->parked &&
           std::any_of(tenants.begin(), tenants.end(), [first](const Tenant* other) {
             return other != first && !other->parked && other->Meets(*first);
           });
  });
}

void UpdateHoldBack(const Group& tenants, base::MonoTime now) {
  for (Tenant* tenant : tenants)
    tenant->goes_first =
        tenant->options.latency && !tenant->spent && tenant->ahead * tenant->Rate() <= kLatencyOverdraft;
  for (Tenant* tenant : tenants) {
    tenant->held_back = tenant->paced = false;
    if (tenant->goes_first) continue;
    const bool came = CameUntil(*tenant) > now;
    for (const Tenant* first : tenants) {
      if (first == tenant || !first->options.latency || !first->Meets(*tenant)) continue;
      // One that has no turn yet waits for it like others (policy.h).
      tenant->held_back = tenant->held_back || (!came && HoldsBack(*first, *tenant));
      // Processes of several GPUs wait for each other, and would wait at their gates.
      tenant->paced = tenant->paced || (tenant->parts.size() < 2 && HadWorkLately(*first, now));
    }
  }
}

void CountHeldBack(const Group& tenants, Span passed) {
  for (Tenant* first : tenants)
    if (std::any_of(tenants.begin(), tenants.end(), [first](const Tenant* other) {
          return other->held_back && other->Waits() && HoldsBack(*first, *other);
        }))
      first->held_others += passed;
}

std::optional<base::MonoTime> NextHoldBackChange(const Tenant& tenant, base::MonoTime now) {
  if (!tenant.options.latency)
    return CameUntil(tenant) > now ? std::optional(CameUntil(tenant)) : std::nullopt;
  if (tenant.parked) return std::nullopt;
  if (tenant.IsIdle())
    return now < tenant.since + kPacedAfter ? std::optional(tenant.since + kPacedAfter) : std::nullopt;
  if (!tenant.goes_first || !HasWork(tenant)) return std::nullopt;
  const double left = kLatencyOverdraft - tenant.ahead * tenant.Rate();
  return now + FromSeconds(std::max(left, 0.0)) + std::chrono::microseconds(1);
}

}  // namespace gpuman::share
