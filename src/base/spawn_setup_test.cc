#include "base/spawn_setup.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace gpuman::base {
namespace {

pid_t ChildThatStays() {
  const pid_t pid = ::fork();
  if (pid == 0)
    for (;;) ::pause();
  return pid;
}

TEST(WatchChild, TellsOfItsEnd) {
  const pid_t child = ChildThatStays();
  ASSERT_GT(child, 0);
  const auto watch = WatchChild(child);
  ASSERT_TRUE(watch) << watch.error().message;
  pollfd poller{watch->get(), POLLIN, 0};
  EXPECT_EQ(::poll(&poller, 1, 0), 0);
  ::kill(child, SIGKILL);
  EXPECT_EQ(::poll(&poller, 1, -1), 1);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(WatchChild, LeavesNothingOfAChildThatCannotBeWatched) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Fd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(next.ok());
  const pid_t child = ChildThatStays();
  ASSERT_GT(child, 0);
  // The lowest free descriptor is beyond it.
  const rlimit none{static_cast<rlim_t>(next.get()) + 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto watch = WatchChild(child);
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(watch);
  EXPECT_EQ(watch.error().code, ErrorCode::kExhausted) << watch.error().message;
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD) << "it was ended and waited for";
}

}  // namespace
}  // namespace gpuman::base
