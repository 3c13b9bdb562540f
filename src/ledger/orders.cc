// Where the memory of a job's processes is, and where the daemon orders it to be.
#include "ledger/wire/orders.h"

#include <fmt/format.h>

#include <algorithm>

#include "ledger/ledgers.h"
#include "ledger/wire/peaks.h"
#include "ledger/wire/slot_balance.h"
#include "ledger/wire/slot_lock.h"

namespace gpuman::ledger {
namespace {

using base::ErrorCode;
using base::JobId;
using base::Result;

std::uint32_t Milliseconds(base::Millis time) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(time.count(), 0, INT32_MAX));
}

base::Error NoLedger(JobId job) {
  return {ErrorCode::kNotFound, fmt::format("job {} has no ledger", job.value)};
}
base::Error NotEvictable(JobId job) {
  return {ErrorCode::kNotSupported, fmt::format("job {} was not started to be evicted", job.value)};
}

base::Error NotCounted(JobId job, base::ProcessId process) {
  return {ErrorCode::kNotFound,
          fmt::format("process {} does not count its memory in job {}", process.pid, job.value)};
}

// Withdraws the call grant in `word`, and writes that into the slot. It keeps its number.
void Withdraw(wire::Slot& place, std::uint32_t& word) {
  word = wire::PackCallGrant({}, wire::GrantNumberOf(word));
  if (wire::GrantNumberOf(word) == 0) word = 0;
  wire::Store(place.call_grant, word);
}

QuiesceReport RestOf(std::uint32_t rest, std::uint32_t state, unsigned gpus) {
  const std::uint32_t known = (1u << gpus) - 1;
  QuiesceReport words;
  words.shut = (state & wire::kRestShut) != 0;
  words.in_flight = (state & wire::kRestInFlight) != 0;
  words.capturing = (state & wire::kRestCapturing) != 0;
  words.anywhere = (state & wire::kRestAnywhere) != 0;
  words.for_room = (state & wire::kRestForRoom) != 0;
  words.works = static_cast<std::uint16_t>(rest & known);
  words.waits = static_cast<std::uint16_t>(rest >> 16 & known);
  words.changes = state >> 16;
  return words;
}

constexpr std::uint64_t kMax = std::uint64_t{1} << 44;  // what the ledger can count

constexpr std::uint64_t kLatest = std::uint64_t{1} << 62;  // a time in ns, with room to count on from it

base::Bytes Figure(const std::uint64_t& word) { return {std::min(wire::Load(word), kMax)}; }

// The limit of the GPU with this index; null: there is none.
const GpuLimit* LimitOf(const wire::Ledger& ledger, const std::vector<GpuLimit>& limits, int index) {
  if (index < 0) return nullptr;  // most homes of most ledgers: they are free, or another slot's
  const auto found = std::ranges::find_if(limits, [&](const GpuLimit& limit) {
    return IndexOf(ledger, limit.uuid) == static_cast<unsigned>(index);
  });
  return found == limits.end() ? nullptr : &*found;
}

}  // namespace

std::vector<EvictableGpu> Ledgers::HomesOf(const Entry& entry, unsigned slot) {
  const wire::Ledger& ledger = *entry.page;
  const wire::Slot& place = ledger.slot[slot];
  const auto* const first = LimitOf(ledger, entry.limits, static_cast<int>(wire::Load(place.home)) - 1);
  std::vector<EvictableGpu> homes{{first != nullptr ? first->uuid : std::string(), Figure(place.evictable),
                                   Figure(place.evicted), Figure(place.wants)}};
  for (const wire::EvictableGpuEntry& one : ledger.home) {
    const int gpu = wire::GpuOfOwner(wire::Load(one.owner), slot);
    const auto* const limit = LimitOf(ledger, entry.limits, gpu);
    if (limit == nullptr) continue;
    const bool known =
        std::ranges::any_of(homes, [&](const EvictableGpu& home) { return home.uuid == limit->uuid; });
    if (known) continue;
    const base::Bytes wants{std::uint64_t{wire::Load(one.wants)} * wire::kUnit};
    homes.push_back({limit->uuid, Figure(one.evictable), Figure(one.evicted), wants});
  }
  return homes;
}

