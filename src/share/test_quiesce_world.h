// A model of the processes of one job, their GPUs, gates and shims in simulated time, for the tests of
// QuiescePlanner.
//
// Each GPU executes its streams side by side and the work of a stream in order. Threads launch ahead, block
// where a queue is full, synchronise, wait for other processes and capture streams. The shims publish late,
// by delays drawn at random, so a shim that lets calls through sees too late that another unit came to rest.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "share/quiesce_planner.h"

namespace gpuman::share {

struct Work {
  // kMeeting: does not end before `parts` of it with the same key are at the heads of their streams. kAwait:
  // does not end before there were `parts` posts with its key, by a kPost or by a host.
  enum class Kind { kKernel, kMeeting, kPost, kAwait };
  Kind kind = Kind::kKernel;
  Span time{};  // of a kernel, and of a meeting once it is complete
  std::uint64_t key = 0;
  unsigned parts = 0;
};

struct Op {
  // kLaunch to kEndCapture are calls, which pass the gate. A kCaptured call submits nothing.
  enum class Kind { kHost, kPost, kAwait, kLaunch, kSynchronize, kBeginCapture, kCaptured, kEndCapture };
  Kind kind = Kind::kHost;
  Span time{};  // of kHost
  std::uint64_t key = 0;
  unsigned parts = 0;
  unsigned stream = 0;
  std::vector<Work> work{};  // of kLaunch: one, or a graph of several
};

struct JobPlan {
  struct Unit {
    unsigned process = 0, streams = 1;
    std::size_t ahead = 1024;  // works that a stream can have; a launch into a full one blocks
  };
  // Executes ops(0), ops(1), … for ever.
  struct Thread {
    unsigned unit = 0;
    std::function<std::vector<Op>(std::uint64_t step)> ops;
  };
  std::vector<Unit> units;
  std::vector<Thread> threads;
};

class QuiesceWorld {
 public:
  struct Result {
    QuiesceDecision::Kind kind = QuiesceDecision::Kind::kWait;
    QuiescePlanner::Figures figures{};
    unsigned behind = 0;  // calls behind work
    unsigned passes = 0;  // decisions that let calls through behind work: each may pass a meeting
    // The most calls that are needed, if all units meet at the end of each step: to the end of the step in
    // which the furthest thread was when the first call was allowed, one step more for each of `passes`, and
    // eight for each leap (of eight calls).
    std::uint64_t needed = 0;
    std::uint64_t beyond = 0;  // the most calls that the grants' strides let through without a look
    QuiesceHistory history{};
    std::string said{};  // every decision that is not to wait
  };

  QuiesceWorld(JobPlan plan, std::uint64_t seed);

  void RunFor(Span span);
  // Orders the gates to close, lets a QuiescePlanner decide until it is over, and looks for a while whether
  // that holds.
  Result Close(const QuiesceSettings& settings, QuiesceHistory history, Span limit);
  void Open();
  // Runs until each thread has begun another step; false: that took longer than `limit`.
  bool GoesOn(Span limit);
  // Describes what happened although it must never; empty: nothing.
  const std::string& problem() const { return problem_; }
  base::MonoTime now() const { return now_; }

