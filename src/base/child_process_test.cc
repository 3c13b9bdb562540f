#include "base/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/process_spawner.h"

namespace gpuman::base {
namespace {

class ChildProcessTest : public testing::Test {
 protected:
  // A shell whose standard input is the socket.
  static Result<SpawnedChild> Shell(std::string script) {
    int ends[2] = {};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return FailSystem(errno, "making a socket");
    SpawnedChild child;
    child.socket = Fd(ends[0]);
    const Fd theirs(ends[1]);
    std::string words[] = {"sh", "-c", std::move(script)};
    char* const arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    char* const environment[] = {nullptr};
    ProcessSpawner setup;
    setup.Give(theirs.get(), 0);
    setup.GiveNull(1, O_WRONLY);
    setup.GiveNull(2, O_WRONLY);
    setup.CloseFrom(3);
    GPUMAN_ASSIGN(child.pid, setup.Start("/bin/sh", arguments, environment));
    GPUMAN_ASSIGN(child.process, WatchChild(child.pid));
    return child;
  }
  // It ends when it has read a line, when the socket is closed, or by a signal.
  static Result<SpawnedChild> ShellThatReads() { return Shell("read -r line"); }

  // Records what is reported on the loop, and calls `then`.
  void Start(
      Result<SpawnedChild> (*spawn)(), std::function<void()> then = [] {}) {
    child->Start(
        [this, spawn] {
          auto spawned = spawn();
          if (spawned) pid = spawned->pid;
          spawned_by = std::this_thread::get_id();
          return spawned;
        },
        [this, then = std::move(then)](Result<Fd> socket) {
          told_by = std::this_thread::get_id();
          told.emplace(std::move(socket));
          then();
        });
  }
  // Returns when the worker has tried to start the child and the loop waits for nothing any more, not even
  // for the child's end.
  void RunToTheEnd() {
    workers.join();
    loop.run();
  }
  // Neither a process nor a zombie.
  bool IsReaped() const { return pid > 0 && ::waitpid(pid, nullptr, WNOHANG) == -1 && errno == ECHILD; }

  boost::asio::io_context loop;
  boost::asio::thread_pool workers{1};
  std::shared_ptr<ChildProcess> child = std::make_shared<ChildProcess>(loop, workers);
  pid_t pid = 0;
  std::thread::id spawned_by, told_by;
  std::optional<Result<Fd>> told;
};

TEST_F(ChildProcessTest, ChildStartsOnWorkerIsReportedOnLoopAndIsReaped) {
  EXPECT_EQ(child->pid(), 0);
  Start([] { return Shell("exit 3"); }, [this] { EXPECT_EQ(child->pid(), pid); });
  RunToTheEnd();
  ASSERT_TRUE(told);
  EXPECT_TRUE(*told) << told->error().message;
  EXPECT_NE(spawned_by, std::this_thread::get_id());
  EXPECT_EQ(told_by, std::this_thread::get_id());
  EXPECT_TRUE(IsReaped());
  EXPECT_EQ(child->pid(), pid) << "it stays known";
}

TEST_F(ChildProcessTest, GivesTheSocketToTheChild) {
  Start(ShellThatReads, [this] {
    ASSERT_TRUE(*told);
    EXPECT_EQ(::send((*told)->get(), "over\n", 5, MSG_NOSIGNAL), 5);
  });
  RunToTheEnd();
  EXPECT_TRUE(IsReaped());
}

TEST_F(ChildProcessTest, KillEndsAChildThatRuns) {
  Start(ShellThatReads, [this] { child->Kill(); });
  RunToTheEnd();
  ASSERT_TRUE(told);
  EXPECT_TRUE(IsReaped());
}

TEST_F(ChildProcessTest, KillBeforeTheStartHasFinishedEndsTheChildAndStillHandsOverTheSocket) {
  Start(ShellThatReads);
  child->Kill();
  RunToTheEnd();
  ASSERT_TRUE(told);
  EXPECT_TRUE(*told) << told->error().message;
  EXPECT_TRUE(IsReaped());
}

TEST_F(ChildProcessTest, KillBeforeTheStartEndsTheChild) {
  child->Kill();
  Start(ShellThatReads);
  RunToTheEnd();
  EXPECT_TRUE(IsReaped());
}

TEST_F(ChildProcessTest, KillAfterItsEndDoesNothing) {
  Start([] { return Shell("exit 0"); });
  RunToTheEnd();
  ASSERT_TRUE(IsReaped());
  child->Kill();
  child->Kill();
}

TEST_F(ChildProcessTest, AnErrorOfTheStartArrivesOnTheLoop) {
  Start([] { return Result<SpawnedChild>(Fail(ErrorCode::kNotFound, "there is no program")); },
        [this] { child->Kill(); });
  RunToTheEnd();
  ASSERT_TRUE(told);
  ASSERT_FALSE(*told);
  EXPECT_EQ(told->error().code, ErrorCode::kNotFound);
  EXPECT_EQ(told->error().message, "there is no program");
  EXPECT_EQ(told_by, std::this_thread::get_id());
  EXPECT_EQ(child->pid(), 0);
}

TEST_F(ChildProcessTest, IsReapedWhenItsOwnerHasLetGoOfItDuringTheStart) {
  Start([] { return Shell("exit 0"); });
  child.reset();
  RunToTheEnd();
  ASSERT_TRUE(told) << "somebody has to close the socket";
  EXPECT_TRUE(*told) << told->error().message;
  EXPECT_TRUE(IsReaped());
}

TEST_F(ChildProcessTest, IsReapedWhenItsOwnerHasLetGoOfItWhileItRuns) {
  Start(ShellThatReads, [this] {
    child.reset();
    *told = Fd();
  });
  RunToTheEnd();
  EXPECT_TRUE(IsReaped());
}

TEST_F(ChildProcessTest, ReleasesWhatTheCallbackHoldsOnTheLoop) {
  auto held = std::make_shared<int>(1);
  child->Start([] { return Shell("exit 0"); }, [held](const Result<Fd>&) {});
  workers.join();
  EXPECT_EQ(held.use_count(), 2) << "the worker has kept nothing and dropped nothing";
  loop.run();
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace gpuman::base