// The process may have written anything into its slot.
SlotStatus Ledgers::Read(const Entry& entry, unsigned slot, const Member& member) const {
  wire::Ledger& ledger = *entry.page;
  const wire::Slot& place = ledger.slot[slot];
  SlotStatus status;
  status.process = member.process;
  // The answer is read before the residency, because a process writes its residency before its answer.
  status.answered = wire::Load(place.answered) == member.order;
  const std::uint32_t residency = wire::Load(place.residency), error = wire::Load(place.error);
  if (residency < wire::kMemoryResidencies) status.residency = static_cast<wire::MemoryResidency>(residency);
  status.ordered = wire::OrderKindOf(member.order);
  status.error = wire::OrderErrorOf(error);
  status.driver_error = wire::DriverErrorOf(error);
  status.managed.count = std::min(wire::Load(place.managed), kMax);
  // A process that waits for room has written for how much before it says so.
  const std::uint32_t activity = wire::Load(place.activity);
  if (activity < wire::kActivities) status.activity = static_cast<wire::Activity>(activity);
  const std::uint32_t flags = wire::Load(place.flags);
  status.holds_imported = (flags & wire::kHoldsImported) != 0;
  status.notifies = (flags & wire::kNotifiesAnswers) != 0;
  status.takes_grants = (flags & wire::kTakesCallGrants) != 0;
  status.shares = (flags & wire::kShares) != 0;
  status.fetches = (flags & wire::kFetches) != 0;
  // A process writes what works before it says that a call has returned, and both before the end of a grant.
  status.grant_report = wire::CallGrantReportOf(wire::Load(place.grant_report));
  const std::uint32_t rest_state = wire::Load(place.rest_state);
  status.rest = RestOf(wire::Load(place.rest), rest_state, wire::GpusOf(ledger));
  for (const GpuLimit& limit : entry.limits) {
    const auto gpu = IndexOf(ledger, limit.uuid);
    const std::uint64_t bytes = gpu ? wire::BytesOf(ledger, *gpu, slot) : 0;
    if (bytes != 0) status.held.push_back({limit.uuid, {bytes}});
  }
  status.homes = HomesOf(entry, slot);
  for (const EvictableGpu& home : status.homes) {
    status.evictable += home.evictable;
    status.evicted += home.evicted;
    status.wants += home.wants;
  }
  status.activity_since = std::min(wire::Load(place.activity_since), kLatest);
  status.completed = wire::Load(place.completed);
  return status;
}

// Finds the processes that are in the ledger already, and the last order of each.
void Ledgers::TakeOver(Entry& entry) {
  unsigned out = 0;
  for (unsigned slot = 0; slot < wire::kSlots; ++slot) {
    const wire::Slot& place = entry.page->slot[slot];
    const auto pid = static_cast<pid_t>(wire::Load(place.pid));
    if (pid <= 0 || !wire::SlotIsLocked(entry.page.descriptor(), slot)) continue;
    const auto process = base::IdentityOf(pid);
    if (!process || process->start_time != wire::Load(place.start_time)) continue;
    const std::uint32_t order = wire::Load(place.order);
    OrderBytes bytes{wire::Load(place.order_bytes), {}};
    for (unsigned i = 0; i < wire::kHomes; ++i) {
      const wire::EvictableGpuEntry& home = entry.page->home[i];
      const std::uint64_t its = wire::Load(home.order_bytes);
      if (wire::GpuOfOwner(wire::Load(home.owner), slot) >= 0 && its != 0) bytes.home[i] = its;
    }
    entry.members[slot] = {*process, order, std::move(bytes), wire::Load(place.call_grant)};
    if (wire::OrderKindOf(order) == wire::OrderKind::kLeave) ++out;
  }
  entry.peaks_claimed = wire::kPeaks;  // not known yet
  if (out != 0 && out == entry.members.size()) entry.joining = {wire::OrderKind::kLeave};
}

// The words that go with the order.
Ledgers::OrderBytes Ledgers::OrderBytesOf(const Entry& entry, unsigned slot, const ProcessOrder& command) {
  if (command.what == wire::OrderKind::kHold) return {Milliseconds(command.patience), {}};
  if (command.what == wire::OrderKind::kRun && command.stay_held) return {wire::kStayHeld, {}};
  OrderBytes bytes;
  if (command.what != wire::OrderKind::kTake) return bytes;
  const wire::Ledger& ledger = *entry.page;
  for (const auto& [gpu, its] : command.away) {
    if (its.count == 0) continue;
    const auto index = IndexOf(ledger, gpu);
    const int home = index ? wire::FindHome(ledger, slot, *index) : -1;
    (home < 0 ? bytes.slot : bytes.home[static_cast<unsigned>(home)]) += its.count;
  }
  return bytes;
}

