#include "queue/forecast.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "queue/room_checker.h"

namespace gpuman::queue {
namespace {

// A time, and whether it depends on the presumed length of a job without a time limit. Of two equal times,
// the presumed one counts as later.
struct Moment {
  WallTime at{};
  bool presumed = false;
  friend auto operator<=>(const Moment&, const Moment&) = default;
};

// A limit on the amount that jobs may hold at a time, and the times at which the holders return their parts.
class HoldLimit {
 public:
  void Limit(int limit) { limit_ = limit; }
  void Take(int amount, Moment until) {
    if (limit_ < 0) return;
    held_ += amount;
    ends_.emplace(until, amount);
  }
  // When a job may hold `amount` more. Callers call it in the order in which they take.
  Moment When(int amount, WallTime now) {
    Moment when{now};
    while (limit_ >= 0 && held_ + amount > limit_ && !ends_.empty()) {
      when = std::max(when, ends_.top().first);
      held_ -= ends_.top().second;
      ends_.pop();
    }
    return limit_ >= 0 && held_ + amount > limit_ ? Moment{kNever} : when;
  }

 private:
  using End = std::pair<Moment, int>;
  int limit_ = -1;  // none
  int held_ = 0;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_{};
};

class Forecasting {
 public:
  Forecasting(const Snapshot& snapshot, WallTime now)
      : snapshot_(snapshot),
        now_(now),
        room_(snapshot, now),
        whole_(snapshot.gpus.size(), Moment{now}),
        part_(snapshot.gpus.size(), Moment{now}),
        running_(2 * Accounts()),
        gpus_(2 * Accounts()),
        arrays_(snapshot.arrays.size()),
        groups_(snapshot.groups.size()) {
    SetLimits();
    for (const RunningJobInput& job : snapshot.running) Runs(job);
  }

  void Starts(const WaitingJobInput& job, const GpuSet& gpus) { Hold(job, gpus, {now_}); }

  // Places the job at its earliest start.
  Moment Place(const WaitingJobInput& job, WallTime known) {
    const Need& need = snapshot_.needs[job.need];
    Moment start = Allowed(job);
    GpuSet gpus;
    if (need.gpus > 0 && start.at != kNever) start = Soonest(job, start, gpus);
    if (known != kNever) start = {known};
    if (start.at == kNever || start.at > Horizon()) return {kNever};
    Hold(job, gpus, start);
    return start;
  }

 private:
  // So far from WallTime::max() that sums do not overflow.
  WallTime Horizon() const { return now_ + std::chrono::hours(24 * 366 * 100); }
  std::size_t Accounts() const { return std::max(snapshot_.users.size(), snapshot_.projects.size()); }
  static std::size_t RowOfUser(Index user) { return std::size_t{2} * user; }
  static std::size_t RowOfProject(Index project) { return std::size_t{2} * project + 1; }
  Millis LengthOf(const Need& need) const {
    return need.time_limit.count() > 0 ? need.time_limit : snapshot_.settings.presumed;
  }

  void SetLimits() {
    const auto set = [&](std::size_t row, const Quota& quota) {
      if (quota.running) running_[row].Limit(*quota.running);
      if (quota.gpus) gpus_[row].Limit(*quota.gpus);
    };
    for (std::size_t i = 0; i < snapshot_.users.size(); ++i) set(2 * i, snapshot_.users[i].quota);
    for (std::size_t i = 0; i < snapshot_.projects.size(); ++i) set(2 * i + 1, snapshot_.projects[i].quota);
    for (std::size_t i = 0; i < arrays_.size(); ++i)
      if (snapshot_.arrays[i].limit > 0) arrays_[i].Limit(snapshot_.arrays[i].limit);
    for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].Limit(snapshot_.groups[i].limit);
  }

  static bool IsPresumed(const Need& need) { return need.time_limit.count() <= 0; }

  void Runs(const RunningJobInput& job) {
    const Need& need = snapshot_.needs[job.need];
    const bool leaving = job.phase == RunningPhase::kLeaving;
    const Moment end = leaving
                           ? Moment{now_}
                           : Moment{now_ + std::max(Millis(0), LengthOf(need) - job.ran), IsPresumed(need)};
    Count(job, need, end);
    if (job.phase == RunningPhase::kSuspended) return;
    ForEach(job.gpus, [&](std::size_t gpu) { Occupy(gpu, need, {now_}, end); });
  }

  void Hold(const WaitingJobInput& job, const GpuSet& gpus, Moment start) {
    const Need& need = snapshot_.needs[job.need];
    const Moment end{start.at + LengthOf(need), start.presumed || IsPresumed(need)};
    Count(job, need, end);
    ForEach(gpus, [&](std::size_t gpu) { Occupy(gpu, need, start, end); });
  }

  template <typename Job>
  void Count(const Job& job, const Need& need, Moment end) {
    running_[RowOfUser(job.user)].Take(1, end);
    gpus_[RowOfUser(job.user)].Take(need.gpus, end);
    if (job.project != kNone) {
      running_[RowOfProject(job.project)].Take(1, end);
      gpus_[RowOfProject(job.project)].Take(need.gpus, end);
    }
    if (job.array != kNone) arrays_[job.array].Take(1, end);
    if (job.group != kNone) groups_[job.group].Take(1, end);
  }

