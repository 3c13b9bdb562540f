// What the state machine knows, and how it tells it.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "suspend/state_machine.h"

namespace gpuman::suspend {

using base::Bytes;
using base::ErrorCode;
using base::Fail;
using base::FormatBytes;
using base::MonoTime;
using base::Result;

namespace {

Bytes SumOf(const BytesByGpu& gpus) {
  Bytes sum;
  for (const auto& [gpu, bytes] : gpus) sum += bytes;
  return sum;
}

}  // namespace

bool SuspensionStateMachine::AnyShares() const {
  return std::any_of(members_.begin(), members_.end(), [](const auto& one) { return Shares(one.second); });
}

bool SuspensionStateMachine::AnyStays() const {
  return std::any_of(members_.begin(), members_.end(), [](const auto& one) { return Stays(one.second); });
}

bool SuspensionStateMachine::KnowsMoreThanSamples() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const auto& one) { return one.second.arrived || !one.second.restored.empty(); });
}

std::map<std::string, std::int64_t> SuspensionStateMachine::Figures(MonoTime now) const {
  Bytes evicted, checkpointed;
  std::int64_t processes = 0;
  for (const auto& [id, member] : members_) {
    const Bytes by_shim = Sum(member.seen, &GpuFootprint::evicted);
    evicted += by_shim;
    if (member.saved == DriverState::kCheckpointed) {
      ++processes;
      Bytes held;
      if (const auto it = record_.held.find(id); it != record_.held.end())
        for (const auto& [gpu, bytes] : it->second) held += bytes;
      checkpointed += held - by_shim;
    }
  }
  const auto number = [](Bytes bytes) { return static_cast<std::int64_t>(bytes.count); };
  return {{"evicted", number(evicted)},
          {"checkpointed", number(checkpointed)},
          {"left", number(SumOf(Left()))},
          {"processes", processes},
          {"milliseconds", std::chrono::duration_cast<base::Millis>(now - began_).count()}};
}

Bytes SuspensionStateMachine::HeldOn(const MemberProcess& member, const std::string& gpu) const {
  const auto held = record_.held.find(member.seen.id);
  if (held == record_.held.end()) return {};
  const auto on = held->second.find(gpu);
  return on == held->second.end() ? Bytes{} : on->second;
}

// Whether the driver's figure is from before the eviction by the shim. A new sample may repeat an old list of
// processes, so a figure that has hardly fallen is not believed either.
bool SuspensionStateMachine::IsOld(const MemberProcess& member, const std::string& gpu) const {
  const GpuFootprint& share = member.seen.gpus.at(gpu);
  if (member.order != ProcessOrder::kEvict || HeldOn(member, gpu).count == 0) return false;
  return share.sampled_at < member.answered_at ||
         (IsAway(member) && share.used > HeldOn(member, gpu) - Bytes{share.evicted.count / 2});
}

// The memory of the process that is on its GPUs; once the process has left, the memory that stays there. If
// a figure is old, this uses the memory that the process held minus what it gave away. If the driver tells
// nothing of a process that has left, this uses the size of its context.
BytesByGpu SuspensionStateMachine::LeftOf(const MemberProcess& member) const {
  BytesByGpu left;
  if (member.saved == DriverState::kCheckpointed) return left;
  for (const auto& [gpu, share] : member.seen.gpus) {
    Bytes bytes = IsOld(member, gpu) ? HeldOn(member, gpu) - share.evicted : share.used;
    if (bytes.count == 0 && share.evicted.count > 0) bytes = share.context;
    if (bytes.count > 0) left[gpu] = bytes;
  }
  return left;
}

BytesByGpu SuspensionStateMachine::Left() const {
  BytesByGpu left;
  for (const auto& [id, member] : members_)
    for (const auto& [gpu, bytes] : LeftOf(member)) left[gpu] += bytes;
  return left;
}

std::string SuspensionStateMachine::NameOf(const std::string& gpu) const {
  const auto known =
      std::find_if(gpus_.begin(), gpus_.end(), [&](const ObservedGpu& one) { return one.uuid == gpu; });
  return known != gpus_.end() && known->index ? std::to_string(*known->index) : gpu;
}

