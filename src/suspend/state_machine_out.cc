// The way off the GPU, also for new processes of a suspended job.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "suspend/idle.h"
#include "suspend/state_machine.h"

namespace gpuman::suspend {
namespace {

using base::Bytes;
using base::FormatBytes;
using base::FormatDuration;
using base::MonoTime;

constexpr const char* kSharesMemory = "its processes share memory (NCCL, CUDA IPC), which cannot leave";

// The memory of the process on this GPU by its shim's count, which is current; the driver's figure is from
// the last sample.
Bytes Counted(const GpuFootprint& share) {
  return share.evictable.count > 0 ? share.evictable + share.context : Bytes{};
}

}  // namespace

// The room that a process needs for its return is recorded before the process leaves, and not from a sample
// older than its allocations.
bool SuspensionStateMachine::AwaitSample(MonoTime now) {
  settling_ = phase() == SuspensionPhase::kSuspending && now < began_ + settings_.settle_limit &&
              std::any_of(members_.begin(), members_.end(), [this](const auto& one) {
                const MemberProcess& member = one.second;
                return !member.seen.figures_current && member.saved == DriverState::kRunning &&
                       member.order == ProcessOrder::kNone && !record_.held.contains(one.first);
              });
  return settling_;
}

void SuspensionStateMachine::GoOut(MonoTime now) {
  left_due_.reset();
  if (AwaitSample(now)) return;
  for (auto& [id, member] : members_) {
    if (member.left_until && !IsLeft(member, now)) {
      member.left_until.reset();
      member.losses = 0;
      member.without_shim = false;
      if (member.seen.eviction == EvictionProgress::kFailed) member.order = ProcessOrder::kNone;
    }
    // The process is on the GPU again: another program restored it, or it executed another program.
    if (phase() == SuspensionPhase::kSuspended && member.saved == DriverState::kCheckpointed &&
        now >= member.recheck_at && Sum(member.seen, &GpuFootprint::used) > kResidue) {
      member.saved = DriverState::kUnknown;
      member.recheck_at = now + settings_.retry;
    }
  }
  if (AwaitRest(now)) return;
  OrderEvictions(now);
  const bool securing = SecureAll(now);
  if (pending_ || AskUnknown(now) || AwaitShims(now) || RefuseToStay(now)) return;
  if (AwaitDriver(now) || CheckpointNext(now)) return;
  if (securing || AwaitFigures(now)) return;
  ArriveOut(now);
}

// The mover copies while the driver works.
bool SuspensionStateMachine::SecureAll(MonoTime now) {
  bool waiting = false;
  for (auto& [id, member] : members_) {
    const bool there = IsAway(member) && !IsShimAtWork(member) && !MayBegin(member) && !IsSecure(member);
    if (there && !member.moving && !member.outdated && !IsLeft(member, now)) AskMover(member, Verb::kSecure);
    waiting = waiting || member.moving || (there && member.outdated);
  }
  return waiting;
}

bool SuspensionStateMachine::IsSecure(const MemberProcess& member) const {
  const bool may_be_straight = GoesOn() && phase() != SuspensionPhase::kRetreating;
  return member.location == MemoryLocation::kHost ||
         (member.location == MemoryLocation::kStraight && may_be_straight);
}

bool SuspensionStateMachine::AskUnknown(MonoTime now) {
  const bool out = phase() != SuspensionPhase::kResuming && phase() != SuspensionPhase::kUndoing;
  const SuspensionPhase before = phase();
  for (auto& [id, member] : members_) {
    if (member.saved != DriverState::kUnknown || (out && (!IsOnGpu(member) || IsLeft(member, now)))) continue;
    if (FailIfStopped(member, now)) {
      if (phase() != before) return true;
      continue;
    }
    AskDriver(id, Verb::kState);
    return true;
  }
  return false;
}

bool SuspensionStateMachine::IsLeft(const MemberProcess& member, MonoTime now) const {
  // The process is tried again only when the job is in kSuspended: otherwise a way might never end.
  return member.left_until && (phase() != SuspensionPhase::kSuspended || now < *member.left_until);
}

bool SuspensionStateMachine::IsWorthEvicting(const MemberProcess& member) const {
  if (!member.seen.has_shim || member.without_shim || member.saved != DriverState::kRunning) return false;
  if (pending_ && pending_->process == member.seen.id) return false;
  // It cannot be left to the driver; so it waits behind its gate, also where it has nothing to give away.
  const bool only_shim = Shares(member) || AnyStays();
  if (only_shim && member.seen.eviction != EvictionProgress::kNone) return true;
  const Bytes worth = can_ == false || only_shim ? Bytes{0} : settings_.worth_evicting;
  return Sum(member.seen, &GpuFootprint::evictable) + Sum(member.seen, &GpuFootprint::evicted) > worth;
}

void SuspensionStateMachine::OrderEvictions(MonoTime now) {
  for (auto& [id, member] : members_) {
    if (member.order == ProcessOrder::kEvict || IsLeft(member, now) || !IsWorthEvicting(member)) continue;
    Hold(member);
    ReportNewcomer(member, now);
    Give(member, ProcessOrder::kEvict, now);
  }
}

void SuspensionStateMachine::Give(MemberProcess& member, ProcessOrder order, MonoTime now) {
  member.order = order;
  member.guessed = false;
  member.ordered_at = now;
  member.seen.answered = false;
  // What it fetches is on the GPU again, and what it evicts may be more than what the mover has.
  if (order == ProcessOrder::kFetch || order == ProcessOrder::kEvict)
    member.location = MemoryLocation::kUnknown;
  if (order == ProcessOrder::kEvict)
    out_.push_back(action::OrderEvict{member.seen.id});
  else if (order == ProcessOrder::kFetch)
    out_.push_back(action::OrderFetchToGpu{member.seen.id});
  else
    out_.push_back(action::OrderRestore{member.seen.id, RestoresHeld()});
}

bool SuspensionStateMachine::AwaitShims(MonoTime now) {
  bool waiting = false;
  const SuspensionPhase before = phase();
  for (auto& [id, member] : members_) {
    if (IsLeft(member, now)) continue;
    if (IsShimAtWork(member)) {
      waiting = true;
      if (now >= AtWorkSince(member) + settings_.evict_limit)
        FailOut(member,
                fmt::format("process {} did not give its memory back within {}: {} of it are in host memory",
                            id.pid, FormatDuration(settings_.evict_limit),
                            FormatBytes(Sum(member.seen, &GpuFootprint::evicted))),
                now);
    } else if (MayBegin(member)) {
      if (now < member.ordered_at + settings_.answer_limit) {
        waiting = true;
      } else if (can_ == false || Shares(member) || AnyStays() || record_.reason == kIdleReason) {
        FailOut(member, fmt::format("libgpuman.so in process {} does not answer", id.pid), now);
      } else {
        // The driver can take all of the process's memory, only slower. The order is withdrawn, or the shim
        // might begin in the middle of the checkpoint; but not where some memory is out already.
        member.without_shim = true;
        if (Sum(member.seen, &GpuFootprint::evicted).count == 0) Give(member, ProcessOrder::kRestore, now);
      }
    } else if (member.order == ProcessOrder::kEvict && member.seen.answered &&
               member.seen.eviction == EvictionProgress::kFailed) {
      FailOut(member, fmt::format("process {} could not be evicted: {}", id.pid, member.seen.error), now);
    }
    if (phase() != before) return true;
  }
  return waiting;
}

// A job whose processes share memory is not moved, and not suspended if it gives nothing away.
bool SuspensionStateMachine::RefuseToStay(MonoTime now) {
  if (!IsStrict() || !AnyStays()) return false;
  if (record_.target) {
    TurnBack("move_failed", fmt::format("the job cannot be moved: {}", kSharesMemory), now);
    return true;
  }
  const bool leaves = std::any_of(members_.begin(), members_.end(), [](const auto& one) {
    const MemberProcess& member = one.second;
    return IsAway(member) || member.saved == DriverState::kCheckpointed ||
           (!member.seen.has_shim && IsOnGpu(member));
  });
  if (leaves) return false;
  TurnBack("suspend_unsupported", fmt::format("nothing of the job can leave the GPU: {}", kSharesMemory),
           now);
  return true;
}

bool SuspensionStateMachine::AwaitDriver(MonoTime now) {
  const bool needed =
      std::any_of(members_.begin(), members_.end(), [](const auto& one) { return IsOnGpu(one.second); });
  if (can_ == true || !needed) return false;
  if (!can_) {
    if (IsStrict()) AskCan();
    return IsStrict() || can_asked_;
  }
  if (!IsStrict()) return false;
  const bool evicted = std::any_of(members_.begin(), members_.end(), [](const auto& one) {
    return Sum(one.second.seen, &GpuFootprint::evicted).count > 0;
  });
  if (record_.target) {
    TurnBack("move_failed", fmt::format("the job cannot be moved: {}", cannot_), now);
    return true;
  }
  if (evicted) return false;
  TurnBack("suspend_unsupported", fmt::format("nothing of the job can leave the GPU: {}", cannot_), now);
  return true;
}

bool SuspensionStateMachine::CheckpointNext(MonoTime now) {
  if (can_ == false) return false;
  const bool stays = AnyStays();
  MemberProcess* next = nullptr;
  for (auto& [id, member] : members_) {
    if (!IsOnGpu(member) || IsLeft(member, now) || IsShimAtWork(member)) continue;
    // The memory of a process that the driver restored might not be the one that the others have mapped.
    if (stays && member.seen.has_shim) continue;
    if (FailIfStopped(member, now)) {
      if (phase() == SuspensionPhase::kUndoing) return true;
      continue;
    }
    if (member.saved == DriverState::kBroken) {
      FailOut(member, fmt::format("the driver says that process {} failed", id.pid), now);
      if (phase() == SuspensionPhase::kUndoing) return true;
      continue;
    }
    if (member.seen.holds_imported) {
      FailOut(member,
              fmt::format(
                  "process {} has memory of another process on the GPU (CUDA IPC, NCCL), which the driver "
                  "saves and then cannot restore",
                  id.pid),
              now);
      if (phase() == SuspensionPhase::kUndoing) return true;
      continue;
    }
    const auto age = [](const base::ProcessId& one) { return std::pair(one.start_time, one.pid); };
    if (!next || age(id) > age(next->seen.id)) next = &member;
  }
  if (!next) return false;
  Hold(*next);
  ReportNewcomer(*next, now);
  if (record_.reason == kIdleReason && !IsBehindGate(*next)) record_.called = true;
  AskDriver(next->seen.id, Verb::kCheckpoint);
  return true;
}

// Figures that are newer than the last shim's answer say what stays, if they come in time.
bool SuspensionStateMachine::AwaitFigures(MonoTime now) {
  if (!IsStrict()) return false;
  for (const auto& [id, member] : members_) {
    const MonoTime due = member.answered_at + settings_.settle_limit;
    if (member.order != ProcessOrder::kEvict || member.saved == DriverState::kCheckpointed || now >= due)
      continue;
    for (const auto& [gpu, share] : member.seen.gpus)
      if (IsOld(member, gpu)) left_due_ = std::max(left_due_.value_or(due), due);
  }
  return left_due_.has_value();
}

void SuspensionStateMachine::ArriveOut(MonoTime now) {
  if (phase() == SuspensionPhase::kSuspended) {
    // Right after a restart the figures are not there yet, and the record is right.
    if (std::exchange(left_changed_, false))
      if (auto left = Left(); !left.empty() || !AnyStays()) record_.left = std::move(left);
    return;
  }
  const bool retreated = phase() == SuspensionPhase::kRetreating;
  const bool off = members_.empty() || std::any_of(members_.begin(), members_.end(), [](const auto& one) {
                     const MemberProcess& member = one.second;
                     const bool may_go = !MustCome(member) && !member.seen.answered &&
                                         member.seen.eviction != EvictionProgress::kNone;
                     return IsOff(member) || IsShimAtWork(member) || may_go;
                   });
  if (retreated && !off) {
    // No process could be taken off again: the job runs, whatever the request was.
    record_.phase = SuspensionPhase::kRunning;
    record_.held.clear();
    OpenGates(now);
    Want(Goal::kGpu);
    return SetState(turned_reason_, why_);
  }
  record_.phase = SuspensionPhase::kSuspended;
  counts_on_target_ = GoesOn();
  record_.left = Left();
  HoldWhatStays();
  left_changed_ = false;
  if (retreated) {
    const auto detail = fmt::format("{}; {}", why_, Whereabouts());
    return SetState(record_.wants_gpu ? "resources" : turned_reason_, detail);
  }
  const bool idle = record_.reason == kIdleReason;
  SetAway(GoesOn() ? "moving" : std::string(record_.reason),
          idle ? fmt::format("{}; {}", record_.detail, Whereabouts()) : Whereabouts());
  EmitWith(record_.left, "job_suspended", record_.detail, now);
  Bytes freed;
  for (const auto& [gpu, bytes] : AwayOf(record_)) freed += bytes;
  std::get<action::Emit>(out_.back()).data["freed"] = static_cast<std::int64_t>(freed.count);
}

// A shim whose gate was closed before its eviction failed keeps the gate closed. For a job that takes turns,
// the gate stays closed until the share controller opens it.
void SuspensionStateMachine::OpenGates(MonoTime now) {
  for (auto& [id, member] : members_) {
    const bool may_shut = member.order == ProcessOrder::kNone && !member.seen.answered;
    const bool ordered = member.order == ProcessOrder::kEvict || member.order == ProcessOrder::kHold ||
                         member.order == ProcessOrder::kFetch;
    const bool shut = ordered || member.seen.held;
    if ((shut || may_shut) && member.seen.has_shim) Give(member, ProcessOrder::kRestore, now);
    member.order = ProcessOrder::kNone;
  }
}

// Records the process's memory only once: later the process holds less, because some was taken.
void SuspensionStateMachine::Hold(MemberProcess& member) {
  const auto [held, fresh] = record_.held.try_emplace(member.seen.id);
  if (!fresh) return;
  for (const auto& [gpu, share] : member.seen.gpus) {
    const Bytes bytes = std::max(share.used, Counted(share)) + share.evicted;
    if (bytes.count > 0) held->second[gpu] = bytes;
  }
}

// Corrects the record for calls that were in flight when the suspension was asked for: the driver lets these
// calls end before it takes any memory. The shim's last count stays correct, since its process does not run
// any more.
void SuspensionStateMachine::HoldWhatCameLast(const MemberProcess& member) {
  const auto held = record_.held.find(member.seen.id);
  if (held == record_.held.end() ||
      (member.order != ProcessOrder::kNone && member.order != ProcessOrder::kHold))
    return;
  const bool goes = pending_ && pending_->process == member.seen.id && pending_->verb == Verb::kCheckpoint;
  if (!goes && member.saved != DriverState::kCheckpointed) return;
  for (const auto& [gpu, share] : member.seen.gpus) {
    const auto known = held->second.find(gpu);
    const Bytes bytes = goes ? std::max(share.used, Counted(share)) : Counted(share);
    if (share.evicted.count > 0 || bytes.count == 0 || (!goes && known == held->second.end())) continue;
    held->second[gpu] = std::max(bytes, held->second[gpu]);
  }
}

// The figure from before the eviction may be older than the last allocation. So the process held at least
// what is left and what it gave away.
void SuspensionStateMachine::HoldWhatStays() {
  for (const auto& [id, member] : members_) {
    const auto held = record_.held.find(id);
    if (held == record_.held.end() || !IsAway(member)) continue;
    for (const auto& [gpu, left] : LeftOf(member)) {
      const Bytes whole = left + member.seen.gpus.at(gpu).evicted;
      held->second[gpu] = std::max(whole, held->second[gpu]);
    }
  }
}

void SuspensionStateMachine::ReportNewcomer(MemberProcess& member, MonoTime now) {
  if (phase() != SuspensionPhase::kSuspended || std::exchange(member.reported, true)) return;
  Emit("suspended_process_taken",
       fmt::format("process {} of the suspended job came to the GPU with {}; it is taken off as well",
                   member.seen.id.pid, FormatBytes(Sum(member.seen, &GpuFootprint::used))),
       now);
}

void SuspensionStateMachine::FailOut(MemberProcess& member, const std::string& why, MonoTime now) {
  if (IsStrict()) return TurnBack(record_.target ? "move_failed" : "suspend_failed", why, now);
  if (record_.reason == kIdleReason) record_.called = true;  // it works
  member.left_until = now + settings_.retry;
  if (std::exchange(member.reported, true)) return;
  Emit("process_not_suspended", why, now);
}

void SuspensionStateMachine::TurnBack(std::string reason, std::string why, MonoTime now) {
  turned_reason_ = std::move(reason);
  why_ = std::move(why);
  auto figures = FiguresWithSpent(now);  // of the way that ends here
  Want(Goal::kGpu);
  Begin(SuspensionPhase::kUndoing, now);
  SetState(turned_reason_.empty() ? "resuming" : turned_reason_, why_);
  if (!turned_reason_.empty()) out_.push_back(action::Emit{turned_reason_, why_, std::move(figures)});
}

}  // namespace gpuman::suspend
