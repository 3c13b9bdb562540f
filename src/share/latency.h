// Tenants whose work goes first (--latency). Such a tenant's gate stays open beside others, and while it has
// work, the tenants that share a GPU with it are held back: their gates close. Before that, and for
// kPacedAfter since its last work, their launches get marks at which the GPU can stop (they are *paced*; not
// those on several GPUs), so that its work does not wait for theirs. Pure. Internal to src/share.
//
// A tenant whose memory had to move for its turn is not held back before it has had a turn as long as that.
//
// A tenant goes first only as long as it had no more than its part of the time and kLatencyOverdraft. So one
// that works all the time holds nobody back for good. Those that go first are not held back by each other.
#pragma once

#include <vector>

#include "share/events.h"

namespace gpuman::share {

struct Tenant;

// After how long without work a tenant whose work goes first is idle.
inline constexpr Span kLatencyIdle = std::chrono::microseconds(400);
inline constexpr Span kPacedAfter = std::chrono::seconds(10);
// GPU seconds.
inline constexpr double kLatencyOverdraft = 1;

// Whether a tenant whose work goes first shares a GPU with another one.
bool HaveLatencyTenant(const std::vector<Tenant*>& tenants);
// Sets Tenant::goes_first, held_back and paced of all tenants of a domain.
void UpdateHoldBack(const std::vector<Tenant*>& tenants, base::MonoTime now);
// Counts the time since the last event in which tenants were held back, for those that went first.
void CountHeldBack(const std::vector<Tenant*>& tenants, Span passed);
// When what UpdateHoldBack sets, because of this tenant, may change although nothing else happens. nullopt:
// never.
std::optional<base::MonoTime> NextHoldBackChange(const Tenant& tenant, base::MonoTime now);

}  // namespace gpuman::share