void Ledgers::Tell(Entry& entry, unsigned slot, Member& member, const ProcessOrder& command) {
  wire::Slot& place = entry.page->slot[slot];
  OrderBytes bytes = OrderBytesOf(entry, slot, command);
  const bool suspends = wire::Load(entry.page->suspends) != 0;
  // A process that is held for others' work may stand in its streams, and has to come to rest for a
  // suspension.
  const bool same = wire::OrderKindOf(member.order) == command.what && member.order_bytes == bytes &&
                    member.suspends == suspends;
  const bool refused = wire::Load(place.answered) == member.order &&
                       wire::OrderErrorOf(wire::Load(place.error)) != wire::OrderError::kNone;
  if (!same || refused) {
    member.order = wire::OrderAfter(member.order, command.what);
    member.order_bytes = std::move(bytes);
    member.suspends = suspends;
    Withdraw(place, member.call_grant);
  }
  // Writes the order even where it is unchanged: the program may have overwritten it.
  wire::Store(place.order_bytes, member.order_bytes.slot);
  for (unsigned i = 0; i < wire::kHomes; ++i) {
    wire::EvictableGpuEntry& home = entry.page->home[i];
    if (wire::GpuOfOwner(wire::Load(home.owner), slot) < 0) continue;
    const auto named = member.order_bytes.home.find(i);
    wire::Store(home.order_bytes, named == member.order_bytes.home.end() ? 0 : named->second);
  }
  wire::Store(place.order, member.order);
  wire::WakeAll(place.order);
  WriteSharing(entry);
}

void Ledgers::WriteSharing(Entry& entry) {
  wire::Ledger& ledger = *entry.page;
  wire::Store(ledger.room_patience_ms, Milliseconds(entry.sharing.room_patience));
  wire::Store(ledger.denied, entry.sharing.denied.count);
  wire::Store(ledger.pace_us, static_cast<std::uint32_t>(entry.sharing.pace.count()));
  wire::Store(ledger.alert_us, static_cast<std::uint32_t>(entry.sharing.alert.count()));
  const base::Millis turns = entry.sharing.watched, idle = entry.idle_watch;
  const bool both = turns.count() > 0 && idle.count() > 0;
  wire::Store(ledger.watched_ms, Milliseconds(both ? std::min(turns, idle) : std::max(turns, idle)));
  for (unsigned gpu = 0; gpu < wire::GpusOf(ledger); ++gpu) {
    const auto set = entry.room.find(gpu);
    wire::Store(ledger.gpu[gpu].room, set == entry.room.end() ? wire::kNoLimit : set->second);
  }
}

Result<> Ledgers::Order(JobId job, base::ProcessId process, const ProcessOrder& command) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return tl::unexpected(NoLedger(job));
  Entry& entry = found->second;
  if (!entry.eviction.possible) return tl::unexpected(NotEvictable(job));
  for (auto& [slot, member] : entry.members) {
    if (member.process != process || !wire::SlotIsLocked(entry.page.descriptor(), slot)) continue;
    Tell(entry, slot, member, command);
    return {};
  }
  return tl::unexpected(NotCounted(job, process));
}

Result<unsigned> Ledgers::GrantCalls(JobId job, base::ProcessId process, const CallGrant& grant) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return tl::unexpected(NoLedger(job));
  Entry& entry = found->second;
  const auto slot = SlotOf(entry, process);
  if (!slot) return tl::unexpected(NotCounted(job, process));
  std::uint32_t& last = entry.members.at(*slot).call_grant;
  wire::Slot& place = entry.page->slot[*slot];
  if (grant.calls == 0) {
    Withdraw(place, last);
  } else {
    last = wire::PackCallGrant(grant, wire::GrantNumberAfter(wire::GrantNumberOf(last)));
    wire::Store(place.call_grant, last);
  }
  wire::WakeAll(place.order);  // the process sleeps there, unless it comes to rest
  return wire::GrantNumberOf(last);
}

