#include "cli/compat/slurm/output_file_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/test_automounter.h"
#include "base/test_temp_dir.h"

namespace gpuman::cli::slurm {
namespace {

std::string TextOf(OutputFileReader& reader) {
  std::string text;
  const auto read = reader.Read([&](std::string_view piece) {
    text += piece;
    return true;
  });
  EXPECT_TRUE(read) << read.error().message;
  return text;
}

// A user's job names the file, and root may look at it. The master of a terminal notices for good that
// somebody has opened the other end.
TEST(SlurmOutputFileReader, OpensNoDeviceAndNoPipe) {
  const base::TempDir dir;
  const auto pipe = dir.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  OutputFileReader of_pipe(pipe.string());
  EXPECT_EQ(TextOf(of_pipe), "") << "and it did not wait for a writer";
  EXPECT_TRUE(of_pipe.SkipTo(10));
  const base::Fd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!master.ok() || ::grantpt(master.get()) != 0 || ::unlockpt(master.get()) != 0)
    GTEST_SKIP() << "no terminals here";
  OutputFileReader of_device(::ptsname(master.get()));
  EXPECT_TRUE(of_device.SkipTo(10));
  EXPECT_EQ(TextOf(of_device), "");
  pollfd state{master.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&state, 1, 0), 0) << "it was opened: " << state.revents;
}

TEST(SlurmOutputFileReader, SaysThatAnOutputIsNotMountedAndThatItExists) {
  const base::TestAutomounter automounter;
  if (!automounter.is_mounted()) GTEST_SKIP() << "takes root and autofs";
  OutputFileReader reader((automounter.path() / "home" / "out").string());
  const auto read = reader.Read([](std::string_view) { return true; });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, base::ErrorCode::kUnavailable);
  EXPECT_TRUE(reader.exists()) << "so nobody takes it for a job that has written nothing";
  EXPECT_FALSE(automounter.WasAsked(0));
}

TEST(SlurmOutputFileReader, ReadsWhatWasWrittenSince) {
  const base::TempDir dir;
  const auto path = dir.path() / "out";
  OutputFileReader reader(path.string());
  EXPECT_EQ(TextOf(reader), "");
  ASSERT_TRUE(base::ReplaceFile(path, "one\ntwo\n"));
  ASSERT_TRUE(reader.SkipTo(1));
  EXPECT_EQ(TextOf(reader), "two\n");
  ASSERT_TRUE(base::ReplaceFile(path, "one\ntwo\nthree\n"));
  EXPECT_EQ(TextOf(reader), "three\n");
}

}  // namespace
}  // namespace gpuman::cli::slurm
