// Before anything of a job leaves the GPU all its processes come to rest: the work of one process may wait on
// the GPU for the next work of another.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "suspend/state_machine.h"

namespace gpuman::suspend {

using base::ErrorCode;
using base::Fail;
using base::MonoTime;

// True: the state machine has to wait, or the phase has changed.
bool SuspensionStateMachine::AwaitRest(MonoTime now) {
  if (!IsStrict() || rested_) return false;
  int worth = 0;
  for (const auto& [id, member] : members_) {
    // An earlier daemon had already begun to evict, or the share controller has closed all gates.
    if (member.order == Order::kEvict || IsAway(member)) rested_ = true;
    if (!IsLeft(member, now) && (IsWorthEvicting(member) || member.order == Order::kHold)) ++worth;
  }
  if (rested_ || worth < 2) return false;
  bool waiting = false;
  for (auto& [id, member] : members_) {
    if (!IsLeft(member, now) && IsWorthEvicting(member)) LookAtRest(member, waiting, now);
    if (!IsStrict()) return true;
  }
  rested_ = !waiting;
  return waiting;
}

void SuspensionStateMachine::LookAtRest(Member& member, bool& waiting, MonoTime now) {
  const base::ProcessId process = member.seen.id;
  const auto fail = [&](const std::string& why) {
    FailOut(member, fmt::format("process {} did not come to rest: {}", process.pid, why), now);
  };
  if (member.order != Order::kHold) {
    Give(member, Order::kHold, now);
    waiting = true;
  } else if (member.seen.answered) {
    if (!member.seen.held) fail(member.seen.error.empty() ? "it runs on" : member.seen.error);
  } else if (now < RestLimit(member)) {
    waiting = true;
  } else if (member.seen.closing) {
    fail("its calls or its GPU work did not come to an end in time");
  } else if (can_ == false || member.seen.holds_imported) {
    fail(fmt::format("libgpuman.so in process {} does not answer", process.pid));
  } else {
    // The driver can take all of the process's memory, only slower. The order is withdrawn, or the shim might
    // begin in the middle of the checkpoint.
    member.without_shim = true;
    Give(member, Order::kReturn, now);
  }
}

bool SuspensionStateMachine::IsAwaitedToRest(const Member& member) {
  return member.order == Order::kHold && !member.seen.answered;
}

// A shim that has taken up the order gives up by itself; this limit is for a shim that does not.
MonoTime SuspensionStateMachine::RestLimit(const Member& member) const {
  const base::Millis at_work = member.seen.closing ? settings_.lock_timeout : base::Millis(0);
  return member.ordered_at + settings_.answer_limit + at_work;
}

std::string SuspensionStateMachine::WhyStopped(const Member& member) {
  return fmt::format("process {} is stopped (by a signal or a debugger), and the driver waits for it",
                     member.seen.id.pid);
}

// The driver would not answer before the process continues.
bool SuspensionStateMachine::FailIfStopped(Member& member, MonoTime now) {
  if (!member.seen.stopped) return false;
  const bool out = phase() != SuspensionPhase::kResuming && phase() != SuspensionPhase::kUndoing;
  if (out)
    FailOut(member, WhyStopped(member), now);
  else
    FailBack(WhyStopped(member), true, now);
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
