// A timer at a time of day.
//
// The timer follows the wall clock: after the clock was set, or the machine has slept, the timer expires by
// the new time. It also tells at once that the clock was set. It costs nothing until then. Not thread-safe:
// lives on the event loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "base/clock.h"

namespace gpuman::daemon {

class WallClockTimer {
 public:
  // `on_time` is called on the loop after every SetTime when that time has come, and whenever the clock was
  // set; the timer rests then until the next SetTime. `loop` must outlive this object.
  WallClockTimer(boost::asio::io_context& loop, std::function<void()> on_time);
  ~WallClockTimer();
  WallClockTimer(const WallClockTimer&) = delete;
  WallClockTimer& operator=(const WallClockTimer&) = delete;

  // Replaces an earlier time. nullopt: the timer never expires, but still tells that the clock was set.
  void SetTime(std::optional<base::WallTime> at);

 private:
  struct State;
  static void Wait(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;
};

}  // namespace gpuman::daemon
