// Before anything of a job leaves the GPU all its processes come to rest: the work of one process may wait on
// the GPU for the next work of another.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "suspend/idle.h"
#include "suspend/state_machine.h"

namespace gpuman::suspend {

using base::ErrorCode;
using base::Fail;
using base::MonoTime;

// True: the state machine has to wait, or the phase has changed.
bool SuspensionStateMachine::AwaitRest(MonoTime now) {
  if (!IsStrict() || rested_) return false;
  if (!resting_) {
    bool any = false, unknown = false;
    for (const auto& [id, member] : members_) {
      // An earlier daemon had already begun to evict, or the share controller has closed all gates. One whose
      // memory is away may be on its way back, and works again when it has the order; but where the shims
      // fetch, no gate has opened yet.
      const bool refused = member.seen.eviction == EvictionProgress::kFailed ||
                           member.seen.eviction == EvictionProgress::kOnGpu;
      const bool returns = member.guessed && member.seen.eviction == EvictionProgress::kRestoring;
      const bool leaves =
          member.order == ProcessOrder::kEvict && !(member.seen.answered && refused) && !returns;
      const bool fetches = member.order == ProcessOrder::kFetch && !member.guessed;
      if (leaves || fetches || (IsAway(member) && !ComesBack(member))) rested_ = true;
      any = any || CanBeHeld(member);
      unknown = unknown || (member.seen.has_shim && member.saved == DriverState::kUnknown);
    }
    if (rested_) return false;
    // What an earlier daemon did has to be known first.
    if (unknown && (pending_ || AskUnknown(now))) return true;
    if (!any) return false;
    resting_ = true;
    const bool idle = record_.reason == kIdleReason;
    out_.push_back(action::QuiesceJob{idle ? std::min(settings_.lock_timeout, settings_.idle_patience)
                                           : settings_.lock_timeout});
  }
  // The order reaches all shims, also that of a process without a context.
  for (auto& [id, member] : members_) {
    if (!member.seen.has_shim || member.order == ProcessOrder::kHold) continue;
    member.order = ProcessOrder::kHold;
    member.ordered_at = now;
    member.seen.answered = false;
  }
  return true;
}

void SuspensionStateMachine::CancelQuiesce() {
  if (std::exchange(resting_, false)) out_.push_back(action::CancelQuiesce{});
}

// A shim has nothing to hold before its process has a context.
bool SuspensionStateMachine::CanBeHeld(const MemberProcess& member) const {
  if (!member.seen.has_shim || member.without_shim || member.seen.eviction == EvictionProgress::kNone)
    return false;
  return member.saved == DriverState::kRunning && (!pending_ || pending_->process != member.seen.id);
}

void SuspensionStateMachine::Handle(const event::JobQuiesced& rested, MonoTime) {
  if (!std::exchange(resting_, false)) return;
  rested_ = true;
  Spend("rest", rested.took);
  spent_["steps"] = rested.steps;
}

void SuspensionStateMachine::Handle(const event::QuiesceFailed& failed, MonoTime now) {
  if (!std::exchange(resting_, false)) return;
  Spend("rest", failed.took);
  spent_["steps"] = failed.steps;
  // Nor is it left to the driver where its shim is silent: its next call would wait where nobody sees it.
  if (record_.reason == kIdleReason) return TurnBack("", "it did not come to rest: " + failed.why, now);
  MemberProcess* const silent = OnlySilentOne();
  if (!silent || can_ == false || Shares(*silent)) {
    spent_["units"] = failed.units;
    spent_["working"] = failed.working;
    return TurnBack(record_.target ? "move_failed" : "suspend_failed",
                    fmt::format("the job did not come to rest: {}", failed.why), now);
  }
  // The driver can take all of the process's memory, only slower. The order is withdrawn, or the shim might
  // begin in the middle of the checkpoint. Processes that come later are held from the beginning.
  rested_ = true;
  silent->without_shim = true;
  Give(*silent, ProcessOrder::kRestore, now);
}

// The one process of the job that can be held, if its shim has not even taken up the order. Of several
// processes none is left to the driver: the others would be held while it runs.
MemberProcess* SuspensionStateMachine::OnlySilentOne() {
  MemberProcess* only = nullptr;
  for (auto& [id, member] : members_) {
    if (!CanBeHeld(member)) continue;
    if (only) return nullptr;
    only = &member;
  }
  const bool silent = only && !only->seen.answered && !only->seen.closing && !only->seen.stopped;
  return silent ? only : nullptr;
}

// The driver would not answer before the process continues.
bool SuspensionStateMachine::FailIfStopped(MemberProcess& member, MonoTime now) {
  if (!member.seen.stopped) return false;
  const bool out = phase() != SuspensionPhase::kResuming && phase() != SuspensionPhase::kUndoing;
  if (out)
    FailOut(member, WhyStopped(member), now);
  else
    FailBack(WhyStopped(member), Failure::kPassing, now);
  return true;
}

base::Result<> SuspensionStateMachine::NothingIsStopped() const {
  for (const auto& [id, member] : members_) {
    if (!member.seen.stopped) continue;
    return Fail(ErrorCode::kConflict, WhyStopped(member),
                fmt::format("let it go on first: kill -CONT {}", id.pid));
  }
  return {};
}

}  // namespace gpuman::suspend