std::string SuspensionStateMachine::Whereabouts() const {
  const auto figures = Figures(began_);
  const auto bytes = [&](const char* key) { return Bytes{static_cast<std::uint64_t>(figures.at(key))}; };
  Bytes evicted = bytes("evicted"), straight;
  const Bytes checkpointed = bytes("checkpointed");
  const BytesByGpu left = phase() == SuspensionPhase::kSuspended ? record_.left : Left();
  if ((evicted + checkpointed).count == 0 && left.empty()) return "nothing of it was on a GPU";
  for (const auto& [id, member] : members_)
    if (member.location == MemoryLocation::kStraight) straight += Sum(member.seen, &GpuFootprint::evicted);
  evicted = evicted - straight;
  std::string text = fmt::format("{} are in host memory", FormatBytes(evicted + checkpointed));
  if (evicted.count > 0 && checkpointed.count > 0)
    text += fmt::format(" ({} by the shim, {} by the driver's checkpoint)", FormatBytes(evicted),
                        FormatBytes(checkpointed));
  if (straight.count > 0) text += fmt::format("; {} go straight to the other GPU", FormatBytes(straight));
  if (left.empty()) return text;
  std::size_t told = 0;
  for (const auto& [gpu, stays] : left) {
    const char* const before = told == 0 ? "; " : told + 1 == left.size() ? " and " : ", ";
    const char* const stay = told == 0 ? " stay" : "";
    text += fmt::format("{}{}{} on GPU {}", before, FormatBytes(stays), stay, NameOf(gpu));
    ++told;
  }
  if (AnyStays())
    text += ": contexts, and memory that processes share (NCCL, CUDA IPC)";
  else if (can_ == false)
    text += ": this driver cannot checkpoint processes, so their contexts stay";
  return text;
}

// The one GPU that the job's memory is on, or was when it was taken off; nullopt: several, or none.
std::optional<std::string> SuspensionStateMachine::OnlyGpu() const {
  std::set<std::string> gpus;
  for (const auto& [id, member] : members_) {
    if (const auto held = record_.held.find(id); held != record_.held.end()) {
      for (const auto& [gpu, bytes] : held->second)
        if (bytes.count > 0) gpus.insert(gpu);
      continue;
    }
    for (const auto& [gpu, share] : member.seen.gpus)
      if ((share.used + share.evicted).count > 0) gpus.insert(gpu);
  }
  return gpus.size() == 1 ? std::optional(*gpus.begin()) : std::nullopt;
}

Result<> SuspensionStateMachine::CanSuspend() const {
  if (phase() == SuspensionPhase::kEnded) return Fail(ErrorCode::kConflict, "the job has ended");
  GPUMAN_TRY(HasNoManagedMemory());
  GPUMAN_TRY(NothingIsStopped());
  if (can_ != false) return {};
  for (const auto& [id, member] : members_)
    if (member.seen.has_shim) return {};
  return Fail(
      ErrorCode::kNotSupported,
      fmt::format("nothing of the job can leave the GPU: it runs without libgpuman.so, and {}", cannot_),
      "start it with the library preloaded (without --no-preload), or use driver 570 or newer");
}

Result<> SuspensionStateMachine::HasNoManagedMemory() const {
  for (const auto& [id, member] : members_) {
    if (member.seen.managed.count == 0 || phase() != SuspensionPhase::kRunning) continue;
    return Fail(
        ErrorCode::kNotSupported,
        fmt::format(
            "process {} of the job has {} of managed memory (cudaMallocManaged, --oversubscribe), which "
            "the driver's checkpoint does not take",
            id.pid, FormatBytes(member.seen.managed)),
        "it can be ended, or stay; on a shared GPU it gives its turns to others all the same");
  }
  return {};
}

HostNeed SuspensionStateMachine::NeedOfHost() const {
  HostNeed need;
  const bool shares =
      std::any_of(members_.begin(), members_.end(), [](const auto& one) { return one.second.seen.shares; });
  for (const auto& [id, member] : members_) {
    if (member.saved == DriverState::kCheckpointed) continue;
    const Bytes evictable = member.without_shim ? Bytes{} : Sum(member.seen, &GpuFootprint::evictable);
    need.evicted += evictable;
    const bool stays = shares && member.seen.has_shim;
    if (can_ != false && !stays) need.checkpointed += Sum(member.seen, &GpuFootprint::used) - evictable;
  }
  return need;
}

