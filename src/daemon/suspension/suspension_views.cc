#include "daemon/suspension/suspension_views.h"

#include <algorithm>

#include "daemon/shims/slot_text.h"

namespace gpuman::daemon {
namespace {

suspend::EvictionProgress EvictionOf(const ledger::SlotStatus& slot) {
  using ledger::wire::MemoryResidency;
  if (slot.answered && slot.error != ledger::wire::OrderError::kNone)
    return suspend::EvictionProgress::kFailed;
  switch (slot.residency) {
    case MemoryResidency::kNone:
      return suspend::EvictionProgress::kNone;
    case MemoryResidency::kOnGpu:
    case MemoryResidency::kHeld:
      return suspend::EvictionProgress::kOnGpu;
    case MemoryResidency::kEvicting:
      // The gate is being shut for another job's turn, or a part of the memory is taken. Neither is a
      // suspension.
      return slot.ordered == ledger::wire::OrderKind::kLeave ? suspend::EvictionProgress::kEvicting
                                                             : suspend::EvictionProgress::kOnGpu;
    case MemoryResidency::kEvicted:
      return suspend::EvictionProgress::kEvicted;
    case MemoryResidency::kRestoring:
      return suspend::EvictionProgress::kRestoring;
    case MemoryResidency::kFailed:
      return suspend::EvictionProgress::kFailed;
  }
  return suspend::EvictionProgress::kNone;
}

// The GPU of a home that its shim does not name: the process sees only one.
std::string OnlyGpuOf(const suspend::ObservedProcess& view, const suspend::BytesByGpu* held,
                      const std::vector<std::string>& only) {
  const suspend::GpuFootprint* most = nullptr;
  std::string uuid;
  for (const auto& [gpu, share] : view.gpus) {
    if (most != nullptr && share.used <= most->used) continue;
    most = &share;
    uuid = gpu;
  }
  if (!uuid.empty()) return uuid;
  if (held != nullptr && !held->empty()) return held->begin()->first;
  return only.empty() ? std::string() : only.front();
}

}  // namespace

std::vector<suspend::ObservedProcess> SuspensionView(
    base::JobId job, const std::map<std::string, guard::GpuStatus>& gpus,
    const std::vector<ledger::SlotStatus>& slots, const std::map<base::ProcessId, suspend::BytesByGpu>& held,
    const std::vector<std::string>& only,
    const std::function<base::Bytes(const std::string&)>& context_cost) {
  std::map<base::ProcessId, suspend::ObservedProcess> views;
  const auto view_of = [&](const base::ProcessId& process) -> suspend::ObservedProcess& {
    auto& view = views[process];
    view.id = process;
    return view;
  };
  for (const auto& [uuid, status] : gpus) {
    for (const auto& process : status.processes) {
      if (process.job != job || process.id.start_time == 0) continue;
      auto& share = view_of(process.id).gpus[uuid];
      share.used = process.memory.value_or(base::Bytes{});
      share.sampled_at = status.sample.taken_at;
    }
  }
  for (const auto& [process, bytes] : held) view_of(process);
  for (const auto& slot : slots) {
    auto& view = view_of(slot.process);
    view.has_shim = true;
    view.eviction = EvictionOf(slot);
    view.answered = slot.answered;
    view.silent = !slot.answered && !slot.notifies;
    view.held = slot.residency == ledger::wire::MemoryResidency::kHeld && slot.answered &&
                slot.error == ledger::wire::OrderError::kNone;
    view.closing = slot.residency == ledger::wire::MemoryResidency::kEvicting &&
                   view.eviction == suspend::EvictionProgress::kOnGpu;
    view.holds_imported = slot.holds_imported;
    view.shares = slot.shares;
    view.fetches = slot.fetches;
    view.managed = slot.managed;
    view.error = TextOf(slot);
    const auto before = held.find(slot.process);
    for (const auto& home : slot.homes) {
      if (home.evictable.count == 0 && home.evicted.count == 0) continue;
      const auto* const known_before = before == held.end() ? nullptr : &before->second;
      const auto uuid = !home.uuid.empty() ? home.uuid : OnlyGpuOf(view, known_before, only);
      if (uuid.empty()) continue;
      // A process's own figures are not believed beyond the size of the GPU.
      const auto status = gpus.find(uuid);
      const bool known = status != gpus.end() && status->second.sample.memory;
      const base::Bytes most = known ? status->second.sample.memory->total : base::Bytes{UINT64_MAX};
      auto& share = view.gpus[uuid];
      share.evictable = std::min(home.evictable, most);
      share.evicted = std::min(home.evicted, most);
      share.context = context_cost(uuid);
      view.figures_current =
          view.figures_current && (share.used >= home.evictable || share.context.count > 0);
    }
  }
  std::vector<suspend::ObservedProcess> list;
  list.reserve(views.size());
  for (auto& [process, view] : views) list.push_back(std::move(view));
  return list;
}

guard::JobResidency ResidencyOf(suspend::SuspensionPhase phase) {
  using suspend::SuspensionPhase;
  switch (phase) {
    case SuspensionPhase::kSuspending:
    case SuspensionPhase::kRetreating:
      return guard::JobResidency::kLeaving;
    case SuspensionPhase::kSuspended:
      return guard::JobResidency::kOff;
    case SuspensionPhase::kResuming:
    case SuspensionPhase::kUndoing:
      return guard::JobResidency::kRestoring;
    case SuspensionPhase::kRunning:
    case SuspensionPhase::kEnded:
      break;
  }
  return guard::JobResidency::kOnGpu;
}

void ShowSuspension(const suspend::SuspensionRecord& record, api::JobView& view) {
  if (view.state != spec::JobState::kRunning) return;
  if (suspend::IsSuspended(record.phase)) {
    view.state = spec::JobState::kSuspended;
    base::Bytes host{};
    for (const auto& [uuid, bytes] : suspend::AwayOf(record)) host += bytes;
    view.memory.host = host;
    view.memory.left = record.left;
  }
  if (!record.reason.empty()) view.reason = record.reason;
  if (!record.detail.empty()) view.reason_detail = record.detail;
}

}  // namespace gpuman::daemon
