#include "base/await_ready.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <optional>

namespace gpuman::base {
namespace {

using Descriptor = boost::asio::posix::stream_descriptor;

class AwaitReadyTest : public testing::Test {
 protected:
  struct Pipe {
    explicit Pipe(boost::asio::io_context& loop) {
      std::array<int, 2> ends{};
      EXPECT_EQ(::pipe(ends.data()), 0);
      reads.emplace(loop, ends[0]);
      writes = ends[1];
    }
    ~Pipe() { ::close(writes); }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    void Write() const { ASSERT_EQ(::write(writes, "x", 1), 1); }
    std::optional<Descriptor> reads;
    int writes = -1;
  };

  // Opens `late` after the kernel has told of an event of `closed`, and before that event is dealt with.
  template <typename Wait>
  void OpenBetween(Wait wait) {
    Pipe first(loop_), closed(loop_);
    first.reads->async_wait(Descriptor::wait_read, [&](boost::system::error_code) {
      closed.reads.reset();
      late_.emplace(loop_);
      wait(*late_->reads);
    });
    closed.reads->async_wait(Descriptor::wait_read, [](boost::system::error_code) {});
    first.Write();
    closed.Write();
    loop_.poll();
  }

  boost::asio::io_context loop_;
  std::optional<Pipe> late_;
};

TEST_F(AwaitReadyTest, AnEventOfADescriptorThatWasClosedDoesNotEndTheWait) {
  int times = 0;
  OpenBetween([&](Descriptor& late) { AwaitReady(late, Descriptor::wait_read, POLLIN, [&] { ++times; }); });
  EXPECT_EQ(times, 0);
  late_->Write();
  loop_.restart();
  loop_.run();
  EXPECT_EQ(times, 1);
}

TEST_F(AwaitReadyTest, NothingIsCalledOfADescriptorThatIsClosed) {
  Pipe pipe(loop_);
  bool called = false;
  AwaitReady(*pipe.reads, Descriptor::wait_read, POLLIN, [&] { called = true; });
  loop_.poll();
  pipe.reads.reset();
  loop_.restart();
  loop_.run();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace gpuman::base
