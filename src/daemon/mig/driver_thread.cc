#include "daemon/mig/driver_thread.h"

#include <boost/asio/post.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace gpuman::daemon {

struct DriverThread::Shared {
  struct Task {
    std::function<void()> work, then;
  };
  explicit Shared(boost::asio::io_context& io) : loop(io) {}

  void Serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stopping || !tasks.empty(); });
      if (stopping) break;
      Task task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task.work();
      lock.lock();
      // Under the lock: after Stop there may be no loop.
      if (!stopping) boost::asio::post(loop, std::move(task.then));
    }
    ended = true;
    changed.notify_all();
  }

  boost::asio::io_context& loop;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> tasks;  // all guarded by mutex
  bool stopping = false;
  bool ended = false;
};

DriverThread::DriverThread(boost::asio::io_context& loop) : shared_(std::make_shared<Shared>(loop)) {}

DriverThread::~DriverThread() { Stop(); }

void DriverThread::Run(std::function<void()> work, std::function<void()> then) {
  if (!thread_.joinable()) {
    thread_ = std::thread([shared = shared_] { shared->Serve(); });
  }
  const std::lock_guard lock(shared_->mutex);
  shared_->tasks.push_back({std::move(work), std::move(then)});
  shared_->changed.notify_all();
}

void DriverThread::Stop(base::Millis patience) {
  if (!thread_.joinable()) return;
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->changed.notify_all();
  const bool ended = shared_->changed.wait_for(lock, patience, [this] { return shared_->ended; });
  lock.unlock();
  if (ended) return thread_.join();
  left_a_thread_ = true;
  thread_.detach();
}

}  // namespace gpuman::daemon
