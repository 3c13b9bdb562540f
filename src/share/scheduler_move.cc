// The orders that the run set needs to run (close, evict, restore, open), derived again from the state each
// time.
#include <algorithm>
#include <utility>

#include "share/eviction.h"
#include "share/scheduler.h"

namespace gpuman::share {
namespace {

// The scheduler grants less room than this only if the tenant needs no more.
constexpr base::Bytes kGrantStep = base::MiB(32);
constexpr std::int64_t kUnbounded = INT64_MAX / 4;

std::int64_t Signed(base::Bytes bytes) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(bytes.count, INT64_MAX / 4));
}

base::Bytes ToCome(const TenantGpuState& part) { return part.demand.away - part.granted; }

std::set<std::string> GpusOf(const Domain& domain) {
  std::set<std::string> gpus;
  for (const Tenant* tenant : domain.tenants)
    for (const auto& [gpu, part] : tenant->parts) gpus.insert(gpu);
  return gpus;
}

}  // namespace

void Scheduler::IssueOrders(Domain& domain, base::MonoTime now) {
  SendOff(domain, now);
  MakeRoom(domain);
  OrderRestores(domain);
  GrantRoom(domain);
  OpenReady(domain, now);
  for (Tenant* tenant : domain.tenants)
    if (tenant->member && tenant->IsOpen()) GrantWanted(domain, *tenant, now);
}

std::int64_t Scheduler::Free(const Domain& domain, const std::string& gpu) const {
  const auto capacity = capacities_.find(gpu);
  if (capacity == capacities_.end()) return kUnbounded;
  std::int64_t free = Signed(capacity->second);
  for (const Tenant* tenant : domain.tenants) {
    const auto part = tenant->parts.find(gpu);
    if (part == tenant->parts.end()) continue;
    free -= Signed(part->second.demand.resident + part->second.demand.pinned + part->second.granted +
                   part->second.promised + tenant->PagedHere(part->second));
  }
  return free;
}

void Scheduler::SendOff(const Domain& domain, base::MonoTime now) {
  // Those that work are told first: somebody waits for the GPU.
  Group tenants = domain.tenants;
  std::stable_partition(tenants.begin(), tenants.end(),
                        [](const Tenant* tenant) { return !tenant->IsIdle(); });
  for (Tenant* tenant : tenants) {
    if (tenant->member || tenant->parked) continue;
    if (tenant->IsOpen()) {
      tenant->gate = GatePosition::kClosing;
      tenant->gate_order = NextOrder();
      tenant->close_deadline = now + CloseLimit(*tenant);
      tenant->close_began = now;
      out_.emplace_back(action::Close{tenant->id, tenant->gate_order, tenant->close_deadline,
                                      tenant->in_part == Tenant::InPart::kAsked});
    }
    if (tenant->restore != 0 && !std::exchange(tenant->stopping, true))
      out_.emplace_back(action::CancelRestore{tenant->id, tenant->restore});
  }
}

std::int64_t Scheduler::Lack(const Domain& domain, const std::string& gpu, const Group& members) const {
  std::int64_t lack = -Free(domain, gpu);
  for (const Tenant* tenant : domain.tenants)
    if (const auto part = tenant->parts.find(gpu); part != tenant->parts.end())
      lack -= Signed(std::min(part->second.evict_left, part->second.demand.resident));
  for (const Tenant* tenant : members)
    if (const auto part = tenant->parts.find(gpu); part != tenant->parts.end())
      lack += Signed(ToCome(part->second) + part->second.Lacks() + tenant->PagedToCome(part->second));
  return lack;
}

void Scheduler::MakeRoom(const Domain& domain) {
  Group members;
  for (Tenant* tenant : domain.tenants)
    if (tenant->member) members.push_back(tenant);
  for (const std::string& gpu : GpusOf(domain)) {
    const std::int64_t lack = Lack(domain, gpu, members);
    if (lack <= 0) continue;
    std::int64_t grown = 0;
    std::vector<TenantGpuState*> growing;
    for (Tenant* tenant : members) {
      const auto found = tenant->parts.find(gpu);
      if (found == tenant->parts.end() || found->second.Lacks().count == 0) continue;
      grown += Signed(found->second.grown);
      growing.push_back(&found->second);
    }
    // A tenant that allocates little by little would wait each time, so more memory leaves than it lacks now:
    // as much more as it has already waited for in this turn.
    if (!EvictFrom(domain, gpu, {static_cast<std::uint64_t>(lack + grown)})) continue;
    for (TenantGpuState* part : growing) part->grown += part->Lacks();
  }
}

