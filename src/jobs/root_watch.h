// Reports the end of a process that is not a child of this one, and keeps the timer of an end that was
// ordered. Lives on the event loop; not thread-safe. After its destruction no callback is called.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>

#include "base/process.h"
#include "base/units.h"

namespace gpuman::jobs {

class RootWatch {
 public:
  // kNotFound: the process has ended, and `ended` is not called.
  static base::Result<std::unique_ptr<RootWatch>> Begin(boost::asio::io_context& loop,
                                                        base::ProcessId process, std::function<void()> ended);
  // Watches another process, after the one before has ended. kNotFound: this one has ended too.
  base::Result<> Follow(base::ProcessId process, std::function<void()> ended);
  // Calls `act` after `time`, unless After is called again or the process has ended.
  void After(base::Millis time, std::function<void()> act);

 private:
  explicit RootWatch(boost::asio::io_context& loop) : process_(loop), timer_(loop) {}

  boost::asio::posix::stream_descriptor process_;  // a pidfd
  boost::asio::steady_timer timer_;
};

}  // namespace gpuman::jobs
