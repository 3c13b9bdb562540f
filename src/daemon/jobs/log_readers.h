// Threads that read logs for requests, so that a disk, or what users made of their files, holds up nobody
// else. Each user has one of them at a time; users take turns.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>

#include "base/fair_queue.h"

namespace gpuman::daemon {

class LogReaders {
 public:
  explicit LogReaders(boost::asio::io_context& loop);
  // Waits for what is being read; the rest is dropped.
  ~LogReaders() = default;
  LogReaders(const LogReaders&) = delete;
  LogReaders& operator=(const LogReaders&) = delete;

  // `read` on a thread, when it is the user's turn, and then `then` on the loop. `read` takes a moment.
  void Do(uid_t user, std::function<void()> read, std::function<void()> then);

 private:
  static constexpr std::size_t kThreads = 2;
  boost::asio::thread_pool threads_{kThreads};
  base::FairQueue tasks_;  // goes before the threads that it has work for
};

}  // namespace gpuman::daemon