// The idle tenants give first (eviction.h), among equals the one that has been idle longest; then those that
// wait, from the last one on. An idle tenant whose gate still closes counts, and gives its part then.
std::vector<Scheduler::Victim> Scheduler::VictimsOn(const Domain& domain, const std::string& gpu,
                                                    base::Bytes bytes, const Group& resting,
                                                    const Tenant* waiter) const {
  Group idle, waiting;
  for (Tenant* tenant : domain.tenants) {
    const auto part = tenant->parts.find(gpu);
    if (part == tenant->parts.end() || part->second.evict != 0 || part->second.demand.resident.count == 0)
      continue;
    const bool rests = std::find(resting.begin(), resting.end(), tenant) != resting.end();
    if (tenant == waiter || tenant->parked || tenant->out_blocked || tenant->restore != 0 ||
        (tenant->member && !rests))
      continue;
    if (tenant->IsIdle())
      idle.push_back(tenant);
    else if (tenant->gate == GatePosition::kClosed)
      waiting.push_back(tenant);
  }
  std::sort(idle.begin(), idle.end(), [](const Tenant* a, const Tenant* b) {
    if (a->member != b->member) return b->member;
    return a->since != b->since ? a->since < b->since : a->id < b->id;
  });
  std::sort(waiting.begin(), waiting.end(),
            [this](const Tenant* a, const Tenant* b) { return IsBefore(*b, *a, settings_.policy); });
  std::vector<EvictionCandidate> memory;
  for (const Tenant* tenant : idle)
    memory.push_back({tenant->parts.at(gpu).demand.resident,
                      std::max(*last_ - tenant->since, tenant->rhythm.GapLeft({}).value_or(Span{}))});
  const std::vector<base::Bytes> parts = DivideEviction(memory, bytes);
  std::vector<Victim> victims;
  for (std::size_t i = 0; i < idle.size(); ++i) {
    victims.push_back({idle[i], parts[i]});
    bytes = bytes - parts[i];
  }
  for (Tenant* tenant : waiting) {
    victims.push_back({tenant, std::min(bytes, tenant->parts.at(gpu).demand.resident)});
    bytes = bytes - victims.back().gives;
  }
  std::erase_if(victims, [](const Victim& victim) { return victim.gives.count == 0; });
  return victims;
}

std::set<const Tenant*> Scheduler::GiversAmong(const Group& resting, const Tenant& waiter,
                                               const Group& chosen, const Group& leaving,
                                               const Domain& domain) const {
  std::set<const Tenant*> givers;
  for (const auto& [gpu, of_waiter] : waiter.parts) {
    std::int64_t lack = Lack(domain, gpu, chosen);
    for (const Tenant* tenant : leaving)
      if (const auto part = tenant->parts.find(gpu); part != tenant->parts.end())
        lack -=
            Signed(part->second.demand.resident + part->second.promised + tenant->PagedHere(part->second));
    if (lack <= 0) continue;
    for (const Victim& victim : VictimsOn(domain, gpu, {static_cast<std::uint64_t>(lack)}, resting, &waiter))
      if (victim.tenant->member) givers.insert(victim.tenant);
  }
  return givers;
}

// False: no tenant can be evicted now.
bool Scheduler::EvictFrom(const Domain& domain, const std::string& gpu, base::Bytes bytes) {
  bool any = false;
  for (const auto& [tenant, gives] : VictimsOn(domain, gpu, bytes)) {
    if (tenant->gate != GatePosition::kClosed) continue;
    TenantGpuState& part = tenant->parts.at(gpu);
    part.evict = NextOrder();
    part.evict_left = gives;
    tenant->left_since = *last_;
    tenant->staying_reported = false;
    out_.emplace_back(action::Evict{tenant->id, gpu, part.evict, gives});
    any = true;
  }
  return any;
}

// Waits until the scheduler knows exactly how much is away: a Restore that gets less room than it needs waits
// for ever.
void Scheduler::OrderRestores(Domain& domain) {
  for (Tenant* tenant : domain.tenants) {
    if (!tenant->member || tenant->gate != GatePosition::kClosed || tenant->restore != 0 ||
        tenant->IsEvicting() || !tenant->HasAway() || tenant->moved)
      continue;
    tenant->restore = NextOrder();
    out_.emplace_back(action::Restore{tenant->id, tenant->restore});
  }
}

// Grants room to tenants whose memory comes back.
void Scheduler::GrantRoom(const Domain& domain) {
  for (Tenant* tenant : domain.tenants) {
    if (!tenant->member || tenant->restore == 0 || tenant->stopping) continue;
    for (auto& [gpu, part] : tenant->parts) {
      const base::Bytes to_come = ToCome(part);
      const std::int64_t free = Free(domain, gpu);
      if (to_come.count == 0 || free <= 0) continue;
      const base::Bytes room = std::min(to_come, base::Bytes{static_cast<std::uint64_t>(free)});
      if (room < std::min(to_come, kGrantStep)) continue;
      part.granted += room;
      out_.emplace_back(action::MemoryGrant{tenant->id, gpu, room, true});
    }
  }
}

