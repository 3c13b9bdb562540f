#include "daemon/log_readers.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace gpuman::daemon {

LogReaders::~LogReaders() {
  *self_ = nullptr;
  threads_.join();
}

void LogReaders::Do(uid_t user, std::function<void()> read, std::function<void()> then) {
  const auto [mine, first] = waiting_.try_emplace(user);
  mine->second.push_back({std::move(read), std::move(then)});
  if (first) order_.push_back(user);
  Start();
}

void LogReaders::Start() {
  while (reading_ < kThreads && !order_.empty()) {
    const uid_t user = order_.front();
    order_.pop_front();
    Task task = std::move(waiting_.at(user).front());
    waiting_.at(user).pop_front();
    ++reading_;
    boost::asio::post(threads_, [&loop = loop_, self = self_, user, task = std::move(task)]() mutable {
      task.read();
      boost::asio::post(loop, [self = std::move(self), user, then = std::move(task.then)] {
        if (!*self) return;
        (*self)->Finish(user);
        then();
      });
    });
  }
}

void LogReaders::Finish(uid_t user) {
  --reading_;
  const auto mine = waiting_.find(user);
  if (mine->second.empty())
    waiting_.erase(mine);
  else
    order_.push_back(user);
  Start();
}

}  // namespace gpuman::daemon
