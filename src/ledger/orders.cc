// Where a job's processes have their memory, and where they are ordered to have it.
#include "ledger/wire/orders.h"

#include <fmt/format.h>

#include <algorithm>

#include "ledger/ledgers.h"
#include "ledger/wire/books.h"
#include "ledger/wire/slot_lock.h"

namespace gpuman::ledger {
namespace {

using base::ErrorCode;
using base::Fail;
using base::JobId;
using base::Result;

// A process may have written anything there.
Standing Read(const wire::Slot& slot, base::ProcessId process, std::uint32_t order) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 44;  // what the ledger can count
  Standing standing;
  standing.process = process;
  // In this order: who answers has told its stage before.
  standing.answered = wire::Load(slot.answered) == order;
  const std::uint32_t stage = wire::Load(slot.stage), error = wire::Load(slot.error);
  if (stage < wire::kStages) standing.stage = static_cast<wire::Stage>(stage);
  standing.ordered_out = wire::OrdersEviction(order);
  standing.trouble = wire::TroubleOf(error);
  standing.driver_error = wire::DriverErrorOf(error);
  standing.evictable.count = std::min(wire::Load(slot.evictable), kMost);
  standing.evicted.count = std::min(wire::Load(slot.evicted), kMost);
  standing.holds_imported = (wire::Load(slot.flags) & wire::kHoldsImported) != 0;
  return standing;
}

}  // namespace

// Who sits in the ledger already, and what it was ordered last.
void Ledgers::TakeOver(Entry& entry) {
  unsigned out = 0;
  for (unsigned slot = 0; slot < wire::kSlots; ++slot) {
    const wire::Slot& place = entry.page->slot[slot];
    const auto pid = static_cast<pid_t>(wire::Load(place.pid));
    if (pid <= 0 || !wire::SlotIsLocked(entry.page.descriptor(), slot)) continue;
    const auto process = base::IdentityOf(pid);
    if (!process || process->start_time != place.start_time) continue;
    const std::uint32_t order = wire::Load(place.order);
    entry.seats[slot] = {*process, order};
    if (wire::OrdersEviction(order)) ++out;
  }
  entry.out = out != 0 && out == entry.seats.size();
}

void Ledgers::Tell(Entry& entry, unsigned slot, Member& member, bool out) {
  wire::Slot& place = entry.page->slot[slot];
  if (wire::OrdersEviction(member.order) == out) {
    const Standing now = Read(place, member.process, member.order);
    const bool refused = now.answered && now.trouble != wire::Trouble::kNone;
    if (!refused) {
      wire::Store(place.order, member.order);  // the program may have overwritten it
      wire::WakeAll(place.order);
      return;
    }
    ++member.order;
  }
  wire::Store(place.order, ++member.order);
  wire::WakeAll(place.order);
}

Result<> Ledgers::Order(JobId job, base::ProcessId process, bool out) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return Fail(ErrorCode::kNotFound, fmt::format("job {} has no ledger", job.value));
  Entry& entry = found->second;
  if (!entry.eviction.possible)
    return Fail(ErrorCode::kNotSupported, fmt::format("job {} was not started to be evicted", job.value));
  for (auto& [slot, member] : entry.seats) {
    if (member.process != process || !wire::SlotIsLocked(entry.page.descriptor(), slot)) continue;
    Tell(entry, slot, member, out);
    return {};
  }
  return Fail(ErrorCode::kNotFound,
              fmt::format("process {} does not count its memory in job {}", process.pid, job.value));
}

Result<unsigned> Ledgers::OrderAll(JobId job, bool out) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return Fail(ErrorCode::kNotFound, fmt::format("job {} has no ledger", job.value));
  Entry& entry = found->second;
  if (!entry.eviction.possible)
    return Fail(ErrorCode::kNotSupported, fmt::format("job {} was not started to be evicted", job.value));
  entry.out = out;
  unsigned told = 0;
  for (auto& [slot, member] : entry.seats) {
    if (!wire::SlotIsLocked(entry.page.descriptor(), slot)) continue;
    Tell(entry, slot, member, out);
    ++told;
  }
  return told;
}

std::vector<Standing> Ledgers::StandingsOf(JobId job) const {
  std::vector<Standing> standings;
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return standings;
  const Entry& entry = found->second;
  for (const auto& [slot, member] : entry.seats) {
    if (wire::SlotIsLocked(entry.page.descriptor(), slot))
      standings.push_back(Read(entry.page->slot[slot], member.process, member.order));
  }
  return standings;
}

base::Bytes Ledgers::HostMemoryOf(JobId job) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return {};
  return {wire::TotalOf(*found->second.page, wire::kHost)};
}

}  // namespace gpuman::ledger
