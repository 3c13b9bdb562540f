#include "base/closer.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/test_slow_closing_socket.h"

namespace gpuman::base {
namespace {

bool AThreadIsClosing() {
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored))
    if (ReadFile(task.path() / "comm").value_or("") == "gpuman-closing\n") return true;
  return false;
}

TEST(Closer, LingeringSocketIsClosedAndHoldsNoThread) {
  SlowClosingSocket lingering;
  ASSERT_TRUE(lingering.ok());
  {
    Closer closer;
    closer.Close(lingering.Take());
  }
  // The other end has not read yet; even so, no thread may remain that waits for that.
  for (int i = 0; i < 1000 && AThreadIsClosing(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(AThreadIsClosing());
  lingering.AwaitClosed();
}

TEST(Closer, ClosesASocketThatIsQueuedOnAnother) {
  SlowClosingSocket lingering;
  ASSERT_TRUE(lingering.ok());
  int ends[2] = {};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Fd one(ends[0]);
  ASSERT_TRUE(lingering.PassTo(ends[1], "x"));
  Closer closer;
  closer.Close(Fd(ends[1]));
  closer.Close(std::move(one));
  lingering.AwaitClosed();
}

TEST(Closer, KeepsWhatItIsToCloseWhileItIsPaused) {
  SlowClosingSocket lingering;
  ASSERT_TRUE(lingering.ok());
  Closer closer;
  Fd fd = lingering.Take();
  const int number = fd.get();
  {
    const CloserPause pause, another;
    closer.Close(std::move(fd));
    while (!AThreadIsClosing()) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) {
      ASSERT_NE(::fcntl(number, F_GETFD), -1);
      std::this_thread::yield();
    }
  }
  lingering.AwaitClosed();
}

TEST(Closer, OtherDescriptorsStayOpen) {
  int ends[2] = {}, others[2] = {};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC) | ::pipe2(others, O_CLOEXEC), 0);
  const Fd reader(ends[0]), other_reader(others[0]), other_writer(others[1]);
  {
    Closer closer;
    for (int i = 0; i < 10; ++i) closer.Close(Fd(::fcntl(other_writer.get(), F_DUPFD_CLOEXEC, 100)));
    closer.Close(Fd(ends[1]));
  }
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 0) << "closed";
  ASSERT_EQ(::write(other_writer.get(), "x", 1), 1);
  EXPECT_EQ(::read(other_reader.get(), &byte, 1), 1);
}

}  // namespace
}  // namespace gpuman::base