// Grants an allocation its room in one step, but only after all memory that comes back has its room.
void Scheduler::GrantWanted(const Domain& domain, Tenant& tenant, base::MonoTime now) {
  for (auto& [gpu, part] : tenant.parts) {
    const base::Bytes lacks = part.Lacks();
    if (lacks.count == 0 || Free(domain, gpu) < Signed(lacks)) continue;
    const bool others_first =
        std::any_of(domain.tenants.begin(), domain.tenants.end(), [&of = gpu](const Tenant* other) {
          const auto found = other->parts.find(of);
          return other->member && found != other->parts.end() && ToCome(found->second).count > 0;
        });
    if (others_first) continue;
    part.promised += lacks;
    // The time in which the tenant waited does not count in its turn; but the turn does not begin again,
    // since a tenant may allocate again and again.
    tenant.turn_since += now - std::max(tenant.turn_since, tenant.waiting_since);
    out_.emplace_back(action::MemoryGrant{tenant.id, gpu, lacks, false});
  }
}

// Whether the tenant's managed memory, which comes by itself, has room beside the other tenants.
bool Scheduler::HasRoomToPage(const Domain& domain, const Tenant& tenant) const {
  return std::all_of(tenant.parts.begin(), tenant.parts.end(), [&](const auto& each) {
    const base::Bytes paged = tenant.PagedToCome(each.second);
    return paged.count == 0 || Free(domain, each.first) >= Signed(paged);
  });
}

void Scheduler::OpenReady(const Domain& domain, base::MonoTime now) {
  const bool exclusive = states_[domain.name].IsExclusive();
  for (Tenant* tenant : domain.tenants) {
    if (!tenant->member || tenant->IsOpen() || tenant->HasAway() || tenant->restore != 0 ||
        tenant->IsEvicting())
      continue;
    const bool one_before =
        std::any_of(domain.tenants.begin(), domain.tenants.end(), [&](const Tenant* other) {
          return !other->member && other->gate == GatePosition::kClosing &&
                 (exclusive && !tenant->options.latency ? other->Meets(*tenant)
                                                        : other->MayDeadlockWith(*tenant));
        });
    if (one_before || !HasRoomToPage(domain, *tenant)) continue;
    tenant->gate = GatePosition::kOpen;
    tenant->gate_order = 0;
    tenant->turn_since = now;
    if (tenant->activity == TenantActivity::kWaiting) {
      tenant->activity = TenantActivity::kBusy;
      tenant->since = now;
    }
    out_.emplace_back(action::Open{tenant->id, NextOrder()});
  }
}

base::Bytes Scheduler::NeedsOfItsOwn(const TenantGpuState& part) {
  return part.promised + part.demand.resident + part.demand.away + part.paged + part.demand.pinned;
}

// The bytes that the tenant needs, together with the memory of the other tenants that cannot leave.
base::Bytes Scheduler::NeedsAlone(const Domain& domain, const std::string& gpu, const TenantGpuState& part) {
  base::Bytes bytes = NeedsOfItsOwn(part) - part.demand.pinned;
  for (const Tenant* each : domain.tenants)
    if (const auto its = each->parts.find(gpu); its != each->parts.end()) bytes += its->second.demand.pinned;
  return bytes;
}

void Scheduler::DenyImpossible(const Domain& domain) {
  for (Tenant* tenant : domain.tenants) {
    for (auto& [gpu, part] : tenant->parts) {
      const auto capacity = capacities_.find(gpu);
      if (capacity == capacities_.end() || tenant->parked) continue;
      const base::Bytes lacks = part.demand.wants - part.promised;
      const bool impossible =
          lacks.count > 0 && (part.deadlocked || NeedsAlone(domain, gpu, part) + lacks > capacity->second);
      if (impossible && !part.denied) {
        const bool for_others = !part.deadlocked && NeedsOfItsOwn(part) + lacks <= capacity->second;
        out_.emplace_back(action::Deny{tenant->id, gpu, for_others});
      }
      part.denied = impossible;
    }
  }
}

// Figures of different moments may show a tenant as too large while a tenant comes or goes, so the state has
// to last before it is reported.
void Scheduler::TellTooLarge(const Domain& domain, base::MonoTime now) {
  for (Tenant* tenant : domain.tenants) {
    const auto exceeds = [&](const auto& part) {
      const auto capacity = capacities_.find(part.first);
      return capacity != capacities_.end() && NeedsAlone(domain, part.first, part.second) > capacity->second;
    };
    const auto part = std::find_if(tenant->parts.begin(), tenant->parts.end(), exceeds);
    if (part == tenant->parts.end() || tenant->parked || tenant->Runs()) {
      tenant->too_large_since.reset();
      tenant->too_large_reported = false;
      continue;
    }
    if (!tenant->too_large_since) tenant->too_large_since = now;
    if (now < *tenant->too_large_since + kTooLargeHolds || std::exchange(tenant->too_large_reported, true))
      continue;
    Report(tenant->id, "share_too_large", "it does not fit on " + part->first + " any more, not even alone",
           {{"needs", Signed(NeedsAlone(domain, part->first, part->second))},
            {"capacity", Signed(capacities_.at(part->first))}});
  }
}

}  // namespace gpuman::share
