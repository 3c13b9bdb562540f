#include "queue/pass.h"

#include <algorithm>
#include <utility>

#include "queue/earliest_start.h"
#include "queue/make_room.h"
#include "queue/placement_refusal_cache.h"
#include "queue/priority.h"
#include "queue/quota_tracker.h"
#include "queue/room_checker.h"

namespace gpuman::queue {
namespace {

class Passing {
 public:
  Passing(const Snapshot& snapshot, WallTime now)
      : snapshot_(snapshot),
        now_(now),
        ranks_(snapshot, now),
        room_(snapshot, now),
        quota_use_(snapshot),
        refused_(snapshot.needs.size(), WaitReason::kStarts),
        attempted_(snapshot.needs.size(), false) {
    plan_.verdicts.resize(snapshot.waiting.size());
    attempts_ = snapshot.paused ? 0 : snapshot.settings.attempts;
    can_yield_ =
        std::any_of(snapshot.running.begin(), snapshot.running.end(), [&](const RunningJobInput& job) {
          return job.movable || job.phase == RunningPhase::kLeaving || job.phase == RunningPhase::kMoving ||
                 snapshot.needs[job.need].preemptible;
        });
  }

  Plan Run() {
    if (!snapshot_.paused) ClearReserved();
    std::vector<Ranked> ranked = Sift();
    Sort(snapshot_, ranked);
    plan_.order.reserve(ranked.size());
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      if (i + kAhead < ranked.size()) Fetch(ranked[i + kAhead]);
      const Ranked& each = ranked[i];
      if (each.entry >= snapshot_.waiting.size())
        ConsiderSuspended(static_cast<Index>(each.entry - snapshot_.waiting.size()));
      else if (each.need != kNone && refused_[each.need] != WaitReason::kStarts && !MayAttempt(each.need))
        Waits(each.entry, refused_[each.need]);  // most jobs of a long queue cost only this
      else
        Consider(each.entry);
    }
    for (const Reservation& each : snapshot_.reservations) {
      WakeAt(each.start);
      WakeAt(each.end);
    }
    if (wake_ != kNever) plan_.wake_at = wake_;
    return std::move(plan_);
  }

 private:
  // The pass does not read the rows in memory order. Without this prefetch, cache misses would take most of
  // the time.
  static constexpr std::size_t kAhead = 16;
  void Fetch(const Ranked& each) const {
    if (each.entry >= snapshot_.waiting.size()) return;
    __builtin_prefetch(&plan_.verdicts[each.entry], 1);
    if (each.need == kNone) __builtin_prefetch(&snapshot_.waiting[each.entry]);
  }

  void WakeAt(WallTime time) {
    if (time > now_) wake_ = std::min(wake_, time);
  }

  // Returns the jobs that want to run, with their ranks, and records the reasons of the other jobs.
  std::vector<Ranked> Sift() {
    std::vector<Ranked> ranked;
    ranked.reserve(snapshot_.waiting.size());
    for (std::uint32_t i = 0; i < snapshot_.waiting.size(); ++i) {
      const WaitingJobInput& job = snapshot_.waiting[i];
      const WaitReason reason = ReasonToWait(job);
      if (reason == WaitReason::kStarts) {
        const bool plain = quota_use_.IsFree(job) && !snapshot_.paused && !room_.IsPrivileged(job.user);
        ranked.push_back({ranks_.Of(std::max(job.since, job.begin), job.member, job.need, job.priority), i,
                          plain ? job.need : kNone});
        continue;
      }
      plan_.verdicts[i].reason = reason;
      if (reason == WaitReason::kDependencyNever && job.auto_cancel)
        plan_.cancels.push_back({job.id, i, reason});
      if (reason == WaitReason::kBeginTime || reason == WaitReason::kRetryDelay) WakeAt(job.begin);
    }
    for (std::uint32_t i = 0; i < snapshot_.running.size(); ++i) {
      const RunningJobInput& job = snapshot_.running[i];
      if (job.phase == RunningPhase::kSuspended && job.wants_back)
        ranked.push_back({ranks_.Of(job.since, job.member, job.need, job.priority),
                          static_cast<std::uint32_t>(snapshot_.waiting.size()) + i, kNone});
    }
    std::sort(plan_.cancels.begin(), plan_.cancels.end(),
              [](const auto& a, const auto& b) { return a.job < b.job; });
    return ranked;
  }

