// The state machine's events: what each means in each phase.
#include "suspend/state_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuman::suspend {

using base::MonoTime;

namespace {

// Lost data also give kNothing: after so many of these answers in a row the step fails.
constexpr int kFruitlessAttempts = 20;

}  // namespace

SuspensionStateMachine SuspensionStateMachine::Rebuild(SuspensionSettings settings, SuspensionRecord record) {
  SuspensionStateMachine machine(settings);
  machine.record_ = std::move(record);
  machine.rebuilt_ = true;
  machine.counts_on_target_ = machine.record_.target && IsSuspended(machine.phase());
  if (machine.phase() == SuspensionPhase::kUndoing) machine.turned_reason_ = "suspend_failed";
  if (machine.phase() == SuspensionPhase::kRetreating) machine.turned_reason_ = "resume_failed";
  machine.why_ = machine.record_.detail;
  return machine;
}

Actions SuspensionStateMachine::On(const Event& event, MonoTime now) {
  out_.clear();
  if (phase() == SuspensionPhase::kEnded) return {};
  std::visit([&](const auto& one) { Handle(one, now); }, event);
  Advance(now);
  return std::exchange(out_, {});
}

void SuspensionStateMachine::Advance(MonoTime now) {
  if (rebuilt_) return;  // the processes are not known yet
  for (std::optional<SuspensionPhase> before; before != phase();) {
    before = phase();
    switch (phase()) {
      case SuspensionPhase::kSuspending:
      case SuspensionPhase::kRetreating:
      case SuspensionPhase::kSuspended:  // new processes may have to be taken off
        GoOut(now);
        break;
      case SuspensionPhase::kResuming:
      case SuspensionPhase::kUndoing:
        GoBack(now);
        break;
      case SuspensionPhase::kRunning:
      case SuspensionPhase::kEnded:
        return;
    }
  }
}

// Begins a new way: forgets the failures of the last way.
void SuspensionStateMachine::Begin(SuspensionPhase phase, MonoTime now) {
  CancelQuiesce();
  record_.phase = phase;
  if (phase == SuspensionPhase::kSuspending) record_.left.clear();
  record_.called = false;
  began_ = now;
  rested_ = false;
  left_due_.reset();
  spent_.clear();
  for (auto& [id, member] : members_) {
    member.losses = 0;
    member.nothing_found = 0;
    member.without_shim = false;
    if (phase != SuspensionPhase::kRetreating) member.left_until.reset();
  }
}

void SuspensionStateMachine::Want(Goal goal, std::optional<std::string> target) {
  record_.wants_gpu = goal == Goal::kGpu;
  if (target) {
    record_.target = std::move(target);
    counts_on_target_ = counts_on_target_ || IsSuspended(phase());
  } else {
    DropTarget();
  }
  record_.absence.reset();
  retries_ = 0;
  not_before_ = {};
  room_reported_at_.reset();
}

void SuspensionStateMachine::Handle(const event::SuspendAsked& asked, MonoTime now) {
  const bool away = phase() == SuspensionPhase::kSuspending || phase() == SuspensionPhase::kSuspended ||
                    phase() == SuspensionPhase::kRetreating;
  if (asked.room_lasts && away) return;  // the earlier request stays in force
  Want(asked.room_lasts ? Goal::kGpu : Goal::kHost);
  if (asked.room_lasts) record_.absence = {asked.reason, asked.detail, *asked.room_lasts};
  switch (phase()) {
    case SuspensionPhase::kRunning:
      if (const auto can = CanSuspend(); !can) {
        Want(Goal::kGpu);
        SetState("suspend_unsupported", can.error().message);
        return Emit("suspend_refused", can.error().message, now);
      }
      record_.held.clear();
      [[fallthrough]];
    case SuspensionPhase::kResuming:
    case SuspensionPhase::kUndoing:
      Begin(SuspensionPhase::kSuspending, now);
      if (asked.idle) spent_["milliseconds_idle"] = asked.idle->count();
      SetState(asked.reason, asked.detail);
      return AskCan();
    case SuspensionPhase::kSuspending:
    case SuspensionPhase::kSuspended:
    case SuspensionPhase::kRetreating:
      turned_reason_ = asked.reason;
      return SetState(asked.reason, phase() == SuspensionPhase::kSuspended ? Whereabouts() : asked.detail);
    case SuspensionPhase::kEnded:
      return;
  }
}

