#include "jobs/root_watch.h"

#include <utility>

namespace gpuman::jobs {

RootWatch::RootWatch(boost::asio::io_context& loop, base::Fd process)
    : process_(loop, process.Release()), timer_(loop) {}

base::Result<std::unique_ptr<RootWatch>> RootWatch::Begin(boost::asio::io_context& loop,
                                                          base::ProcessId process,
                                                          std::function<void()> ended) {
  GPUMAN_ASSIGN(auto descriptor, base::OpenProcess(process));
  std::unique_ptr<RootWatch> watch(new RootWatch(loop, std::move(descriptor)));
  watch->process_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                             [ended = std::move(ended)](boost::system::error_code error) {
                               if (!error) ended();
                             });
  return watch;
}

void RootWatch::After(base::Millis time, std::function<void()> act) {
  timer_.expires_after(time);
  timer_.async_wait([act = std::move(act)](boost::system::error_code error) {
    if (!error) act();
  });
}

}  // namespace gpuman::jobs
