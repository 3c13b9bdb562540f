// Long work of many requests on one event loop, in slices. The loop runs one slice at a time, and parties
// take turns. So a short request waits for one slice at most, and no party's work delays another party's.
//
// A slice works until its TimeSlice is over and returns whether there is more to do. Between two slices the
// loop does what has come meanwhile. Several works of one party take turns as well.
//
// Not thread-safe: lives on the event loop. The destructor drops the remaining work.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>

#include "base/clock.h"
#include "base/executor.h"
#include "base/round_robin_queue.h"
#include "base/units.h"
#include "base/weak_self.h"

namespace gpuman::base {

// How long a slice may take.
class TimeSlice {
 public:
  TimeSlice(const Clock& clock, MonoTime end) : clock_(clock), end_(end) {}
  bool IsOver() const { return clock_.Mono() >= end_; }

 private:
  const Clock& clock_;
  MonoTime end_;
};

class SlicedWork {
 public:
  // True: there is more to do. A slice that has returned false is not called again.
  using Slice = std::function<bool(const TimeSlice&)>;
  static constexpr std::chrono::microseconds kTurn{2'000};

  // `to_loop` calls its argument on the loop, after everything that waits there. `clock` must outlive
  // this object.
  SlicedWork(Executor to_loop, const Clock& clock) : to_loop_(std::move(to_loop)), clock_(clock) {}
  SlicedWork(const SlicedWork&) = delete;
  SlicedWork& operator=(const SlicedWork&) = delete;

  // The first slice runs later, never within this call.
  void Add(Party who, Slice slice);
  // Calls `act` for each number below `count`, then `then`: all within this call for at most kMaxAtOnce, else
  // in slices that look at the clock before each.
  void ForEach(Party who, std::size_t count, std::function<void(std::size_t)> act,
               std::function<void()> then);
  static constexpr std::size_t kMaxAtOnce = 64;

 private:
  void PostNext();
  void DoOne();

  Executor to_loop_;
  const Clock& clock_;
  std::map<Party, std::deque<Slice>> work_;  // no list is empty
  Party last_ = 0;                           // the party of the last turn
  bool posted_ = false;
  WeakSelf<SlicedWork> self_{this};
};

}  // namespace gpuman::base