  // Why the job waits even on an empty machine; kStarts: it would not wait there.
  WaitReason ReasonToWait(const WaitingJobInput& job) const {
    if (job.dependency == DependencyState::kImpossible && (job.auto_cancel || !job.held))
      return WaitReason::kDependencyNever;
    if (job.held) return WaitReason::kHeld;
    if (job.dependency == DependencyState::kWaits) return WaitReason::kDependency;
    if (job.begin > now_) return job.retries ? WaitReason::kRetryDelay : WaitReason::kBeginTime;
    return WaitReason::kStarts;
  }

  // Preempts preemptible jobs on GPUs whose reservation for another user has begun.
  void ClearReserved() {
    for (std::size_t i = 0; i < snapshot_.running.size(); ++i) {
      const RunningJobInput& job = snapshot_.running[i];
      if (!snapshot_.settings.preempt || job.phase != RunningPhase::kRunning ||
          !snapshot_.needs[job.need].preemptible)
        continue;
      for (std::size_t gpu = 0; gpu < snapshot_.gpus.size(); ++gpu) {
        if (!job.gpus.test(gpu) || room_.IsUnreserved(gpu, job.user, now_, now_ + Millis(1))) continue;
        Preempted(static_cast<Index>(i), JobId{});
        break;
      }
    }
    std::sort(plan_.preempts.begin(), plan_.preempts.end(),
              [](const auto& a, const auto& b) { return a.job < b.job; });
  }

  void Preempted(Index running, JobId for_job, bool ends = false) {
    const RunningJobInput& job = snapshot_.running[running];
    base::Bytes left;
    for (const ResidualOnGpu& each : job.left)
      if (ends) left += each.bytes;
    plan_.preempts.push_back({job.id, ends || !job.suspendable, for_job, left});
    room_.Dismiss(running, ends);
    can_yield_ = true;
  }

  void Waits(Index waiting, WaitReason reason) {
    plan_.order.push_back(waiting);
    plan_.verdicts[waiting].reason = reason;
    plan_.verdicts[waiting].position = static_cast<std::uint32_t>(plan_.order.size());
  }

  void Consider(Index waiting) {
    const WaitingJobInput& job = snapshot_.waiting[waiting];
    if (snapshot_.paused) return Waits(waiting, WaitReason::kPaused);
    if (const WaitReason refusal = quota_use_.Refuses(job); refusal != WaitReason::kStarts) {
      if (refusal == WaitReason::kQuota) WakeAtRelief(job);
      return Waits(waiting, refusal);
    }
    const WaitReason known = refused_[job.need];
    if (known != WaitReason::kStarts && !MayAttempt(job.need) && !room_.IsPrivileged(job.user))
      return Waits(waiting, known);
    Start(waiting, job);
  }

  void Start(Index waiting, const WaitingJobInput& job) {
    const PlacementRequest request = PlacementRequestOf(job);
    const bool alike = !room_.IsPrivileged(job.user);  // a refusal holds for all jobs with this need
    if (alike && !MayAttempt(job.need)) refused_[job.need] = refusals_.Of(request);
    if (alike && refused_[job.need] != WaitReason::kStarts && !MayAttempt(job.need))
      return Waits(waiting, refused_[job.need]);
    if (const auto gpus = room_.Find(request)) {
      plan_.starts.push_back({job.id, waiting, *gpus});
      room_.Take(request, *gpus);
      quota_use_.Start(job);
      plan_.verdicts[waiting].start = now_;
      return;
    }
    if (MakesRoom(request, job.need)) {
      quota_use_.Start(job);
      plan_.verdicts[waiting].start = now_;
      return Waits(waiting, WaitReason::kMakingRoom);
    }
    const WaitReason reason = room_.WhyNot(request);
    if (alike) {
      refused_[job.need] = reason;
      refusals_.Add(request, reason);
    }
    plan_.verdicts[waiting].start = KeepFor(request);
    Waits(waiting, reason);
  }

  // A suspended job returns to suitable GPUs; one that cannot be moved returns to those that it left.
  void ConsiderSuspended(Index running) {
    const RunningJobInput& job = snapshot_.running[running];
    if (snapshot_.paused || quota_use_.Refuses(job) != WaitReason::kStarts) return;
    PlacementRequest request = PlacementRequestOf(job);
    if (request.need.time_limit.count() > 0) request.end = room_.EndOf(job);
    request.host_counted = request.resumes = true;
    if (!job.movable) {
      request.need.possible = job.gpus;
      request.need.exact = true;
    }
    if (const auto gpus = room_.Find(request)) {
      plan_.resumes.push_back({job.id, *gpus});
      room_.Take(request, *gpus);
      quota_use_.Resume(job);
    } else if (MakesRoom(request, kNone)) {
      quota_use_.Resume(job);
    } else {
      KeepFor(request);
    }
  }

