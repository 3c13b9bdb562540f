#include "base/process_spawner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "base/closer.h"
#include "base/test_slow_closing_socket.h"

namespace gpuman::base {
namespace {

pid_t ChildThatStays() {
  const pid_t pid = ::fork();
  if (pid == 0)
    for (;;) ::pause();
  return pid;
}

TEST(WatchChild, DescriptorIsReadableOnceChildHasEnded) {
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
  // The limit below leaves no descriptor free.
  const rlimit none{static_cast<rlim_t>(next.get()) + 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto watch = WatchChild(child);
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(watch);
  EXPECT_EQ(watch.error().code, ErrorCode::kExhausted) << watch.error().message;
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD) << "it was ended and waited for";
}

TEST(WaitForChild, ReturnsTheStatusOfWhatHasEnded) {
  const pid_t child = ChildThatStays();
  ASSERT_GT(child, 0);
  ::kill(child, SIGKILL);
  const auto status = WaitForChild(child);
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFSIGNALED(*status));
  EXPECT_EQ(ShellStatus(*status), 128 + SIGKILL);
  EXPECT_FALSE(WaitForChild(child)) << "it was reaped";
  EXPECT_EQ(errno, ECHILD);
}

TEST(ShellStatus, IsTheExitStatusOfAChildThatExited) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(7);
  EXPECT_EQ(ShellStatus(WaitForChild(child).value_or(0)), 7);
}

TEST(OwnEnvironment, HasTheVariablesOfThisProcess) {
  ASSERT_EQ(::setenv("GPUMAN_OWN_ENVIRONMENT_TEST", "a=b", 1), 0);
  const auto variables = OwnEnvironment();
  ::unsetenv("GPUMAN_OWN_ENVIRONMENT_TEST");
  EXPECT_EQ(std::count(variables.begin(), variables.end(), "GPUMAN_OWN_ENVIRONMENT_TEST=a=b"), 1);
}

class Spawned {
 public:
  // Runs a shell and reads its output.
  explicit Spawned(const std::string& script) {
    int ends[2] = {};
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    from_ = Fd(ends[0]);
    const Fd to(ends[1]);
    std::string words[] = {"sh", "-c", script};
    char* const arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    char* const environment[] = {nullptr};
    ProcessSpawner setup;
    setup.GiveNull(0, O_RDONLY);
    setup.Give(to.get(), 1);
    setup.Give(to.get(), 2);
    setup.CloseFrom(3);
    pid_ = setup.Start("/bin/sh", arguments, environment);
  }
  ~Spawned() { EXPECT_EQ(Status(), 0); }

  const Result<pid_t>& pid() const { return pid_; }
  std::string Output() const {
    std::string all(65536, 0);
    std::size_t size = 0;
    for (ssize_t n = 1; n > 0; size += static_cast<std::size_t>(std::max<ssize_t>(n, 0)))
      n = ::read(from_.get(), all.data() + size, all.size() - size);
    all.resize(size);
    return all;
  }

 private:
  int Status() const {
    int status = -1;
    if (pid_) ::waitpid(*pid_, &status, 0);
    return status;
  }
  Fd from_;
  Result<pid_t> pid_ = Fail(ErrorCode::kInternal, "not started");
};

TEST(ProcessSpawner, ChildHasOnlyTheRequestedDescriptors) {
  const Fd other(::open("/dev/null", O_RDONLY));  // a child of fork(2) would have it
  // Only built-in commands: the shell has more descriptors while it starts a program.
  const Spawned child(
      "n=0; while [ $n -lt 1024 ]; do"
      " if [ -c /proc/$$/fd/$n ]; then echo $n device; elif [ -p /proc/$$/fd/$n ]; then echo $n pipe;"
      " elif [ -e /proc/$$/fd/$n ]; then echo $n other; fi; n=$((n + 1)); done");
  ASSERT_TRUE(child.pid()) << child.pid().error().message;
  EXPECT_EQ(child.Output(), "0 device\n1 pipe\n2 pipe\n");
}

TEST(ProcessSpawner, StartsWithTheSignalsAsUsualInASessionOfItsOwn) {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t blocked, before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  {
    // Only built-in commands: the shell blocks signals while it starts a program.
    const Spawned child(
        "while read -r name value; do case $name in SigBlk:|SigIgn:) echo $value;; esac; done "
        "</proc/$$/status;"
        "read -r pid name state parent group session rest </proc/$$/stat; echo $session");
    ASSERT_TRUE(child.pid()) << child.pid().error().message;
    std::istringstream output(child.Output());
    std::uint64_t blocked_there = 1, ignored = 1;
    pid_t session = 0;
    output >> std::hex >> blocked_there >> ignored >> std::dec >> session;
    // Signals 32 and 33 belong to the C library; posix_spawn leaves them ignored.
    constexpr std::uint64_t kOfTheCLibrary = 0x1'8000'0000;
    EXPECT_EQ(blocked_there, 0U);
    EXPECT_EQ(ignored & ~kOfTheCLibrary, 0U);
    EXPECT_EQ(session, *child.pid());
  }
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, &before, &after);
  EXPECT_TRUE(::sigismember(&after, SIGTERM)) << "this process's are as they were";
  ::signal(SIGPIPE, SIG_DFL);
}

TEST(ProcessSpawner, SaysWhyAProgramDoesNotStartAndLeavesNoChild) {
  char word[] = "nothing";
  char* const words[] = {word, nullptr};
  const auto pid = ProcessSpawner().Start("/nowhere/nothing", words, words + 1);
  ASSERT_FALSE(pid);
  EXPECT_EQ(pid.error().code, ErrorCode::kNotFound);
  EXPECT_NE(pid.error().message.find("/nowhere/nothing"), std::string::npos);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

// The child has a copy until it executes. If that were the last copy, this test would wait for an hour.
TEST(ProcessSpawner, IsNotHeldUpByASocketThatIsClosedMeanwhile) {
  for (int round = 0; round < 200; ++round) {
    SlowClosingSocket lingering;  // closes its other end too, so that no thread waits any more
    ASSERT_TRUE(lingering.ok());
    Closer closer;
    closer.Close(lingering.Take());
    const Spawned child("echo started");
    ASSERT_TRUE(child.pid()) << child.pid().error().message;
    EXPECT_EQ(child.Output(), "started\n");
  }
}

}  // namespace
}  // namespace gpuman::base
