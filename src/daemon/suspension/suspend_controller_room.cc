// The memory that suspended jobs need: host memory on the way out, GPU memory on the way back.
#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/suspension/suspend_controller.h"

namespace gpuman::daemon {

using suspend::SuspensionPhase;

base::Bytes SuspendController::HostMemoryOfTurns(base::JobId but) const {
  base::Bytes used;
  for (const auto* const job : core_.jobs().Active()) {
    const auto* const record = RecordOf(job->id);
    if (job->id != but && (!record || record->phase == SuspensionPhase::kRunning))
      used += readings_.HostMemoryOf(job->id);
  }
  return used;
}

base::Bytes SuspendController::HostMemoryInUse(const suspend::HostMemory& memory, base::JobId but) const {
  base::Bytes there = HostMemoryOfTurns(but), coming;
  for (const auto& [job, entry] : entries_) {
    if (job == but) continue;
    const bool comes = entry.machine.phase() == SuspensionPhase::kSuspending;
    (comes ? coming : there) += entry.machine.InHost();
  }
  return suspend::Believed(memory, there) + coming;
}

// Copies that movers keep count nowhere here. Each lies in memory that its mover has prepared, so it takes
// nothing of what is available, and a mover counts it as prepared, since it gives way.
base::Result<suspend::HostRoom> SuspendController::HostRoomFor(base::JobId job) {
  GPUMAN_ASSIGN(const auto memory, suspend::ReadHostMemory());
  suspend::HostRoom room;
  room.budget = settings_.host_memory.Of(memory.total);
  room.prepared = readings_.HostMemoryOf(job);
  if (const auto owner = readings_.OwnerOf(job)) room.prepared += checkpointer_.Prepared(*owner);
  room.available = memory.available;
  room.kept_free = suspend::KeptFree(memory);
  room.in_use = HostMemoryInUse(memory, job);
  for (const auto& [other, entry] : entries_) {
    if (other == job || entry.machine.phase() != SuspensionPhase::kSuspending) continue;
    const auto need = entry.machine.NeedOfHost();
    room.available = room.available - (need.evicted - readings_.HostMemoryOf(other) + need.checkpointed);
  }
  return room;
}

// What is on its way back is what may be kept next, in the same place.
std::optional<SuspendController::BytesByUser> SuspendController::MayKeep(const BytesByUser& wanted) const {
  const auto memory = suspend::ReadHostMemory();
  if (!memory) return std::nullopt;
  const TurnMoves turns = turn_moves_ ? turn_moves_() : TurnMoves{};
  base::Bytes restoring = turns.restoring;
  for (const auto& [job, entry] : entries_)
    if (entry.machine.phase() == SuspensionPhase::kResuming) restoring += entry.machine.InHost();
  const base::Bytes in_use = HostMemoryInUse(*memory, {}) + turns.coming - restoring;
  return suspend::KeepFor(settings_.host_memory.Of(memory->total), in_use, wanted);
}

void SuspendController::Refuse(base::JobId job, const char* kind, base::Error error,
                               const base::Result<suspend::HostRoom>& room, const Done& done) {
  suspend::action::Emit told{kind, error.message};
  const auto need = entries_.at(job).machine.NeedOfHost();
  if (room && !suspend::Holds(*room, need)) {
    const auto number = [](base::Bytes bytes) { return static_cast<std::int64_t>(bytes.count); };
    told.data = {{"needed", number(need.evicted + need.checkpointed)},
                 {"budget", number(room->budget)},
                 {"in_use", number(room->in_use)},
                 {"available", number(room->available)}};
  }
  Tell(job, told);
  DropIfDone(job);
  done(base::Fail(std::move(error)));
}

// Time has passed since the suspension was allowed, so the host memory is checked again for each process.
void SuspendController::Checkpoint(base::JobId job, const suspend::action::Checkpoint& order) {
  const auto memory = suspend::ReadHostMemory();
  if (const auto holds = memory ? suspend::HoldsCheckpoint(*memory, order.bytes) : base::Result<>(); !holds) {
    auto refuse = self_.Bind([job, process = order.process,
                              why = holds.error().message](SuspendController& me) {
      const suspend::MoverAnswer refused{
          .outcome = suspend::MoverOutcome::kNoRoom, .state = suspend::DriverState::kRunning, .message = why};
      me.Feed(job, suspend::event::DriverAnswered{process, refused});
    });
    boost::asio::post(core_.loop(), std::move(refuse));
    return;
  }
  AskDriver(job, {0, suspend::Verb::kCheckpoint, order.process, order.lock_timeout, {}});
}

void SuspendController::AddMover(base::JobId job, suspend::BytesByGpu& needs) {
  const auto owner = readings_.OwnerOf(job);
  if (!owner || checkpointer_.MoverPid(*owner)) return;
  for (auto& [gpu, bytes] : needs) bytes += readings_.ContextCostOf(gpu);
}

// The memory that a restoring job takes on its target GPUs.
suspend::BytesByGpu SuspendController::Coming(const suspend::SuspensionRecord& record) {
  suspend::BytesByGpu coming;
  for (const auto& [uuid, bytes] : suspend::AwayOf(record)) coming[record.target.value_or(uuid)] += bytes;
  return coming;
}

void SuspendController::OfferRoom() {
  auto free = readings_.FreeMemory();
  arrivals_.TakeFrom(free, readings_.SampledAt());
  const auto now = core_.clock().Mono();
  std::vector<suspend::ResumeCandidate> candidates;
  for (const auto& [job, entry] : entries_) {
    if (entry.machine.phase() == SuspensionPhase::kResuming) {
      for (const auto& [uuid, bytes] : Coming(entry.machine.record())) free[uuid] = free[uuid] - bytes;
    } else if (auto needs = entry.machine.Needs(now)) {
      if (IsPushedOff(job) && readings_.HostMemoryOf(job).count > 0) AddMover(job, *needs);
      const auto& absence = entry.machine.record().absence;
      candidates.push_back({job, readings_.PriorityOf(job), entry.back_since, std::move(*needs),
                            absence ? absence->room_lasts : base::Millis(0)});
    }
  }
  const auto choice = suspend::ChooseToResume(candidates, free, now, room_since_);
  const auto has = [](const std::vector<base::JobId>& jobs, base::JobId job) {
    return std::find(jobs.begin(), jobs.end(), job) != jobs.end();
  };
  for (const auto& candidate : candidates)
    Feed(candidate.job, suspend::event::RoomAvailable{free, has(choice.now, candidate.job),
                                                      has(choice.soon, candidate.job)});
}

}  // namespace gpuman::daemon
