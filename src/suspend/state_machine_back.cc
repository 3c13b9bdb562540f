// The way back to the GPU.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "suspend/state_machine.h"

namespace gpuman::suspend {

using base::FormatBytes;
using base::FormatDuration;
using base::MonoTime;

void SuspensionStateMachine::GoBack(MonoTime now) {
  LoadAll();
  if (pending_ || AskUnknown(now) || TurnBackToMove(now) || RestoreNext(now)) return;
  if (Fetches() && RestoreMemory(ProcessOrder::kFetch, now)) return;
  if (RestoreMemory(ProcessOrder::kRestore, now)) return;
  ArriveBack(now);
}

// A job that has not left needs no turn to come back.
bool SuspensionStateMachine::RestoresHeld() const {
  if (!settings_.restores_held || record_.target) return false;
  return phase() != SuspensionPhase::kUndoing ||
         std::any_of(members_.begin(), members_.end(),
                     [](const auto& one) { return IsAway(one.second) || IsShimAtWork(one.second); });
}

// The shims take the memory while the mover copies it, and no gate opens before all processes have theirs:
// the driver has to restore none of them, and the mover has nothing of theirs on a GPU.
bool SuspensionStateMachine::Fetches() const {
  if (RestoresHeld() || record_.target) return false;
  const auto is_fetching = [](const auto& one) { return one.second.order == ProcessOrder::kFetch; };
  if (std::any_of(members_.begin(), members_.end(), is_fetching)) return true;
  return AnyStays() && std::all_of(members_.begin(), members_.end(), [](const auto& one) {
           const MemberProcess& member = one.second;
           const bool runs = member.saved == DriverState::kRunning || member.saved == DriverState::kUnknown;
           const bool loads = member.moving || member.location == MemoryLocation::kGpu;
           return runs && !loads && (member.seen.fetches || !member.seen.has_shim);
         });
}

bool SuspensionStateMachine::IsReadyToRestore(const MemberProcess& member) const {
  return !member.moving && (!IsAway(member) || member.location == MemoryLocation::kGpu || RestoresHeld());
}

// The mover loads while the driver works.
void SuspensionStateMachine::LoadAll() {
  if (RestoresHeld()) return;
  const bool fetch = Fetches();
  for (auto& [id, member] : members_) {
    const bool fetches =
        (member.order == ProcessOrder::kRestore && member.location == MemoryLocation::kGpu) ||
        (fetch && member.seen.fetches);
    if (IsAway(member) && !IsShimAtWork(member) && !member.moving && !member.outdated && !fetches &&
        member.location != MemoryLocation::kGpu)
      AskMover(member, Verb::kLoad);
  }
}

bool SuspensionStateMachine::RestoreNext(MonoTime now) {
  MemberProcess* next = nullptr;
  for (auto& [id, member] : members_) {
    if (member.saved == DriverState::kBroken) {
      FailBack(fmt::format("the driver says that process {} failed", id.pid), Failure::kLasting, now);
      return true;
    }
    if (member.saved != DriverState::kCheckpointed && member.saved != DriverState::kLocked) continue;
    if (FailIfStopped(member, now)) return true;
    const auto age = [](const base::ProcessId& one) { return std::pair(one.start_time, one.pid); };
    if (!next || age(id) < age(next->seen.id)) next = &member;
  }
  if (!next) return false;
  pending_moves_ =
      next->saved == DriverState::kCheckpointed ? MovesFor(next->seen.id) : std::vector<GpuMove>{};
  AskDriver(next->seen.id, Verb::kRestore);
  return true;
}

// A process that could not be taken off its GPU after a failed way back is still there: before the job can
// come to another GPU, it has to leave.
bool SuspensionStateMachine::TurnBackToMove(MonoTime now) {
  if (phase() != SuspensionPhase::kResuming) return false;
  for (const auto& [id, member] : members_) {
    const bool here = member.saved == DriverState::kRunning || member.saved == DriverState::kLocked;
    if (!here || member.no_cuda || MovesFor(id).empty()) continue;
    FailBack(fmt::format("process {} is still on GPU {}, and leaves it first", id.pid,
                         NameOf(record_.held.at(id).begin()->first)),
             Failure::kPassing, now);
    return true;
  }
  return false;
}

// Every GPU of the machine, with source and target exchanged, as the driver requires.
std::vector<GpuMove> SuspensionStateMachine::MovesFor(const base::ProcessId& process) const {
  const auto held = record_.held.find(process);
  if (!record_.target || held == record_.held.end() || held->second.size() != 1) return {};
  const std::string& source = held->second.begin()->first;
  const std::string& target = *record_.target;
  if (source == target) return {};
  std::vector<GpuMove> moves;
  for (const ObservedGpu& gpu : gpus_)
    moves.push_back({gpu.uuid, gpu.uuid == source ? target : gpu.uuid == target ? source : gpu.uuid});
  return moves;
}

void SuspensionStateMachine::Moved(MemberProcess& member, const std::vector<GpuMove>& moves, MonoTime now) {
  const auto held = record_.held.find(member.seen.id);
  if (held == record_.held.end() || moves.empty()) return;
  BytesByGpu there;
  for (const auto& [gpu, bytes] : held->second) {
    const auto move = std::find_if(moves.begin(), moves.end(),
                                   [&from = gpu](const GpuMove& one) { return one.from == from; });
    there[move == moves.end() ? gpu : move->to] += bytes;
  }
  const auto from = held->second.begin()->first;
  held->second = std::move(there);
  if (held->second.size() != 1) return;
  const auto to = held->second.begin()->first;
  member.arrived = GpuMove{from, to};
  member.arrived_at = now;
  CorrectLocation(member, now, settings_.retry);
  out_.push_back(action::Moved{to});
}

void SuspensionStateMachine::NoteRestored(MemberProcess& member, MonoTime now) const {
  const auto held = record_.held.find(member.seen.id);
  if (held == record_.held.end()) return;
  member.restored = held->second;
  member.restored_at = now;
  ShowRestored(member);
}

void SuspensionStateMachine::FindWhere(MemberProcess& member, MonoTime now) {
  auto moves = std::exchange(member.lost_moves, {});
  const auto is_on = [&](const std::string& gpu) {
    const auto share = member.seen.gpus.find(gpu);
    return share != member.seen.gpus.end() && share->second.used.count > 0;
  };
  // An earlier daemon ordered the restore: the driver shows where the process is.
  if (moves.empty()) {
    moves = MovesFor(member.seen.id);
    if (moves.empty() || !is_on(*record_.target) || is_on(record_.held.at(member.seen.id).begin()->first))
      return;
  }
  Moved(member, moves, now);
}

bool SuspensionStateMachine::IsPartlyMoved() const {
  if (!record_.target) return false;
  const bool moves = pending_ && pending_->verb == Verb::kRestore && !pending_moves_.empty();
  return moves ||
         std::any_of(members_.begin(), members_.end(),
                     [](const auto& one) { return !one.second.lost_moves.empty(); }) ||
         std::any_of(record_.held.begin(), record_.held.end(),
                     [this](const auto& held) { return held.second.contains(*record_.target); });
}

void SuspensionStateMachine::DropTarget() {
  if (!record_.target || IsPartlyMoved()) return;
  record_.target.reset();
  if (!std::exchange(counts_on_target_, false)) return;
  if (auto source = OnlyGpu()) out_.push_back(action::Moved{*std::move(source)});
}

// Gives the order to each process that is out. True: the state machine has to wait, or the phase has changed.
bool SuspensionStateMachine::RestoreMemory(ProcessOrder order, MonoTime now) {
  // Processes that share memory wait for each other on the GPU: none runs before all can.
  const bool fetches = order == ProcessOrder::kFetch;
  const bool all_ready = fetches || std::all_of(members_.begin(), members_.end(), [this](const auto& one) {
                           return IsReadyToRestore(one.second);
                         });
  const bool not_yet = !all_ready && AnyShares();
  bool waiting = false;
  for (auto& [id, member] : members_) {
    if (fetches && !member.seen.fetches) continue;
    const base::Bytes evicted = Sum(member.seen, &GpuFootprint::evicted);
    if (member.moving) {
      waiting = true;
      continue;
    }
    // This includes an order of an earlier daemon that the shim has not answered yet.
    const bool may_be_out = member.order == ProcessOrder::kNone &&
                            (evicted.count > 0 || !member.seen.answered || member.seen.held);
    const bool ready = fetches || IsReadyToRestore(member);
    const bool is_out = member.order == ProcessOrder::kEvict || member.order == ProcessOrder::kHold ||
                        (!fetches && member.order == ProcessOrder::kFetch);
    if (ready && !not_yet && (is_out || may_be_out)) Give(member, order, now);
    if (member.seen.eviction == EvictionProgress::kNone && evicted.count == 0)
      continue;  // nobody is there to answer
    if (IsShimAtWork(member)) {
      waiting = true;
      if (now < AtWorkSince(member) + settings_.restore_limit) continue;
      FailBack(fmt::format("process {} did not take its memory back within {}: {} are in host memory", id.pid,
                           FormatDuration(settings_.restore_limit), FormatBytes(evicted)),
               Failure::kPassing, now);
      return true;
    }
    waiting = waiting || !ready || not_yet;
    if (!ready || !MustCome(member)) continue;
    if (!member.seen.answered) {
      if (now < member.ordered_at + settings_.answer_limit) {
        waiting = true;
        continue;
      }
      member.without_shim = true;
      if (evicted.count == 0) continue;  // the shim has nothing to bring back, and must not begin to evict
      FailBack(fmt::format("libgpuman.so in process {} does not answer, which holds {} in host memory",
                           id.pid, FormatBytes(evicted)),
               Failure::kPassing, now);
      return true;
    }
    if (evicted.count == 0 || RestoresHeld()) continue;
    FailBack(
        fmt::format("process {} could not take {} back: {}", id.pid, FormatBytes(evicted), member.seen.error),
        Failure::kPassing, now);
    return true;
  }
  return waiting;
}

void SuspensionStateMachine::ArriveBack(MonoTime now) {
  const bool undone = phase() == SuspensionPhase::kUndoing;
  const bool moved = std::exchange(record_.target, std::nullopt).has_value();
  counts_on_target_ = false;
  const BytesByGpu left = std::exchange(record_.left, {});
  record_.phase = SuspensionPhase::kRunning;
  record_.held.clear();
  Want(Goal::kGpu);
  for (auto& [id, member] : members_) member.order = ProcessOrder::kNone;
  if (undone) {
    SetState(turned_reason_, turned_reason_.empty() ? "" : why_);
  } else {
    SetState("", "");
    EmitWith(left, moved ? "job_moved" : "job_resumed", "the job is back on its GPU", now);
  }
}

void SuspensionStateMachine::FailBack(const std::string& why, Failure failure, MonoTime now) {
  const bool again = failure == Failure::kPassing && retries_ < settings_.retries;
  ++retries_;
  turned_reason_ = record_.target ? "move_failed" : "resume_failed";
  why_ = why;
  record_.wants_gpu = again;
  if (!again) DropTarget();
  not_before_ = now + settings_.retry;
  Begin(SuspensionPhase::kRetreating, now);
  SetState(turned_reason_, why_);
  Emit(turned_reason_.c_str(), why_, now);
}

}  // namespace gpuman::suspend