Bytes SuspensionStateMachine::InHost() const {
  if (phase() == SuspensionPhase::kRunning || phase() == SuspensionPhase::kEnded) return {};
  if (phase() == SuspensionPhase::kSuspended) return SumOf(AwayOf(record_));
  Bytes sum;
  for (const auto& [id, member] : members_) {
    if (const auto held = record_.held.find(id); held != record_.held.end())
      for (const auto& [gpu, bytes] : held->second) sum += bytes;
    else if (phase() == SuspensionPhase::kSuspending)
      sum += Sum(member.seen, &GpuFootprint::used) + Sum(member.seen, &GpuFootprint::evicted);
  }
  return sum;
}

Result<> SuspensionStateMachine::CanSuspend(const HostRoom& room) const {
  GPUMAN_TRY(CanSuspend());
  if (phase() != SuspensionPhase::kRunning) return {};
  return Holds(room, NeedOfHost());
}

Result<> SuspensionStateMachine::CanMove(const std::string& gpu, const HostRoom& room) const {
  GPUMAN_TRY(CanMove(gpu));
  if (phase() != SuspensionPhase::kRunning) return {};
  return Holds(room, NeedOfHost());
}

Result<> SuspensionStateMachine::CanResume(const std::optional<std::string>& gpu) const {
  if (phase() == SuspensionPhase::kEnded) return Fail(ErrorCode::kConflict, "the job has ended");
  GPUMAN_TRY(NothingIsStopped());
  if (!gpu) return {};
  if (phase() == SuspensionPhase::kRunning)
    return Fail(ErrorCode::kConflict, "the job runs; move it instead");
  return CanMove(*gpu);
}

Result<> SuspensionStateMachine::CanMove(const std::string& gpu) const {
  if (phase() == SuspensionPhase::kEnded) return Fail(ErrorCode::kConflict, "the job has ended");
  if (phase() == SuspensionPhase::kResuming || phase() == SuspensionPhase::kUndoing)
    return Fail(ErrorCode::kConflict, "the job is on its way back to its GPU", "move it when it runs");
  GPUMAN_TRY(HasNoManagedMemory());
  GPUMAN_TRY(NothingIsStopped());
  const auto find = [&](const std::string& uuid) {
    return std::find_if(gpus_.begin(), gpus_.end(), [&](const ObservedGpu& one) { return one.uuid == uuid; });
  };
  const auto target = find(gpu);
  if (target == gpus_.end()) return Fail(ErrorCode::kNotFound, fmt::format("there is no GPU {}", gpu));
  if (IsPartlyMoved() && *record_.target == gpu) return {};
  const bool shares = std::any_of(members_.begin(), members_.end(), [](const auto& one) {
    return (one.second.seen.has_shim && one.second.seen.shares) || Stays(one.second);
  });
  if (shares)
    return Fail(ErrorCode::kUnsatisfiable,
                "processes of the job share memory (NCCL, CUDA IPC): it can be suspended, not moved");
  const auto source = OnlyGpu();
  if (!source)
    return Fail(ErrorCode::kUnsatisfiable, "only a job with memory on exactly one GPU can be moved");
  if (*source == gpu) {
    if (phase() != SuspensionPhase::kRunning) return {};
    return Fail(ErrorCode::kConflict, fmt::format("the job is on GPU {} already", gpu));
  }
  const auto now_on = find(*source);
  if (now_on == gpus_.end() || now_on->name != target->name)
    return Fail(ErrorCode::kUnsatisfiable,
                fmt::format("a job moves between GPUs of the same kind alone; {} is no {}", target->name,
                            now_on == gpus_.end() ? "GPU of the driver's list" : now_on->name));
  if (can_ == false)
    return Fail(ErrorCode::kNotSupported, fmt::format("the job cannot be moved: {}", cannot_));
  return {};
}

