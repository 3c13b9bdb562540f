// Threads that read logs for requests, so that a slow disk, or a file that its user has replaced by something
// else, holds up no other user. Each user has one thread at a time; users take turns.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>

#include "base/fair_task_executor.h"

namespace gpuman::daemon {

class LogReaderPool {
 public:
  explicit LogReaderPool(boost::asio::io_context& loop);
  // Waits for reads that are under way, and drops those that wait.
  ~LogReaderPool() = default;
  LogReaderPool(const LogReaderPool&) = delete;
  LogReaderPool& operator=(const LogReaderPool&) = delete;

  // Calls `read` on a thread when it is the user's turn, and then `then` on the loop. `read` must be short.
  void Do(uid_t user, std::function<void()> read, std::function<void()> then);

 private:
  static constexpr std::size_t kThreads = 2;
  boost::asio::thread_pool threads_{kThreads};
  base::FairTaskExecutor tasks_;  // destroyed before the threads for which it has tasks
};

}  // namespace gpuman::daemon
