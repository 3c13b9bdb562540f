#include "mps/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <charconv>
#include <fstream>

#include "base/process.h"
#include "base/temp_dir.h"

namespace gpuman::mps {
namespace {

using ::testing::HasSubstr;

TEST(MpsCommand, GetsItsInputAndGivesItsOutputAndStatus) {
  const auto done = RunCommand(
      {"/bin/sh", {"-c", "cat; echo $GREETING; echo oops >&2; exit 3"}, {{"GREETING", "hello"}}, "ping\n"});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->status, 3);
  EXPECT_EQ(done->output, "ping\nhello\noops\n");
}

TEST(MpsCommand, ThatReadsNothingIsNoTrouble) {
  EXPECT_EQ(RunCommand({"/bin/true", {}, {}, std::string(100'000, 'x')})->status, 0);
}

TEST(MpsCommand, ThatLeavesSomebodyBehindIsNotWaitedFor) {
  const auto done = RunCommand({"/bin/sh", {"-c", "sleep 600 & echo $!"}});
  ASSERT_TRUE(done);
  pid_t left = 0;
  std::from_chars(done->output.data(), done->output.data() + done->output.size(), left);
  ASSERT_GT(left, 0);
  const auto id = base::IdentityOf(left);
  ASSERT_TRUE(id);
  EXPECT_TRUE(base::SendSignal(*id, SIGKILL));
}

TEST(MpsCommand, ThatTakesTooLongIsEnded) {
  const auto done = RunCommand({"/bin/sleep", {"600"}, {}, {}, base::Millis(50)});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, base::ErrorCode::kTimeout);
  EXPECT_THAT(done.error().message, HasSubstr("sleep"));
}

TEST(MpsCommand, ThatIsNotThereSaysSo) {
  EXPECT_EQ(RunCommand({"/nowhere/program"}).error().code, base::ErrorCode::kNotFound);
}

TEST(MpsCommand, TheControlProgramIsTheFirstInThePath) {
  const base::TempDir dir;
  EXPECT_EQ(FindControl(dir.path().string() + ":/nowhere").error().code, base::ErrorCode::kNotSupported);
  const auto program = dir.path() / "nvidia-cuda-mps-control";
  std::ofstream(program) << "#!/bin/sh\n";
  EXPECT_FALSE(FindControl(dir.path().string()));  // it cannot be executed
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  EXPECT_EQ(*FindControl("/nowhere::" + dir.path().string()), program);
}

}  // namespace
}  // namespace gpuman::mps
