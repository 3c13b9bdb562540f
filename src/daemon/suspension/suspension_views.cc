#include "daemon/suspension/suspension_views.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuman::daemon {
namespace {

suspend::Stage StageOf(const ledger::Standing& standing) {
  using ledger::wire::Stage;
  if (standing.answered && standing.trouble != ledger::wire::Trouble::kNone) return suspend::Stage::kFailed;
  switch (standing.stage) {
    case Stage::kNone:
      return suspend::Stage::kNone;
    case Stage::kOnGpu:
    case Stage::kHeld:
      return suspend::Stage::kOnGpu;
    case Stage::kEvicting:
      // Its gate is being shut for somebody's turn, or a part of it taken: that is no suspend.
      return standing.ordered == ledger::wire::What::kLeave ? suspend::Stage::kEvicting
                                                            : suspend::Stage::kOnGpu;
    case Stage::kEvicted:
      return suspend::Stage::kEvicted;
    case Stage::kRestoring:
      return suspend::Stage::kRestoring;
    case Stage::kFailed:
      return suspend::Stage::kFailed;
  }
  return suspend::Stage::kNone;
}

// The GPU that a shim's figures are about: one, and where its process sees several it says which.
std::string GpuOf(const suspend::ProcessView& view, const ledger::Standing& standing,
                  const suspend::BytesByGpu* held, const std::vector<std::string>& only) {
  if (!standing.home.empty()) return standing.home;
  const suspend::GpuShare* most = nullptr;
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

std::string TextOf(const ledger::Standing& standing) {
  using ledger::wire::Trouble;
  switch (standing.trouble) {
    case Trouble::kNone:
      return {};
    case Trouble::kBudget:
      return "its data is more than its job may keep in the host's memory";
    case Trouble::kHostMemory:
      return "the machine has too little memory available for its data";
    case Trouble::kBusy:
      return "its GPU work did not come to an end in time";
    case Trouble::kCapturing:
      return "it was recording a CUDA graph all the time";
    case Trouble::kNoRoom:
      return "its GPU has no room for it to come back";
    case Trouble::kDriver:
      return fmt::format("the driver failed with CUDA error {}", standing.driver_error);
    case Trouble::kNoMover:
      return "the process that copies its memory was not there, or ended";
    case Trouble::kDescriptors:
      return "its process may not keep as many descriptors as its memory needs";
  }
  return "unknown trouble";
}

std::vector<suspend::ProcessView> SuspensionView(
    base::JobId job, const std::map<std::string, guard::GpuStatus>& gpus,
    const std::vector<ledger::Standing>& standings,
    const std::map<base::ProcessId, suspend::BytesByGpu>& held, const std::vector<std::string>& only,
    const std::function<base::Bytes(const std::string&)>& context_cost) {
  std::map<base::ProcessId, suspend::ProcessView> views;
  const auto view_of = [&](const base::ProcessId& process) -> suspend::ProcessView& {
    auto& view = views[process];
    view.id = process;
    return view;
  };
  for (const auto& [uuid, status] : gpus) {
    for (const auto& process : status.processes) {
      if (process.job == job && process.id.start_time != 0)
        view_of(process.id).gpus[uuid].used = process.memory.value_or(base::Bytes{});
    }
  }
  for (const auto& [process, bytes] : held) view_of(process);
  for (const auto& standing : standings) {
    auto& view = view_of(standing.process);
    view.has_shim = true;
    view.stage = StageOf(standing);
    view.answered = standing.answered;
    view.held = standing.stage == ledger::wire::Stage::kHeld && standing.answered &&
                standing.trouble == ledger::wire::Trouble::kNone;
    view.closing = standing.stage == ledger::wire::Stage::kEvicting && view.stage == suspend::Stage::kOnGpu;
    view.holds_imported = standing.holds_imported;
    view.managed = standing.managed;
    view.error = TextOf(standing);
    const auto before = held.find(standing.process);
    const auto uuid = GpuOf(view, standing, before == held.end() ? nullptr : &before->second, only);
    if (uuid.empty() || (standing.evictable.count == 0 && standing.evicted.count == 0)) continue;
    // What the process says of itself is no more than there is.
    const auto status = gpus.find(uuid);
    const bool known = status != gpus.end() && status->second.sample.memory;
    const base::Bytes most = known ? status->second.sample.memory->total : base::Bytes{UINT64_MAX};
    view.gpus[uuid].evictable = std::min(standing.evictable, most);
    view.gpus[uuid].evicted = std::min(standing.evicted, most);
    auto& share = view.gpus[uuid];
    share.context = context_cost(uuid);
    view.settled = share.used >= standing.evictable || share.context.count > 0;
  }
  std::vector<suspend::ProcessView> list;
  for (auto& [process, view] : views) list.push_back(std::move(view));
  return list;
}

guard::Place PlaceOf(suspend::Phase phase) {
  using suspend::Phase;
  switch (phase) {
    case Phase::kSuspending:
    case Phase::kRetreating:
      return guard::Place::kLeaving;
    case Phase::kSuspended:
      return guard::Place::kOff;
    case Phase::kResuming:
    case Phase::kUndoing:
      return guard::Place::kReturning;
    case Phase::kRunning:
    case Phase::kEnded:
      break;
  }
  return guard::Place::kOnGpu;
}

void ShowSuspension(const suspend::Record& record, api::JobView& view) {
  if (view.state != api::JobState::kRunning) return;
  if (suspend::JobStateOf(record.phase) == "suspended") {
    view.state = api::JobState::kSuspended;
    base::Bytes host{};
    for (const auto& [process, gpus] : record.held)
      for (const auto& [uuid, bytes] : gpus) host += bytes;
    view.memory.host = host;
  }
  if (!record.reason.empty()) view.reason = record.reason;
  if (!record.detail.empty()) view.reason_detail = record.detail;
}

}  // namespace gpuman::daemon
