// Tenants that wait for each other's room. A thread of each waits for room, and the other work of its job
// does not come to rest without that thread; and each has the room that another of them waits for. None of
// them can yield and none can be served, so one has to do without.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "share/scheduler.h"

namespace gpuman::share {
namespace {

// So many times yield_limit: each has been asked, and could have come to rest in another way.
constexpr int kDeadlockHolds = 4;

bool IsBlocked(const Tenant& tenant, const Group& deadlocked, const Domain& domain,
               const Capacities& capacities) {
  return std::any_of(tenant.parts.begin(), tenant.parts.end(), [&](const auto& each) {
    const auto& [gpu, part] = each;
    const auto capacity = capacities.find(gpu);
    if (part.Lacks().count == 0 || capacity == capacities.end()) return false;
    base::Bytes needs = part.Lacks();
    const auto add = [&needs, &of = gpu](const Tenant* other, bool whole) {
      const auto its = other->parts.find(of);
      if (its == other->parts.end()) return;
      const TenantGpuState& there = its->second;
      needs += there.demand.pinned;
      if (whole) needs += there.promised + there.demand.resident + there.demand.away + there.paged;
    };
    for (const Tenant* other : domain.tenants)
      add(other,
          other == &tenant || std::find(deadlocked.begin(), deadlocked.end(), other) != deadlocked.end());
    return needs > capacity->second;
  });
}

// Tenants of which each lacks room even if all tenants leave that are not among them.
Group DeadlockedTenants(const Domain& domain, const Capacities& capacities) {
  Group deadlocked;
  for (Tenant* tenant : domain.tenants)
    if (tenant->stuck && !tenant->parked && tenant->LacksRoom()) deadlocked.push_back(tenant);
  std::size_t before = 0;
  do {
    before = deadlocked.size();
    const Group all = deadlocked;
    std::erase_if(deadlocked, [&](const Tenant* each) { return !IsBlocked(*each, all, domain, capacities); });
  } while (deadlocked.size() != before);
  return deadlocked;
}

// Returns the newest tenant that waits for room on a GPU where another tenant of the group waits as well, and
// that has memory there: it may give this memory up while the rest of it runs on. Null: each such tenant has
// tried that.
Tenant* FindToCloseInPart(const Group& by_time) {
  const auto waits_on = [](const Tenant* tenant, const std::string& gpu) {
    const auto part = tenant->parts.find(gpu);
    return part != tenant->parts.end() && part->second.Lacks().count > 0;
  };
  for (auto each = by_time.rbegin(); each != by_time.rend(); ++each) {
    if ((*each)->in_part == Tenant::InPart::kTried) continue;
    for (const auto& [gpu, part] : (*each)->parts) {
      const bool others = std::any_of(by_time.begin(), by_time.end(), [&, &of = gpu](const Tenant* other) {
        return other != *each && waits_on(other, of);
      });
      if (others && waits_on(*each, gpu) && part.demand.resident.count > 0) return *each;
    }
  }
  return nullptr;
}

}  // namespace

void Scheduler::BreakDeadlock(const Domain& domain, State& state, base::MonoTime now) {
  state.deadlock_ends.reset();
  const Group deadlocked = DeadlockedTenants(domain, capacities_);
  if (deadlocked.size() < 2) return;
  const auto key = [](const Tenant* each) { return std::make_tuple(each->waiting_since, each->id); };
  std::vector<Tenant*> by_time = deadlocked;
  std::sort(by_time.begin(), by_time.end(), [&](const auto* a, const auto* b) { return key(a) < key(b); });
  const Span holds = kDeadlockHolds * Span(settings_.yield_limit);
  if (Tenant* const one = FindToCloseInPart(by_time)) {
    if (one->in_part == Tenant::InPart::kNo) {
      one->in_part = Tenant::InPart::kAsked;
      one->in_part_until = now + holds;
      one->keeps_until.reset();
    }
    state.deadlock_ends = one->in_part_until;
    if (now < one->in_part_until) return;
    one->in_part = Tenant::InPart::kTried;
  }
  Tenant& last = *by_time.back();
  const base::MonoTime ends = last.waiting_since + holds;
  if (now < ends) {
    state.deadlock_ends = ends;
    return;
  }
  for (auto& [gpu, part] : last.parts) {
    if (part.Lacks().count == 0) continue;
    const auto by = std::find_if(by_time.begin(), by_time.end(),
                                 [&of = gpu](const Tenant* each) { return each->parts.count(of) != 0; });
    const auto asked = static_cast<std::int64_t>(std::min<std::uint64_t>(part.Lacks().count, INT64_MAX));
    Report(
        last.id, "share_move_failed",
        fmt::format("its allocation on {} fails, as it would without gpuman: job {} has the room and waits "
                    "for memory that this job has, and neither comes to rest before it has its room; run "
                    "such jobs one after the other, or give them less memory",
                    gpu, (*by)->id.value),
        {{"asked", asked}});
    part.deadlocked = true;
  }
  // The obstacle is gone: the part can come to rest now.
  last.keeps_until.reset();
  last.stuck = false;
}

}  // namespace gpuman::share
