#include "daemon/sharing/job_demand.h"

#include <algorithm>

#include "daemon/shims/slot_state.h"

namespace gpuman::daemon {
namespace {

using ledger::wire::MemoryResidency;
using share::TenantActivity;

// Growth of the memory that cannot leave counts only when it has lasted this long. No allocation takes that
// long.
constexpr base::Millis kPinnedHolds{250};

TenantActivity ActivityOf(const ledger::SlotStatus& one) {
  using ledger::wire::Activity;
  if (one.activity == Activity::kAtGate || one.activity == Activity::kForRoom)
    return TenantActivity::kWaiting;
  if (one.activity == Activity::kBusy) return TenantActivity::kBusy;
  const bool idle = one.activity == Activity::kIdle || one.residency == MemoryResidency::kNone;
  return idle ? TenantActivity::kIdle : TenantActivity::kUnknown;
}

// The activity that decides of two.
TenantActivity Stronger(TenantActivity one, TenantActivity other) {
  for (const auto activity : {TenantActivity::kWaiting, TenantActivity::kBusy, TenantActivity::kUnknown})
    if (one == activity || other == activity) return activity;
  return TenantActivity::kIdle;
}

// Adds what one process has and wants. Returns the GPUs where it has memory that can leave.
std::vector<std::string> Add(share::MemoryDemands& demand, const ledger::SlotStatus& one,
                             const std::vector<std::string>& gpus, const UnreportedMemory& unreported) {
  std::vector<std::string> with_memory;
  std::map<std::string, base::Bytes> rest;  // neither evictable nor evicted
  for (const auto& held : one.held) rest[held.uuid] = held.used;
  base::Bytes managed = one.managed;
  for (const auto& home : HomesOf(one, gpus)) {
    const base::Bytes loaded = std::min(unreported.loaded({one.process, home.uuid}), home.evicted);
    share::MemoryDemand& part = demand[home.uuid];
    if ((home.evictable + home.evicted).count > 0) with_memory.push_back(home.uuid);
    (unreported.at_work.contains(one.process) ? part.pinned : part.resident) += home.evictable + loaded;
    part.away += home.evicted - loaded;
    part.wants += home.wants;
    base::Bytes& left = rest[home.uuid];
    left = left - home.evictable - home.evicted;
    const base::Bytes paged = std::min(managed, left);
    managed = managed - paged;
    left = left - paged;
    part.managed += paged;
  }
  for (const auto& [gpu, bytes] : rest) demand[gpu].pinned += bytes;
  return with_memory;
}

}  // namespace

share::MemoryDemands DemandOf(const std::vector<ledger::SlotStatus>& slots,
                              const std::vector<std::string>& gpus, const UnreportedMemory& unreported) {
  share::MemoryDemands demand;
  std::map<std::string, std::uint64_t> with_memory;  // processes
  for (const auto& one : slots)
    for (const auto& gpu : Add(demand, one, gpus, unreported)) ++with_memory[gpu];
  // The job has nothing yet: its only GPU is where it will be.
  if (demand.empty() && gpus.size() == 1) demand[gpus.front()];
  for (auto& [gpu, part] : demand) part.pinned += unreported.uncounted(gpu);
  // The driver shows less while memory moves, and does not show memory that came from a mover with its
  // process. But every process with memory has a context.
  for (const auto& [gpu, processes] : with_memory) {
    const base::Bytes contexts{unreported.context(gpu).count * processes};
    demand[gpu].pinned = std::max(demand[gpu].pinned, contexts);
  }
  return demand;
}

void PinnedMemoryFilter::Apply(share::MemoryDemands& demand, bool open, base::MonoTime now) {
  for (auto& [gpu, part] : demand) {
    Pinned& known = pinned_[gpu];
    if (!open || part.pinned <= known.bytes) {
      known = {part.pinned, {}, {}};
      continue;
    }
    known.least = known.since ? std::min(known.least, part.pinned) : part.pinned;
    if (!known.since) known.since = now;
    if (now >= *known.since + kPinnedHolds) known = {known.least, {}, {}};
    part.resident += part.pinned - known.bytes;
    part.pinned = known.bytes;
  }
}

JobActivity ActivityOf(const std::vector<ledger::SlotStatus>& slots) {
  JobActivity job;
  for (const auto& one : slots) {
    job.activity = Stronger(job.activity, ActivityOf(one));
    job.since = std::max(job.since, one.activity_since);
  }
  return job;
}

std::uint64_t CompletedCallCounter::Count(const std::vector<ledger::SlotStatus>& slots) {
  std::map<base::ProcessId, std::uint64_t> now;
  std::uint64_t completed = 0;
  for (const auto& one : slots) {
    now[one.process] = one.completed;
    const auto before = completed_.find(one.process);
    if (before != completed_.end() && one.completed > before->second)
      completed += one.completed - before->second;
  }
  completed_ = std::move(now);
  return completed;
}

}  // namespace gpuman::daemon
