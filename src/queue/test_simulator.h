// A queue in simulated time, for tests. Jobs are submitted and run for their time; a policy decides which
// jobs start. The simulator carries out a plan as the daemon would. A job takes `hand_over` to leave a GPU,
// to come back, and to move.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "queue/priority.h"
#include "queue/test_lab.h"

namespace gpuman::queue {

struct SimulatedJob {
  Request request{};
  std::string user{};
  WallTime submit{};
  Millis run{};  // how long it runs
  bool suspendable = true;
  bool movable = true;
  base::Bytes left{};  // stays on each of its GPUs while it is suspended; then it is not movable

  // The result.
  std::optional<WallTime> started{};  // for the first time
  std::optional<WallTime> ended{};
  int preemptions = 0;
  int moves = 0;
};

class Simulator {
 public:
  using Policy = std::function<Plan(const Snapshot&, WallTime)>;

  Simulator(std::size_t gpus, Policy policy) : lab_(gpus), policy_(std::move(policy)) { lab_.settings = {}; }

  SchedulingSettings& settings() { return lab_.settings; }
  SnapshotUpdater& updater() { return lab_.updater; }
  const std::vector<SimulatedJob>& jobs() const { return jobs_; }
  std::size_t passes() const { return passes_; }
  // Called with each plan before it is carried out.
  void set_check(std::function<void(const Snapshot&, const Plan&, WallTime)> check) {
    check_ = std::move(check);
  }

  void Submit(SimulatedJob job) {
    events_.push({job.submit, events_seen_++, Kind::kSubmit, jobs_.size(), 0});
    jobs_.push_back(std::move(job));
    state_.emplace_back();
  }

  // Runs until nothing more happens, or until `until`.
  void Run(WallTime until = kNever) {
    while (!events_.empty() && events_.top().at <= until) {
      now_ = events_.top().at;
      while (!events_.empty() && events_.top().at == now_) {
        const Event event = events_.top();
        events_.pop();
        Handle(event);
      }
      while (Decide()) {
      }
    }
  }

  // GPU-hours of work done before `horizon`. An exclusive job counts all of its GPUs, a shared job its part
  // of them.
  double GpuHours(WallTime horizon) const {
    double sum = 0;
    for (const Segment& each : segments_) {
      const auto time = std::min(each.to, horizon) - std::min(each.from, horizon);
      sum += each.rate * std::chrono::duration<double, std::ratio<3600>>(time).count();
    }
    return sum;
  }

 private:
  enum class Kind { kSubmit, kEnd, kLeft, kMoved, kWake };
  enum class State { kFuture, kWaiting, kRunning, kLeaving, kMoving, kSuspended, kEnded };
  struct Event {
    WallTime at;
    std::uint64_t number;
    Kind kind;
    std::size_t job;
    int version;
    bool operator<(const Event& other) const {
      return std::tie(at, number) > std::tie(other.at, other.number);
    }
  };
  struct Active {
    State state = State::kFuture;
    int version = 0;
    GpuSet gpus{}, leaving{};
    Millis done{0};
    WallTime since{};  // start of the run, now or later; for a suspended job, of the suspension
    bool requeue = false;
  };
  struct Segment {
    WallTime from, to;
    double rate;
  };

  static base::MonoTime Mono(WallTime time) { return base::MonoTime{} + (time - kStart); }
  JobId IdOf(std::size_t job) const { return {static_cast<std::int64_t>(job) + 1}; }
  std::size_t JobOf(JobId id) const { return static_cast<std::size_t>(id.value - 1); }

  void Put(std::size_t job) {
    const SimulatedJob& what = jobs_[job];
    const Active& state = state_[job];
    if (state.state == State::kWaiting) {
      lab_.updater.PutWaiting({.id = IdOf(job), .user = what.user, .since = state.since}, what.request);
      return;
    }
    RunningJob row{
        .id = IdOf(job), .user = what.user, .suspendable = what.suspendable, .movable = what.movable};
    row.ran_before = state.done;
    ForEach(state.gpus, [&](std::size_t gpu) {
      row.gpus.push_back(Lab::Uuid(gpu));
      if (what.left.count > 0) row.left[Lab::Uuid(gpu)] = what.left;
    });
    ForEach(state.leaving, [&](std::size_t gpu) { row.leaving.push_back(Lab::Uuid(gpu)); });
    if (state.state == State::kSuspended) {
      row.phase = RunningPhase::kSuspended;
      row.wants_back = true;
      row.since = state.since;
    } else {
      row.phase = state.state == State::kLeaving  ? RunningPhase::kLeaving
                  : state.state == State::kMoving ? RunningPhase::kMoving
                                                  : RunningPhase::kRunning;
      if (state.state != State::kLeaving) row.on_since = Mono(state.since);
    }
    lab_.updater.PutRunning(row, what.request);
  }