void SuspensionStateMachine::Handle(const event::ResumeAsked& asked, MonoTime now) {
  if (const auto can = CanResume(asked.gpu); !can) return Emit("resume_refused", can.error().message, now);
  switch (phase()) {
    case SuspensionPhase::kSuspending:
      // A job that was pushed off stays on its way out, and comes back when there is room.
      if (asked.gpu || record_.absence) return Want(Goal::kGpu, asked.gpu);
      return TurnBack("", "its return was asked for before it had left", now);
    case SuspensionPhase::kRetreating:
      return Want(Goal::kGpu, asked.gpu);
    case SuspensionPhase::kSuspended:
      Want(Goal::kGpu, asked.gpu);
      return SetState("resources", "waits for room on its GPU; " + Whereabouts());
    case SuspensionPhase::kRunning:
    case SuspensionPhase::kResuming:
    case SuspensionPhase::kUndoing:
    case SuspensionPhase::kEnded:
      return;  // the job runs, or is about to
  }
}

void SuspensionStateMachine::Handle(const event::MoveAsked& asked, MonoTime now) {
  if (const auto can = CanMove(asked.gpu); !can) return Emit("move_refused", can.error().message, now);
  if (phase() != SuspensionPhase::kRunning) return Handle(event::ResumeAsked{asked.gpu}, now);
  Want(Goal::kGpu, asked.gpu);
  record_.held.clear();
  Begin(SuspensionPhase::kSuspending, now);
  SetState("moving", fmt::format("on its way to GPU {}", asked.gpu));
  AskCan();
}

void SuspensionStateMachine::Handle(const event::Ended&, MonoTime) {
  CancelQuiesce();
  record_.phase = SuspensionPhase::kEnded;
  pending_.reset();
}

void SuspensionStateMachine::Handle(const event::Observed& observed, MonoTime now) {
  gpus_ = observed.gpus;
  std::map<base::ProcessId, MemberProcess> members;
  for (const ObservedProcess& view : observed.processes) {
    const auto known = members_.find(view.id);
    MemberProcess member = known == members_.end() ? MemberProcess{} : std::move(known->second);
    if (member.seen.eviction != view.eviction) member.eviction_since = now;
    const auto since = std::chrono::duration_cast<base::Millis>(now - member.ordered_at);
    if (!member.seen.answered && view.answered) member.answered_at = now;
    if (member.order == ProcessOrder::kEvict && !member.seen.answered && view.answered) Spend("evict", since);
    if (member.order == ProcessOrder::kFetch && !member.seen.answered && view.answered) Spend("fetch", since);
    if (member.order == ProcessOrder::kRestore && !member.seen.answered && view.answered)
      Spend("return", since);
    member.seen = view;
    CorrectLocation(member, now, settings_.retry);
    CorrectRestored(member, now, settings_.retry);
    if (known == members_.end()) Meet(member, now);
    member.outdated = false;
    if (!IsAway(member)) {
      member.location = MemoryLocation::kUnknown;
      member.nothing_found = 0;
    }
    HoldWhatCameLast(member);
    members.emplace(view.id, std::move(member));
  }
  // A process without a shim is known by samples alone, and may be back before one shows it.
  for (auto& [id, member] : members_) {
    if (members.contains(id) || member.restored.empty() || member.seen.has_shim) continue;
    member.seen.gpus.clear();
    CorrectRestored(member, now, settings_.retry);
    if (!member.restored.empty()) members.emplace(id, std::move(member));
  }
  members_ = std::move(members);
  const auto ended =
      std::erase_if(record_.held, [&](const auto& held) { return !members_.contains(held.first); });
  left_changed_ = left_changed_ || ended > 0;
  if (!std::exchange(rebuilt_, false) || phase() != SuspensionPhase::kRunning) return;
  // The last daemon was killed before it stored the record.
  for (const auto& [id, member] : members_)
    if (IsOff(member) || IsShimAtWork(member)) {
      record_.phase = SuspensionPhase::kUndoing;
      turned_reason_ = "suspend_failed";
      why_ = "the daemon was restarted while the job was being suspended";
      for (auto& [other, touched] : members_)
        if (!touched.seen.gpus.empty()) touched.saved = DriverState::kUnknown;
      SetState(turned_reason_, why_);
      return;
    }
}

// For a process that this state machine did not know before: the last daemon may have given orders, and the
// driver may have carried them out.
void SuspensionStateMachine::Meet(MemberProcess& member, MonoTime now) {
  const EvictionProgress eviction = member.seen.eviction;
  if (eviction == EvictionProgress::kEvicting || eviction == EvictionProgress::kEvicted)
    member.order = ProcessOrder::kEvict;
  // It may have another order by now: it gets its order to return when it has answered.
  if (eviction == EvictionProgress::kRestoring && member.seen.fetches) member.order = ProcessOrder::kFetch;
  member.guessed = true;
  member.ordered_at = now;
  const bool touched = record_.held.contains(member.seen.id) || !member.seen.gpus.empty() ||
                       eviction != EvictionProgress::kNone;
  if (rebuilt_ && phase() != SuspensionPhase::kRunning && touched) member.saved = DriverState::kUnknown;
}

