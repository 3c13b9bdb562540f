#include "daemon/shims/process_stop.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "base/process.h"

namespace gpuman::daemon {
namespace {

// A process whose first thread takes no signal, as in a long call of the driver, until it is let go on.
class BusyProcess {
 public:
  explicit BusyProcess(bool second_thread) {
    int fds[2];
    if (::pipe(fds) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) Run(fds, second_thread);
    ::close(fds[0]);
    let_go_ = fds[1];
    id = base::IdentityOf(pid_).value_or(base::ProcessId{});
    Await([&] { return State() == 'D'; });
  }
  ~BusyProcess() {
    LetGo();
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

  void LetGo() {
    if (let_go_ >= 0) ::close(let_go_);
    let_go_ = -1;
  }
  char State() const {
    const auto info = base::ProcFs().Find(pid_);
    return info ? info->state : '-';
  }
  static void Await(const std::function<bool()>& condition) {
    for (int i = 0; i < 30'000 && !condition(); ++i) ::usleep(1000);
    EXPECT_TRUE(condition());
  }

  base::ProcessId id;

 private:
  [[noreturn]] static void Run(const int* fds, bool second_thread) {
    ::close(fds[1]);
    std::thread other;
    if (second_thread)
      other = std::thread([] {
        for (;;) ::pause();
      });
    // The kernel holds a process in vfork until the child has ended.
    const pid_t child = ::vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
    if (child == 0) {
      char byte = 0;
      (void)!::read(fds[0], &byte, 1);
      ::_exit(0);
    }
    for (;;) ::pause();
  }

  pid_t pid_ = 0;
  int let_go_ = -1;
};

TEST(Stopped, AStopThatTheProcessHasNotTakenYetCounts) {
  BusyProcess process(/*second_thread=*/false);
  EXPECT_FALSE(IsOrWillBeStopped(process.id));
  ASSERT_TRUE(base::SendSignal(process.id, SIGSTOP));
  EXPECT_FALSE(IsStopped(process.id)) << "it shows nothing";
  EXPECT_TRUE(IsOrWillBeStopped(process.id));
  process.LetGo();
  BusyProcess::Await([&] { return IsStopped(process.id) == ProcessStopCause::kSignal; });
  EXPECT_TRUE(IsOrWillBeStopped(process.id));
  ASSERT_TRUE(base::SendSignal(process.id, SIGCONT));
  EXPECT_FALSE(IsOrWillBeStopped(process.id));
}

TEST(Stopped, AStopThatWasTakenBackBeforeTheProcessTookItDoesNotCount) {
  BusyProcess process(/*second_thread=*/false);
  ASSERT_TRUE(base::SendSignal(process.id, SIGSTOP));
  ASSERT_TRUE(base::SendSignal(process.id, SIGCONT));
  EXPECT_FALSE(IsOrWillBeStopped(process.id)) << "and no time has to pass for that";
}

TEST(Stopped, AStopThatAnotherThreadHasTakenCounts) {
  BusyProcess process(/*second_thread=*/true);
  ASSERT_TRUE(base::SendSignal(process.id, SIGSTOP));
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(IsOrWillBeStopped(process.id)) << "at any moment on its way";
  EXPECT_EQ(process.State(), 'D');
  ASSERT_TRUE(base::SendSignal(process.id, SIGCONT));
  EXPECT_FALSE(IsOrWillBeStopped(process.id));
}

TEST(Stopped, AProcessThatHasEndedDoesNotCount) {
  EXPECT_FALSE(IsOrWillBeStopped(base::ProcessId{::getpid(), 1}));
}

}  // namespace
}  // namespace gpuman::daemon
