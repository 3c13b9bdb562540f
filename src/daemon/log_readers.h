// Threads that read logs for requests, so that a disk, or what users made of their files, holds up nobody
// else. Each user has one of them at a time; users take turns.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>

namespace gpuman::daemon {

class LogReaders {
 public:
  explicit LogReaders(boost::asio::io_context& loop) : loop_(loop) {}
  // Waits for what is being read; the rest is dropped.
  ~LogReaders();
  LogReaders(const LogReaders&) = delete;
  LogReaders& operator=(const LogReaders&) = delete;

  // `read` on a thread, when it is the user's turn, and then `then` on the loop. `read` takes a moment.
  void Do(uid_t user, std::function<void()> read, std::function<void()> then);

 private:
  struct Task {
    std::function<void()> read, then;
  };
  void Start();
  void Finish(uid_t user);

  static constexpr std::size_t kThreads = 2;
  boost::asio::io_context& loop_;
  std::map<uid_t, std::deque<Task>> waiting_;  // also of a user for whom is being read, who may have none
  std::deque<uid_t> order_;                    // who has tasks and for whom nothing is being read
  std::size_t reading_ = 0;
  // What is posted and outlives this object finds it gone.
  std::shared_ptr<LogReaders*> self_ = std::make_shared<LogReaders*>(this);
  boost::asio::thread_pool threads_{kThreads};
};

}  // namespace gpuman::daemon