void SuspensionStateMachine::Handle(const event::DriverAnswered& answered, MonoTime now) {
  if (answered.process.pid == 0) {
    can_asked_ = false;
    const MoverOutcome outcome = answered.answer.outcome;
    if (outcome == MoverOutcome::kDone || outcome == MoverOutcome::kUnsupported)
      can_ = outcome == MoverOutcome::kDone;
    if (outcome != MoverOutcome::kDone) cannot_ = answered.answer.message;
    if (!can_.has_value() && IsStrict()) TurnBack("suspend_failed", cannot_, now);
    return;
  }
  if (!pending_ || pending_->process != answered.process) return;
  const Verb verb = pending_->verb;
  pending_.reset();
  const auto it = members_.find(answered.process);
  if (it == members_.end()) return;  // the process ended meanwhile
  left_changed_ = left_changed_ || verb == Verb::kCheckpoint;
  if (answered.answer.outcome == MoverOutcome::kGone) {
    members_.erase(it);
    record_.held.erase(answered.process);
    return;
  }
  TakeAnswer(it->second, verb, answered.answer, now);
}

void SuspensionStateMachine::Handle(const event::MoverAnswered& answered, MonoTime now) {
  const auto it = members_.find(answered.process);
  if (it == members_.end() || it->second.moving != answered.verb) return;
  MemberProcess& member = it->second;
  const MoverAnswer& answer = answered.answer;
  const bool secure = answered.verb == Verb::kSecure;
  const bool out = phase() != SuspensionPhase::kResuming && phase() != SuspensionPhase::kUndoing;
  member.moving.reset();
  member.location = MemoryLocation::kUnknown;
  if (answer.outcome == MoverOutcome::kGone) return;
  if (answer.outcome == MoverOutcome::kNothing && ++member.nothing_found < kFruitlessAttempts) {
    member.outdated = true;
    return;
  }
  if (answer.outcome == MoverOutcome::kDone) {
    member.location = !secure           ? MemoryLocation::kGpu
                      : answer.straight ? MemoryLocation::kStraight
                                        : MemoryLocation::kHost;
    if (answer.straight && !secure) spent_["straight"] += static_cast<std::int64_t>(answer.bytes.count);
    if (answer.bytes.count > 0 && !answer.straight) {
      Spend("copy", answer.took);
      spent_["copied"] += static_cast<std::int64_t>((answer.bytes - answer.unchanged).count);
    }
    return;
  }
  // A mover that died may have carried out the request: the data are where they were, or the next mover finds
  // them.
  if (answer.outcome == MoverOutcome::kLost && ++member.losses < 3) return;
  const auto why = fmt::format("the memory of process {}: {}", answered.process.pid, answer.message);
  if (secure && out) FailOut(member, why, now);
  const bool passes = answer.outcome == MoverOutcome::kNoRoom || answer.outcome == MoverOutcome::kLost;
  if (!secure && !out) FailBack(why, passes ? Failure::kPassing : Failure::kLasting, now);
}

// A failed step matters only on the way (out or back) that asked for it.
void SuspensionStateMachine::TakeAnswer(MemberProcess& member, Verb verb, MoverAnswer answer, MonoTime now) {
  const base::ProcessId process = member.seen.id;
  const bool out = phase() != SuspensionPhase::kResuming && phase() != SuspensionPhase::kUndoing;
  if (verb == Verb::kCheckpoint) Spend("checkpoint", answer.took);
  if (verb == Verb::kRestore) Spend("restore", answer.took);
  member.no_cuda = answer.outcome == MoverOutcome::kNoCuda;
  if (member.no_cuda) {
    member.saved = DriverState::kRunning;
    member.left_until = now + settings_.retry;
    return;
  }
  // A mover is its user's process: its answers may contradict themselves.
  const bool done = answer.outcome == MoverOutcome::kDone && answer.state != DriverState::kUnknown &&
                    (verb != Verb::kCheckpoint || answer.state == DriverState::kCheckpointed) &&
                    (verb != Verb::kRestore || answer.state == DriverState::kRunning);
  if (answer.outcome == MoverOutcome::kDone && !done) answer.outcome = MoverOutcome::kFailed;
  if (answer.outcome == MoverOutcome::kLost || answer.state != DriverState::kUnknown)
    member.saved = answer.state;
  if (done) {
    if (verb == Verb::kRestore) Moved(member, pending_moves_, now);
    // Locked: the driver has restored the process and has not unlocked it yet.
    if (verb == Verb::kState &&
        (answer.state == DriverState::kRunning || answer.state == DriverState::kLocked))
      FindWhere(member, now);
    if (verb == Verb::kRestore) NoteRestored(member, now);
    if (verb == Verb::kCheckpoint) member.restored.clear();
    member.lost_moves.clear();
    member.recheck_at = now + settings_.retry;  // samples from before still show the process on the GPU
    return;
  }
  if (answer.outcome == MoverOutcome::kUnsupported) {
    can_ = false;
    cannot_ = answer.message;
    // A driver that does not support the call cannot have checkpointed the process before.
    if (verb == Verb::kState) member.saved = DriverState::kRunning;
    if (verb == Verb::kState || (verb == Verb::kCheckpoint && !IsStrict())) return;
  }
  if (answer.outcome == MoverOutcome::kLost || verb == Verb::kState) ++member.losses;
  if (answer.outcome == MoverOutcome::kLost && verb == Verb::kRestore) member.lost_moves = pending_moves_;
  const std::string why = answer.outcome == MoverOutcome::kTimeout && verb == Verb::kCheckpoint
                              ? fmt::format("the GPU work of process {} did not come to rest within {}",
                                            process.pid, base::FormatDuration(settings_.lock_timeout))
                              : fmt::format("process {}: {}", process.pid, answer.message);
  // After a lost answer, first asks for the state of the process.
  const bool ask = answer.outcome == MoverOutcome::kLost && member.losses < 2;
  if (verb == Verb::kCheckpoint && out && (!ask || IsStrict())) FailOut(member, why, now);
  if (verb == Verb::kState && member.losses > 1)
    out ? FailOut(member, why, now) : FailBack(why, Failure::kLasting, now);
  if (verb == Verb::kRestore && !out && !ask)
    FailBack(why, answer.outcome == MoverOutcome::kNoRoom ? Failure::kPassing : Failure::kLasting, now);
}

