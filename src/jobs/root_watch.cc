#include "jobs/root_watch.h"

#include <utility>

#include "base/await_ready.h"

namespace gpuman::jobs {

base::Result<std::unique_ptr<RootWatch>> RootWatch::Begin(boost::asio::io_context& loop,
                                                          base::ProcessId process,
                                                          std::function<void()> ended) {
  std::unique_ptr<RootWatch> watch(new RootWatch(loop));
  GPUMAN_TRY(watch->Follow(process, std::move(ended)));
  return watch;
}

base::Result<> RootWatch::Follow(base::ProcessId process, std::function<void()> ended) {
  GPUMAN_ASSIGN(auto descriptor, base::OpenProcess(process));
  boost::system::error_code ignored;
  process_.close(ignored);
  process_.assign(descriptor.Release());
  base::AwaitReady(process_, process_.wait_read, POLLIN, std::move(ended));
  return {};
}

void RootWatch::After(base::Millis time, std::function<void()> act) {
  timer_.expires_after(time);
  timer_.async_wait([act = std::move(act)](boost::system::error_code error) {
    if (!error) act();
  });
}

}  // namespace gpuman::jobs
