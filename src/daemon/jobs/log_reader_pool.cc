#include "daemon/jobs/log_reader_pool.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace gpuman::daemon {

LogReaderPool::LogReaderPool(boost::asio::io_context& loop)
    : tasks_([this](std::function<void()> act) { boost::asio::post(threads_, std::move(act)); },
             [&loop](std::function<void()> act) { boost::asio::post(loop, std::move(act)); },
             {.of_all = kThreads}) {}

void LogReaderPool::Do(uid_t user, std::function<void()> read, std::function<void()> then) {
  tasks_.Add(user, {std::move(read), std::move(then)});
}

}  // namespace gpuman::daemon
