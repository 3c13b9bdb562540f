// Moves and resumes of jobs of the queue to a GPU that a user names: only where the queue's snapshot has
// room.
#include <algorithm>
#include <utility>

#include "daemon/queue/dispatcher.h"
#include "queue/admission.h"

namespace gpuman::daemon {

using base::ErrorCode;
using base::Fail;
using base::JobId;

base::Result<> Dispatcher::MayGoTo(JobId id, const std::string& gpu) {
  const auto& snapshot = updater_.View(clock_.Mono());
  const auto row = updater_.RowOfRunning(id);
  const auto known = std::find_if(snapshot.gpus.begin(), snapshot.gpus.end(),
                                  [&](const queue::Gpu& each) { return each.uuid == gpu; });
  if (!row || known == snapshot.gpus.end())
    return Fail(ErrorCode::kNotFound, "the queue does not know this job or this GPU");
  return queue::MayGoTo(snapshot, *row, static_cast<std::size_t>(known - snapshot.gpus.begin()),
                        clock_.Wall());
}

void Dispatcher::ResumeOn(JobId id, const std::string& gpu, DispatcherCallbacks::Done done) {
  const auto it = active_.find(id);
  // The refusal says why the job cannot come back.
  if (it == active_.end() || it->second.row.phase != queue::RunningPhase::kSuspended)
    return callbacks_.resume(id, gpu, std::move(done));
  if (auto may = MayGoTo(id, gpu); !may) return done(std::move(may));
  Resume(id, {gpu}, std::move(done));
}

void Dispatcher::MoveTo(JobId id, const std::string& gpu, DispatcherCallbacks::Done done) {
  const auto it = active_.find(id);
  const auto phase = it == active_.end() ? queue::RunningPhase::kLeaving : it->second.row.phase;
  // A job of which something would stay is not moved; the refusal says why.
  if (phase != queue::RunningPhase::kRunning || it->second.row.gpus == std::vector{gpu} ||
      !it->second.left.empty())
    return callbacks_.move_to(id, gpu, std::move(done));
  if (auto may = MayGoTo(id, gpu); !may) return done(std::move(may));
  Move(id, it->second.row.gpus, {gpu}, std::move(done));
}

}  // namespace gpuman::daemon