  // For a waiting or a running job.
  template <typename Job>
  PlacementRequest PlacementRequestOf(const Job& job) const {
    PlacementRequest request{
        .need = snapshot_.needs[job.need], .user = job.user, .job = job.id, .priority = job.priority};
    request.since = job.since;
    if constexpr (requires { job.begin; }) request.since = std::max(job.since, job.begin);
    request.rank = ranks_.Of(request.since, job.member, job.need, job.priority);
    if (request.need.time_limit.count() > 0) request.end = now_ + request.need.time_limit;
    return request;
  }

  bool MayAttempt(Index need) const {
    return can_yield_ && attempts_ > 0 && (need == kNone || !attempted_[need]);
  }

  // Moves or preempts jobs. True: the request gets its GPUs as soon as these jobs have left.
  bool MakesRoom(const PlacementRequest& request, Index need) {
    if (!MayAttempt(need)) return false;
    --attempts_;
    WallTime again = kNever;
    auto plan = MakeRoomByMoving(room_, request);
    if (!plan) plan = MakeRoomByPreempting(room_, ranks_, request, again);
    if (!plan) {
      if (!request.need.preemptible) WakeAt(request.since + snapshot_.settings.preempt_wait);
      if (need != kNone) attempted_[need] = true;
      WakeAt(again);
      return false;
    }
    for (const auto& [running, to] : plan->moves) {
      const RunningJobInput& job = snapshot_.running[running];
      plan_.moves.push_back({job.id, job.gpus, to, request.job});
      PlacementRequest moved = PlacementRequestOf(job);
      moved.end = room_.EndOf(job);
      moved.host_counted = true;
      room_.Take(moved, to);
      room_.Dismiss(running);
    }
    for (const Index running : plan->preempts)
      Preempted(running, request.job,
                std::find(plan->ends.begin(), plan->ends.end(), running) != plan->ends.end());
    room_.Take(request, plan->gpus);
    return true;
  }

  // Keeps GPUs for the first job for which the machine has no room. Returns when the job can start; kNever:
  // that is not known.
  WallTime KeepFor(const PlacementRequest& request) {
    if (kept_) return kNever;
    const auto ahead = Earliest(room_, ranks_, request);
    if (!ahead) return kNever;
    kept_ = true;
    if (const WallTime keep = KeptFrom(request, *ahead); now_ < keep) {
      WakeAt(keep);
      return kNever;
    }
    room_.Claim(request, ahead->gpus, ahead->at == kNever ? now_ + snapshot_.settings.slack : ahead->at);
    return ahead->at;
  }

  // The time from which the pass keeps GPUs for the job; earlier if the job can start sooner.
  WallTime KeptFrom(const PlacementRequest& request, const EarliestStart& ahead) const {
    const WallTime last = request.since + snapshot_.settings.patience;
    const double ratio = snapshot_.settings.keep_ratio;
    if (ahead.at == kNever || ratio == 0) return last;
    const double waits = static_cast<double>((ahead.at - request.since).count());
    return std::min(last, request.since + Millis(static_cast<std::int64_t>(waits * ratio / (1 + ratio))));
  }

  void WakeAtRelief(const WaitingJobInput& job) {
    WakeAt(std::min(snapshot_.users[job.user].window_relief,
                    job.project == kNone ? kNever : snapshot_.projects[job.project].window_relief));
  }

  const Snapshot& snapshot_;
  WallTime now_;
  Plan plan_{};
  Ranks ranks_;
  RoomChecker room_;
  QuotaTracker quota_use_;
  std::vector<WaitReason> refused_;  // for each need: why there is no room for it any more in this pass
  std::vector<bool> attempted_;      // for each need: no jobs can make room for it
  int attempts_ = 0;
  PlacementRefusalCache refusals_{};
  bool can_yield_ = false;  // some job may be preempted or moved
  bool kept_ = false;
  WallTime wake_ = kNever;
};

}  // namespace

Plan Pass(const Snapshot& snapshot, WallTime now) { return Passing(snapshot, now).Run(); }

}  // namespace gpuman::queue