  void Later(Millis time, Kind kind, std::size_t job) {
    events_.push({now_ + time, events_seen_++, kind, job, state_[job].version});
  }

  // Adds the work since the job was put on its GPUs.
  void Stop(std::size_t job) {
    Active& state = state_[job];
    ++state.version;
    if (now_ <= state.since) return;
    state.done += now_ - state.since;
    const UsageRate rate = RateOf(lab_.updater.snapshot(), lab_.updater.NeedOf(jobs_[job].request));
    segments_.push_back({state.since, now_, rate.memory});
  }

  void Go(std::size_t job, State how, Millis after) {
    Active& state = state_[job];
    ++state.version;
    state.state = how;
    state.since = now_ + after;
    Later(after + jobs_[job].run - state.done, Kind::kEnd, job);
  }

  void Handle(const Event& event) {
    if (event.kind == Kind::kWake) return;
    Active& state = state_[event.job];
    if (event.kind == Kind::kSubmit) {
      state.state = State::kWaiting;
      state.since = now_;
    } else if (event.version != state.version) {
      return;
    } else if (event.kind == Kind::kEnd) {
      Stop(event.job);
      state.state = State::kEnded;
      jobs_[event.job].ended = now_;
      lab_.updater.Erase(IdOf(event.job));
      const UsageRate rate = RateOf(lab_.updater.snapshot(), lab_.updater.NeedOf(jobs_[event.job].request));
      lab_.updater.Charge(jobs_[event.job].user, "", rate, now_ - jobs_[event.job].run, now_);
      return;
    } else if (event.kind == Kind::kMoved) {
      state.gpus &= ~state.leaving;
      state.leaving.reset();
      state.state = State::kRunning;
    } else {
      state.state = state.requeue ? State::kWaiting : State::kSuspended;
      if (state.requeue) state.done = Millis(0);
      state.since = now_;
    }
    Put(event.job);
  }

  bool Decide() {
    lab_.updater.SetSettings(lab_.settings);
    const Snapshot& snapshot = lab_.updater.View(Mono(now_));
    const Plan plan = policy_(snapshot, now_);
    ++passes_;
    if (check_) check_(snapshot, plan, now_);
    if (plan.wake_at && *plan.wake_at > now_ && *plan.wake_at != next_wake_) {
      next_wake_ = *plan.wake_at;
      events_.push({next_wake_, events_seen_++, Kind::kWake, 0, 0});
    }
    for (const PreemptDecision& each : plan.preempts) {
      const std::size_t job = JobOf(each.job);
      Stop(job);
      state_[job].state = State::kLeaving;
      state_[job].requeue = each.requeue;
      ++jobs_[job].preemptions;
      Put(job);
      Later(hand_over_, Kind::kLeft, job);
    }
    for (const MoveDecision& each : plan.moves) {
      const std::size_t job = JobOf(each.job);
      Stop(job);
      state_[job].gpus = each.from | each.to;
      state_[job].leaving = each.from;
      ++jobs_[job].moves;
      Go(job, State::kMoving, hand_over_);
      Put(job);
      Later(hand_over_, Kind::kMoved, job);
    }
    for (const ResumeDecision& each : plan.resumes) {
      state_[JobOf(each.job)].gpus = each.gpus;
      Go(JobOf(each.job), State::kRunning, hand_over_);
      Put(JobOf(each.job));
    }
    for (const StartDecision& each : plan.starts) {
      const std::size_t job = JobOf(each.job);
      if (!jobs_[job].started) jobs_[job].started = now_;
      state_[job].gpus = each.gpus;
      Go(job, State::kRunning, Millis(0));
      Put(job);
    }
    for (const CancelDecision& each : plan.cancels) lab_.updater.Erase(each.job);
    return !plan.preempts.empty() || !plan.moves.empty() || !plan.resumes.empty() || !plan.starts.empty();
  }

  Lab lab_;
  Policy policy_;
  std::function<void(const Snapshot&, const Plan&, WallTime)> check_{};
  std::vector<SimulatedJob> jobs_{};
  std::vector<Active> state_{};
  std::vector<Segment> segments_{};
  std::priority_queue<Event> events_{};
  std::uint64_t events_seen_ = 0;
  std::size_t passes_ = 0;
  WallTime now_ = kStart;
  WallTime next_wake_ = kNever;
  const Millis hand_over_{10'000};
};

}  // namespace gpuman::queue
