#include "base/run_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <charconv>

#include "base/process.h"

namespace gpuman::base {
namespace {

using ::testing::HasSubstr;

TEST(RunCommand, GetsItsInputAndGivesItsOutputAndStatus) {
  const auto done = RunCommand(
      {"/bin/sh", {"-c", "cat; echo $GREETING; echo oops >&2; exit 3"}, {"GREETING=hello"}, "ping\n"});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->status, 3);
  EXPECT_EQ(done->output, "ping\nhello\noops\n");
}

// Slurm's programs do not write their errors to a socket.
TEST(RunCommand, CommandWritesOutputAndErrorsIntoPipes) {
  EXPECT_EQ(RunCommand({"/bin/sh", {"-c", "[ -p /dev/stdout ] && [ -p /dev/stderr ]"}})->status, 0);
}

TEST(RunCommand, CommandThatDoesNotReadItsInputSucceeds) {
  EXPECT_EQ(RunCommand({"/bin/true", {}, {}, std::string(100'000, 'x')})->status, 0);
}

TEST(RunCommand, ReturnsThoughChildOfCommandStillRuns) {
  const auto done = RunCommand({"/bin/sh", {"-c", "sleep 600 & echo $!"}});
  ASSERT_TRUE(done);
  pid_t left = 0;
  std::from_chars(done->output.data(), done->output.data() + done->output.size(), left);
  ASSERT_GT(left, 0);
  const auto id = IdentityOf(left);
  ASSERT_TRUE(id);
  EXPECT_TRUE(SendSignal(*id, SIGKILL));
}

TEST(RunCommand, CommandBeyondTimeLimitIsKilledWithTimeoutError) {
  const auto done = RunCommand({"/bin/sleep", {"600"}, {}, {}, Millis(50)});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(done.error().message, HasSubstr("sleep"));
}

TEST(RunCommand, MissingProgramIsNotFoundError) {
  EXPECT_EQ(RunCommand({"/nowhere/program"}).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpuman::base