void SuspensionStateMachine::Handle(const event::RoomAvailable& room, MonoTime now) {
  const auto needs = Needs(now);
  if (!needs || rebuilt_) return;
  const auto free = [&](const std::string& gpu) {
    const auto it = room.free.find(gpu);
    return it == room.free.end() ? base::Bytes{} : it->second;
  };
  const auto short_of = std::find_if(needs->begin(), needs->end(),
                                     [&](const auto& need) { return need.second > free(need.first); });
  if (room.chosen && short_of == needs->end()) {
    Begin(SuspensionPhase::kResuming, now);
    return SetState(record_.reason == "moving" ? "moving" : "resuming", "on its way back to the GPU");
  }
  // Data must not stay on one GPU while the job waits for room on another.
  for (auto& [id, member] : members_)
    if (member.location == MemoryLocation::kStraight) member.location = MemoryLocation::kUnknown;
  // Tells the user once, and then at intervals, because the free memory changes with every sample.
  if (room_reported_at_ && now - *room_reported_at_ < settings_.retry) return;
  room_reported_at_ = now;
  if (room.settling && record_.absence)
    return SetAway("resources",
                   fmt::format("it comes back when the room that there is now lasts for {}; {}",
                               base::FormatDuration(record_.absence->room_lasts), Whereabouts()));
  if (short_of == needs->end())
    return SetAway("resources", "a more important job that waits for room goes first; " + Whereabouts());
  SetAway("resources",
          fmt::format("waits for {} on GPU {}, where {} are free; {}", base::FormatBytes(short_of->second),
                      short_of->first, base::FormatBytes(free(short_of->first)), Whereabouts()));
}

void SuspensionStateMachine::Handle(const event::Tick&, MonoTime) {}

std::optional<MonoTime> SuspensionStateMachine::Deadline() const {
  // The driver's answer comes as an event, and the state machine does nothing before it.
  if (phase() == SuspensionPhase::kRunning || phase() == SuspensionPhase::kEnded || pending_)
    return std::nullopt;
  if (resting_) return std::nullopt;  // the same
  if (settling_ && phase() == SuspensionPhase::kSuspending)
    return began_ + settings_.settle_limit;  // nothing is due before
  if (left_due_) return left_due_;
  const bool back = phase() == SuspensionPhase::kResuming || phase() == SuspensionPhase::kUndoing;
  std::optional<MonoTime> first;
  const auto at = [&](MonoTime time) { first = first ? std::min(*first, time) : time; };
  for (const auto& [id, member] : members_) {
    if (back && member.moving) continue;  // the mover's answer comes first
    if (!back && member.left_until) {
      if (phase() == SuspensionPhase::kSuspended && IsOnGpu(member)) at(*member.left_until);
    } else if (IsShimAtWork(member)) {
      at(AtWorkSince(member) + (back ? settings_.restore_limit : settings_.evict_limit));
    } else if (back ? MayNotCome(member) : MayBegin(member)) {
      at(member.ordered_at + settings_.answer_limit);
    }
  }
  return first;
}

}  // namespace gpuman::suspend