 private:
  enum class What { kHostDone, kWorkDone, kReturned, kOrder, kPublish, kGrant, kPermit, kServer, kObserve };
  struct Event {
    base::MonoTime time;
    std::uint64_t number = 0;
    What what{};
    unsigned index = 0, stream = 0;
    std::uint64_t serial = 0;
    bool operator<(const Event& other) const {
      return std::pair(time, number) > std::pair(other.time, other.number);
    }
  };
  struct Stream {
    std::deque<Work> queue;
    bool started = false;  // its first work
  };
  struct Unit {
    std::vector<Stream> streams;
    unsigned process = 0;
    std::size_t ahead = 0;
    std::size_t works = 0;  // in all streams
    unsigned in_call = 0;   // threads
    base::MonoTime busy_since{};
    // What the shim has published.
    bool says_works = true, says_waits = false;
  };
  struct Thread {
    enum class State { kHost, kAwaits, kAtGate, kPermitted, kInCall, kBlocked };
    State state = State::kHost;
    unsigned unit = 0;
    std::vector<Op> ops;
    std::size_t next = 0;
    std::uint64_t steps = 0;  // begun
    std::uint64_t arrival = 0;
    const Op& op() const { return ops[next]; }
  };
  struct MemoryGrant {
    enum class State { kNone, kWaiter, kCall, kCapture, kObserve, kLong, kPause, kEnded };
    State state = State::kNone;
    unsigned unit = 0;
    GateCallGrant order{};
    unsigned calls = 0;
    unsigned thread = 0;  // the thread that makes the call
    std::uint64_t rests = 0;
    std::uint64_t serial = 0;
  };
  struct Process {
    bool open = true, ordered = false, says_shut = false, publishes = false, told = true;
    unsigned captures = 0, in_call = 0;
    std::uint64_t calls = 0, says_calls = 0;  // calls that have returned
    MemoryGrant grant, next_grant;
    std::vector<unsigned> units;
  };
  struct Key {
    unsigned count = 0;
    std::vector<unsigned> threads;                       // threads that wait
    std::vector<std::pair<unsigned, unsigned>> streams;  // streams of units, that wait
  };

  // --- test_quiesce_world.cc: programs and GPUs
  void At(base::MonoTime time, What what, unsigned index, unsigned stream = 0, std::uint64_t serial = 0);
  void Handle(const Event& event);
  bool StepOnce(base::MonoTime end);
  Span Between(int least_us, int most_us);
  void GoOn(unsigned thread);
  bool DoOp(unsigned thread);
  void Arrive(unsigned thread);
  void Enter(unsigned thread);
  void Submit(unsigned thread);
  void Returned(unsigned thread);
  void Post(std::uint64_t key);
  void StartHead(unsigned unit, unsigned stream);
  void WorkDone(unsigned unit, unsigned stream);
  void Unblock(unsigned unit);
  bool IsBusy(unsigned unit) const;
  bool IsQuiet() const;
  std::uint64_t CallsBefore(std::uint64_t steps) const;

  // --- test_quiesce_world_shim.cc: gates, shims and what asks QuiescePlanner
  void Shut(unsigned process);
  void OpenGate(unsigned process);
  void Changed(unsigned process);
  void Publish(unsigned process);
  bool Works(unsigned unit) const;
  std::optional<unsigned> Waiter(unsigned unit) const;
  void BeginGrant(unsigned process);
  void Serve(unsigned process);
  void Timer(unsigned process, Span after);
  void OnTimer(unsigned process);
  void CallMade(unsigned process);
  void CheckGrant(unsigned process);
  void EndGrant(unsigned process);
  void Notify();
  void ObserveAt(base::MonoTime time);
  void Observe();
  QuiesceView ViewNow();
  void CarryOut(const QuiesceDecision& decision);
  ProcessGpuId IdOf(unsigned unit) const;
  void Problem(std::string what);

  JobPlan plan_;
  std::mt19937_64 random_;
  std::vector<Unit> units_;
  std::vector<Thread> threads_;
  std::vector<Process> processes_;
  std::unordered_map<std::uint64_t, Key> keys_, meetings_;
  std::priority_queue<Event> events_;
  std::uint64_t numbers_ = 0, arrivals_ = 0, rests_ = 0;
  base::MonoTime now_{};

  std::optional<QuiescePlanner> planner_;
  QuiesceDecision last_{};
  std::uint64_t looks_ = 0;  // the number of the look that is due
  base::MonoTime look_time_{};
  bool closed_ = false;
  std::vector<Thread> before_;  // as the threads were when the first call was allowed
  Result result_{};
  std::string problem_;
};

}  // namespace gpuman::share