  // A shared job delays other shared ones by its part of the GPU's memory.
  void Occupy(std::size_t gpu, const Need& need, Moment start, Moment end) {
    whole_[gpu] = std::max(whole_[gpu], end);
    if (!need.share) {
      part_[gpu] = std::max(part_[gpu], end);
      return;
    }
    const double part = static_cast<double>(need.memory.count) /
                        static_cast<double>(std::max<std::uint64_t>(1, snapshot_.gpus[gpu].memory.count));
    const Moment from = std::max(part_[gpu], start);
    const Millis length(static_cast<std::int64_t>(static_cast<double>((end.at - start.at).count()) * part));
    part_[gpu] = {from.at + length, from.presumed || end.presumed};
  }

  // When quotas and throttles let the job start.
  Moment Allowed(const WaitingJobInput& job) {
    const int gpus = snapshot_.needs[job.need].gpus;
    Moment when{std::max(now_, job.begin)};
    when = std::max(
        {when, running_[RowOfUser(job.user)].When(1, now_), gpus_[RowOfUser(job.user)].When(gpus, now_)});
    if (job.project != kNone)
      when = std::max({when, running_[RowOfProject(job.project)].When(1, now_),
                       gpus_[RowOfProject(job.project)].When(gpus, now_)});
    if (job.array != kNone) when = std::max(when, arrays_[job.array].When(1, now_));
    if (job.group != kNone) when = std::max(when, groups_[job.group].When(1, now_));
    return when;
  }

  // The first time from `start` on at which enough usable GPUs are free; `gpus` returns these GPUs.
  Moment Soonest(const WaitingJobInput& job, Moment start, GpuSet& gpus) {
    const Need& need = snapshot_.needs[job.need];
    const auto count = static_cast<std::size_t>(need.gpus);
    for (;;) {
      order_.clear();
      ForEach(need.possible, [&](std::size_t gpu) {
        const Moment free = std::max(start, need.share ? part_[gpu] : whole_[gpu]);
        if (room_.IsUsable(gpu, need) && room_.HasRoomBesideLeft(gpu, need, job.id))
          order_.emplace_back(Unreserved(gpu, job, free), gpu);
      });
      if (order_.size() < count) return {kNever};
      const auto last = order_.begin() + static_cast<std::ptrdiff_t>(count) - 1;
      std::nth_element(order_.begin(), last, order_.end());
      // A GPU may be free earlier than the last one, and a reservation may begin on it before the last one is
      // free.
      const bool whole = std::all_of(order_.begin(), last, [&](const auto& each) {
        return Unreserved(each.second, job, last->first).at == last->first.at;
      });
      start = last->first;
      if (!whole) continue;
      for (std::size_t i = 0; i < count; ++i) gpus.set(order_[i].second);
      return start;
    }
  }

  // The first time from `from` on at which the job could run to its end without another user's reservation of
  // the GPU.
  Moment Unreserved(std::size_t gpu, const WaitingJobInput& job, Moment from) const {
    const Need& need = snapshot_.needs[job.need];
    const Millis length = need.preemptible && snapshot_.settings.preempt ? Millis(1) : LengthOf(need);
    for (bool moved = true; moved && from.at != kNever;) {
      moved = false;
      for (const Reservation& each : snapshot_.reservations) {
        if (!each.gpus.test(gpu) || each.end <= from.at || each.start >= from.at + length) continue;
        if (std::find(each.users.begin(), each.users.end(), job.user) != each.users.end()) continue;
        from.at = each.end;
        moved = true;
      }
    }
    return from;
  }

  const Snapshot& snapshot_;
  WallTime now_;
  RoomChecker room_;
  std::vector<Moment> whole_,
      part_;  // when all of each GPU is free, and when it has room for a shared job
  std::vector<std::pair<Moment, std::size_t>> order_{};
  std::vector<HoldLimit> running_, gpus_;  // users and projects alternate
  std::vector<HoldLimit> arrays_, groups_;
};

}  // namespace

StartEstimates Forecast(const Snapshot& snapshot, const Plan& plan, WallTime now, std::size_t most) {
  StartEstimates estimates{std::vector<WallTime>(snapshot.waiting.size(), kNever),
                           std::vector<bool>(snapshot.waiting.size(), false)};
  auto& [starts, presumed] = estimates;
  if (snapshot.paused) return estimates;
  Forecasting forecasting(snapshot, now);
  for (const StartDecision& start : plan.starts) {
    starts[start.waiting] = now;
    forecasting.Starts(snapshot.waiting[start.waiting], start.gpus);
  }
  for (std::size_t i = 0; i < plan.order.size() && i < most; ++i) {
    const Index waiting = plan.order[i];
    const Moment start = forecasting.Place(snapshot.waiting[waiting], plan.verdicts[waiting].start);
    starts[waiting] = start.at;
    presumed[waiting] = start.presumed;
  }
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (plan.verdicts[i].reason != WaitReason::kBeginTime &&
        plan.verdicts[i].reason != WaitReason::kRetryDelay)
      continue;
    starts[i] = snapshot.waiting[i].begin;
    presumed[i] = false;
  }
  return estimates;
}

}  // namespace gpuman::queue