std::vector<std::string> Ledgers::GpusOf(JobId job) const {
  std::vector<std::string> gpus;
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return gpus;
  const wire::Ledger& ledger = *found->second.page;
  gpus.resize(wire::GpusOf(ledger));
  for (const GpuLimit& limit : found->second.limits) {
    const auto gpu = IndexOf(ledger, limit.uuid);
    if (gpu && *gpu < gpus.size()) gpus[*gpu] = limit.uuid;
  }
  return gpus;
}

Result<unsigned> Ledgers::OrderAll(JobId job, const ProcessOrder& command) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return tl::unexpected(NoLedger(job));
  Entry& entry = found->second;
  if (!entry.eviction.possible) return tl::unexpected(NotEvictable(job));
  entry.joining = command;
  if (command.what == wire::OrderKind::kTake) entry.joining = {wire::OrderKind::kHold};
  unsigned told = 0;
  for (auto& [slot, member] : entry.members) {
    if (!wire::SlotIsLocked(entry.page.descriptor(), slot)) continue;
    Tell(entry, slot, member, command);
    ++told;
  }
  return told;
}

std::vector<SlotStatus> Ledgers::SlotStatusesOf(JobId job) const {
  std::vector<SlotStatus> statuses;
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return statuses;
  const Entry& entry = found->second;
  for (const auto& [slot, member] : entry.members) {
    if (wire::SlotIsLocked(entry.page.descriptor(), slot)) statuses.push_back(Read(entry, slot, member));
  }
  return statuses;
}

void Ledgers::SetSharing(JobId job, const SharingSettings& sharing) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  found->second.sharing = sharing;
  ChangeWatch(found->second);
}

void Ledgers::SetIdleWatch(JobId job, base::Millis watched) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  found->second.idle_watch = watched;
  ChangeWatch(found->second);
}

void Ledgers::SetSuspends(JobId job, bool suspends) {
  const auto found = jobs_.find(job);
  if (found != jobs_.end()) wire::Store(found->second.page->suspends, suspends ? 1u : 0u);
}

void Ledgers::ShowLife(JobId job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  wire::Ledger& ledger = *found->second.page;
  const std::uint32_t next = wire::Load(ledger.life) + 1;
  wire::Store(ledger.life, next != 0 ? next : 1u);
}

void Ledgers::ChangeWatch(Entry& entry) {
  wire::Ledger& ledger = *entry.page;
  const auto told = [&ledger] {
    return std::array{wire::Load(ledger.watched_ms), wire::Load(ledger.pace_us), wire::Load(ledger.alert_us)};
  };
  const auto before = told();
  WriteSharing(entry);
  if (told() == before) return;
  // The shims sleep on their orders.
  for (auto& [slot, member] : entry.members) wire::WakeAll(ledger.slot[slot].order);
}

void Ledgers::SetRoom(JobId job, std::string_view uuid, std::optional<base::Bytes> bytes) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  const auto gpu = IndexOf(*found->second.page, uuid);
  if (!gpu) return;
  found->second.room[*gpu] = bytes ? bytes->count : wire::kNoLimit;
  WriteSharing(found->second);
}

void Ledgers::OfferRoom(JobId job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  std::uint32_t& offers = found->second.page->offers;
  __atomic_fetch_add(&offers, 1, __ATOMIC_SEQ_CST);
  wire::WakeAll(offers);
}

std::vector<GpuUsage> Ledgers::ManagedOf(JobId job) const {
  std::vector<GpuUsage> managed;
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return managed;
  for (const auto& [slot, member] : found->second.members) {
    if (wire::Load(found->second.page->slot[slot].managed) == 0) continue;
    const SlotStatus status = Read(found->second, slot, member);
    const auto most = std::max_element(status.held.begin(), status.held.end(),
                                       [](const auto& a, const auto& b) { return a.used < b.used; });
    if (most == status.held.end()) continue;
    managed.push_back({most->uuid, std::min(status.managed, most->used)});
  }
  return managed;
}

base::Bytes Ledgers::HostMemoryOf(JobId job) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return {};
  return {wire::TotalOf(*found->second.page, wire::kHost)};
}

}  // namespace gpuman::ledger