std::optional<BytesByGpu> SuspensionStateMachine::Needs(MonoTime now) const {
  if (phase() != SuspensionPhase::kSuspended || !record_.wants_gpu || now < not_before_ ||
      !NothingIsStopped())
    return std::nullopt;
  BytesByGpu needs;
  const auto add = [&](const std::string& gpu, Bytes bytes) {
    if (bytes.count > 0) needs[record_.target.value_or(gpu)] += bytes;
  };
  for (const auto& [id, member] : members_) {
    const auto held = record_.held.find(id);
    const bool off_whole =
        member.saved == DriverState::kCheckpointed || member.saved == DriverState::kUnknown;
    const Bytes stays = RestoresHeld() ? Sum(member.seen, &GpuFootprint::evicted) : Bytes{};
    if (off_whole && held != record_.held.end()) {
      for (const auto& [gpu, bytes] : held->second) add(gpu, bytes - stays);
    } else if (!RestoresHeld()) {
      for (const auto& [gpu, share] : member.seen.gpus) add(gpu, share.evicted);
    }
  }
  return needs;
}

void SuspensionStateMachine::SetState(std::string reason, std::string detail) {
  record_.reason = std::move(reason);
  record_.detail = std::move(detail);
  out_.push_back(action::SetState{record_.phase, record_.reason, record_.detail});
}

// Sets the state of a job that is off the GPU. Until the job is back, the state says why the job was pushed
// off.
void SuspensionStateMachine::SetAway(const std::string& reason, const std::string& detail) {
  const auto& absence = record_.absence;
  SetState(absence ? absence->reason : reason, absence ? absence->cause + "; " + detail : detail);
}

std::map<std::string, std::int64_t> SuspensionStateMachine::FiguresWithSpent(MonoTime now) const {
  auto figures = Figures(now);
  figures.insert(spent_.begin(), spent_.end());
  return figures;
}

void SuspensionStateMachine::Emit(const char* kind, std::string message, MonoTime now) {
  out_.push_back(action::Emit{kind, std::move(message), FiguresWithSpent(now)});
}

void SuspensionStateMachine::EmitWith(const BytesByGpu& left, const char* kind, std::string message,
                                      MonoTime now) {
  Emit(kind, std::move(message), now);
  auto& data = std::get<action::Emit>(out_.back()).data;
  data["left"] = static_cast<std::int64_t>(SumOf(left).count);
  for (const auto& [gpu, bytes] : left) data["left." + gpu] = static_cast<std::int64_t>(bytes.count);
}

// Where steps run at the same time, only the longest counts; the driver's calls run one after the other, so
// their times add up.
void SuspensionStateMachine::Spend(const char* what, base::Millis time) {
  auto& spent = spent_[fmt::format("milliseconds_{}", what)];
  const std::string_view word = what;
  const bool in_turn = word == "checkpoint" || word == "restore";
  spent = in_turn ? spent + time.count() : std::max<std::int64_t>(spent, time.count());
}

void SuspensionStateMachine::AskMover(MemberProcess& member, Verb verb) {
  member.moving = verb;
  if (verb == Verb::kSecure)
    out_.push_back(action::CopyToHost{member.seen.id, IsStrict() && GoesOn() ? *record_.target : ""});
  else
    out_.push_back(action::CopyToGpu{member.seen.id, ReturnsTo(record_, member.seen.id)});
}

void SuspensionStateMachine::AskDriver(const base::ProcessId& process, Verb verb) {
  pending_ = Pending{process, verb};
  if (verb == Verb::kState) out_.push_back(action::AskState{process});
  if (verb == Verb::kCheckpoint) {
    const auto member = members_.find(process);
    Bytes bytes = member == members_.end() ? Bytes{} : Sum(member->second.seen, &GpuFootprint::used);
    // The driver's figure may be older than the eviction by the shim.
    const auto held = record_.held.find(process);
    if (member != members_.end() && held != record_.held.end() && IsAway(member->second)) {
      Bytes rest;
      for (const auto& [gpu, had] : held->second) rest += had;
      bytes = std::min(bytes, rest - Sum(member->second.seen, &GpuFootprint::evicted));
    }
    out_.push_back(action::Checkpoint{process, settings_.lock_timeout, bytes});
  }
  if (verb == Verb::kRestore) out_.push_back(action::RestoreCheckpoint{process, pending_moves_});
}

// The answer holds for the life of the state machine; if the mover could not tell, the state machine asks
// again.
void SuspensionStateMachine::AskCan() {
  if (can_ || can_asked_) return;
  can_asked_ = true;
  out_.push_back(action::AskCan{});
}

}  // namespace gpuman::suspend
