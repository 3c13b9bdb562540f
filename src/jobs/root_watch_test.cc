#include "jobs/root_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <optional>

namespace gpuman::jobs {
namespace {

using boost::asio::posix::stream_descriptor;

class RootWatchTest : public testing::Test {
 protected:
  RootWatchTest() : child_(::fork()) {
    if (child_ != 0) return;
    for (;;) ::pause();
  }
  ~RootWatchTest() override { End(); }

  void End() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(std::exchange(child_, 0), nullptr, 0);
  }
  void Begin() {
    const auto id = base::IdentityOf(child_);
    ASSERT_TRUE(id);
    auto watch = RootWatch::Begin(loop_, *id, [this] { ++ended_; });
    ASSERT_TRUE(watch) << watch.error().message;
    watch_ = std::move(*watch);
  }

  pid_t child_;
  boost::asio::io_context loop_;
  std::unique_ptr<RootWatch> watch_;
  int ended_ = 0;
};

TEST_F(RootWatchTest, TellsTheEndOfItsProcessOnce) {
  Begin();
  loop_.poll();
  EXPECT_EQ(ended_, 0);
  End();
  loop_.restart();
  loop_.run();
  EXPECT_EQ(ended_, 1);
}

// A client hangs up in the moment in which a job is attached.
TEST_F(RootWatchTest, TheLastEventOfADescriptorThatWasJustClosedIsNoEnd) {
  std::array<int, 2> first{}, closed{};
  ASSERT_EQ(::pipe(first.data()), 0);
  ASSERT_EQ(::pipe(closed.data()), 0);
  stream_descriptor reads_first(loop_, first[0]);
  std::optional<stream_descriptor> reads_closed(std::in_place, loop_, closed[0]);
  reads_first.async_wait(stream_descriptor::wait_read, [&](boost::system::error_code) {
    reads_closed.reset();
    Begin();
  });
  reads_closed->async_wait(stream_descriptor::wait_read, [](boost::system::error_code) {});
  ::close(first[1]);
  ::close(closed[1]);
  loop_.poll();
  ASSERT_NE(watch_, nullptr);
  EXPECT_EQ(ended_, 0);
}

}  // namespace
}  // namespace gpuman::jobs
