// A thread for driver calls that take long or may hang, so that neither holds the event loop up.
//
// Work is done in order. What it was to say afterwards is said on the loop, or never, once Stop was called.
// Run and Stop from one thread (the loop's).
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <thread>

#include "base/units.h"

namespace gpuman::daemon {

class DriverThread {
 public:
  // `loop` must outlive Stop.
  explicit DriverThread(boost::asio::io_context& loop);
  ~DriverThread();  // the same as Stop
  DriverThread(const DriverThread&) = delete;
  DriverThread& operator=(const DriverThread&) = delete;

  void Run(std::function<void()> work, std::function<void()> then);
  // Waits so long for the call that is under way, and leaves the thread behind with it after that: such a
  // process should end by _exit.
  void Stop(base::Millis patience = base::Millis(2000));
  bool left_a_thread() const { return left_a_thread_; }

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with a thread that may stay in a driver call after our end
  std::thread thread_;              // begun with the first work
  bool left_a_thread_ = false;
};

}  // namespace gpuman::daemon
