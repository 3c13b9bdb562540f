// Threads that run one function each, and that can be waited for.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace gpuman::mover {

// Thread-safe, but for the destructor.
class ThreadGroup {
 public:
  ThreadGroup() = default;
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  ~ThreadGroup() { Wait(); }

  // Runs `function` in a thread of its own.
  template <typename Function>
  void Run(Function function) {
    {
      const std::lock_guard lock(mutex_);
      ++running_;
    }
    std::thread([this, once = std::optional<Function>(std::move(function))]() mutable {
      (*once)();
      once.reset();  // what it holds may need what is gone after Wait
      const std::lock_guard lock(mutex_);
      --running_;
      changed_.notify_all();
    }).detach();
  }

  // Waits until every function has returned, and is destroyed.
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return running_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0;
};

}  // namespace gpuman::mover
