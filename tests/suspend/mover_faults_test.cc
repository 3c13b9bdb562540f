// Movers that die, hang, lie or are missing.
#include <signal.h>

#include <boost/asio/post.hpp>
#include <fstream>

#include "base/file.h"
#include "fixture.h"

namespace gpuman::suspend {
namespace {

using ::testing::HasSubstr;

class MoverFaultsTest : public CheckpointerFixture {
 protected:
  // Makes this script the mover; its standard input is the socket.
  void Script(const std::string& text) {
    options.program.path = dir.path() / "mover";
    std::ofstream(options.program.path) << "#!/bin/sh\n" << text << "\n";
    std::filesystem::permissions(options.program.path, std::filesystem::perms::owner_all);
  }
  static constexpr const char* kHello = R"(echo '{"id":0,"outcome":"done","state":"unknown"}' >&0)";
  pid_t Pid() { return Get().MoverPid(user).value_or(0); }
  // Whether the process has ended and was reaped.
  bool IsGone(pid_t pid) { return ::kill(pid, 0) != 0; }
};

TEST_F(MoverFaultsTest, AMoverThatIsKilledBetweenRequestsIsReplacedAndNothingIsLost) {
  HeldProcess held(0, 32);
  ASSERT_EQ(Ask(Verb::kCheckpoint, held.id()).outcome, MoverOutcome::kDone);
  const pid_t first = Pid();
  ASSERT_NE(first, 0);
  ::kill(first, SIGKILL);
  ASSERT_TRUE(Until([&] { return Pid() != first; }));
  EXPECT_EQ(Ask(Verb::kState, held.id()).state, DriverState::kCheckpointed);
  EXPECT_NE(Pid(), first);
  EXPECT_EQ(Ask(Verb::kRestore, held.id()).outcome, MoverOutcome::kDone);
  EXPECT_EQ(held.Ask("check"), "whole");
  EXPECT_TRUE(Until([&] { return IsGone(first); }));
}

TEST_F(MoverFaultsTest, AMoverThatIsKilledAtWorkLeavesTheStateUnknown) {
  HeldProcess held(0, 8);
  ASSERT_EQ(held.Ask("spin 600000"), "spinning");
  ASSERT_EQ(Ask(Verb::kCan).outcome, MoverOutcome::kDone);
  const pid_t first = Pid();
  const auto asked =
      Post({.verb = Verb::kCheckpoint, .process = held.id(), .lock_timeout = base::Millis(600'000)});
  loop.restart();
  loop.poll();  // the request is on its way
  ::kill(first, SIGKILL);
  const MoverAnswer answer = Wait(asked);
  EXPECT_EQ(answer.outcome, MoverOutcome::kLost);
  EXPECT_EQ(answer.state, DriverState::kUnknown);
  EXPECT_EQ(Ask(Verb::kState, held.id()).outcome, MoverOutcome::kDone) << "by another mover";
}

// A mover is a process of its user, who can make it say anything.
TEST_F(MoverFaultsTest, AMoverThatNeverStopsTalkingKeepsNobodyElseWaiting) {
  Script(std::string(kHello) + R"(
exec 5>&0
text=$(printf '%030000d' 0)
for i in 1 2 3 4; do
  while echo '{"id":18446744073709551615,"outcome":"done","state":"unknown","message":"'$text'"}' >&5; do :; done &
done
wait)");
  ASSERT_EQ(Ask(Verb::kCan).outcome, MoverOutcome::kDone);
  for (int i = 0; i < 100; ++i) {
    bool others = false;
    boost::asio::post(loop, [&] { others = true; });
    ASSERT_TRUE(Until([&] { return others; }));
  }
}

TEST_F(MoverFaultsTest, AMoverThatHangsIsKilledAtItsTimeLimit) {
  options.request_limit = base::Millis(50);
  Script(std::string(kHello) + "\nexec sleep 1000");
  ASSERT_EQ(Ask(Verb::kCan).outcome, MoverOutcome::kDone);
  const pid_t pid = Pid();
  const MoverAnswer answer = Ask(Verb::kState, base::SelfId(), {}, base::Millis(0));
  EXPECT_EQ(answer.outcome, MoverOutcome::kLost);
  EXPECT_THAT(answer.message, HasSubstr("did not answer within 50ms"));
  EXPECT_TRUE(Until([&] { return IsGone(pid); }));
}

TEST_F(MoverFaultsTest, AMoverThatDoesNotGetReadyHasDoneNothing) {
  options.start_limit = base::Millis(50);
  Script("exec sleep 1000");
  const MoverAnswer answer = Ask(Verb::kCheckpoint, base::SelfId());
  EXPECT_EQ(answer.outcome, MoverOutcome::kFailed);
  EXPECT_THAT(answer.message, HasSubstr("did not get ready within 50ms"));
}

TEST_F(MoverFaultsTest, AMoverThatWritesNonsenseIsNotBelieved) {
  Script("echo hello >&0\nexec sleep 1000");
  EXPECT_EQ(Ask(Verb::kState, base::SelfId()).outcome, MoverOutcome::kFailed);
  Script(std::string(kHello) +
         "\ndd bs=64k count=1 of=/dev/null 2>/dev/null\necho "
         "'{\"id\":99,\"outcome\":\"done\",\"state\":\"running\"}' >&0\nsleep 1000");
  checkpointer.reset();
  EXPECT_EQ(Ask(Verb::kState, base::SelfId()).outcome, MoverOutcome::kLost) << "the answer to something else";
}

TEST_F(MoverFaultsTest, AMoverThatCannotLoadTheDriverSaysWhy) {
  Script(R"(echo '{"id":0,"outcome":"failed","state":"unknown","message":"no device"}' >&0)");
  const MoverAnswer answer = Ask(Verb::kState, base::SelfId());
  EXPECT_EQ(answer.outcome, MoverOutcome::kFailed);
  EXPECT_EQ(answer.message, "no device");
  EXPECT_EQ(Get().MoverPid(user), std::nullopt) << "another one is tried next time";
}

TEST_F(MoverFaultsTest, AMoverThatIsNotInstalledIsNamed) {
  options.program.path = dir.path() / "nowhere";
  const MoverAnswer answer = Ask(Verb::kCan);
  EXPECT_EQ(answer.outcome, MoverOutcome::kFailed);
  EXPECT_THAT(answer.message, HasSubstr("nowhere"));
}

TEST_F(MoverFaultsTest, AMoverWithoutRequestsIsStopped) {
  options.idle_limit = base::Millis(1);
  ASSERT_EQ(Ask(Verb::kCan).outcome, MoverOutcome::kDone);
  EXPECT_TRUE(Until([&] { return !Get().MoverPid(user); }));
  EXPECT_EQ(Ask(Verb::kCan).outcome, MoverOutcome::kDone) << "and started again";
}

TEST_F(MoverFaultsTest, AMoverEndsWithTheDaemon) {
  ASSERT_EQ(Ask(Verb::kCan).outcome, MoverOutcome::kDone);
  const pid_t pid = Pid();
  checkpointer.reset();
  EXPECT_TRUE(Until([&] { return IsGone(pid); }));
}

TEST_F(MoverFaultsTest, AMoverIsOfTheUserOfItsProcesses) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root";
  user = {65534, 65534, {65534, 12345}};
  Script("echo \"$@\" > " + (dir.path() / "words").string() + "\n" + kHello + "\nread line");
  ASSERT_EQ(Ask(Verb::kCan).outcome, MoverOutcome::kDone);
  EXPECT_EQ(base::ReadFile(dir.path() / "words").value(),
            "--uid 65534 --gid 65534 --groups 65534,12345 --lock\n");
}

}  // namespace
}  // namespace gpuman::suspend
