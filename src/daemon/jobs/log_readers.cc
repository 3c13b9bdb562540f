#include "daemon/jobs/log_readers.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace gpuman::daemon {

LogReaders::LogReaders(boost::asio::io_context& loop)
    : tasks_([this](std::function<void()> act) { boost::asio::post(threads_, std::move(act)); },
             [&loop](std::function<void()> act) { boost::asio::post(loop, std::move(act)); },
             {.of_all = kThreads}) {}

void LogReaders::Do(uid_t user, std::function<void()> read, std::function<void()> then) {
  tasks_.Add(user, {std::move(read), std::move(then)});
}

}  // namespace gpuman::daemon
