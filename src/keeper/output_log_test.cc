#include "keeper/output_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/file.h"
#include "base/test_temp_dir.h"

namespace gpuman::keeper {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class OutputLogTest : public ::testing::Test {
 protected:
  OutputLog Make(std::uint64_t limit, std::uint32_t rotations) {
    return OutputLog({path_, base::Bytes{limit}, rotations}, ::getuid(), ::getgid(), clock_);
  }
  std::string Read(const std::string& suffix = "") {
    return base::ReadFile(path_.string() + suffix).value_or("(none)");
  }

  base::TempDir dir_;
  base::SystemClock clock_;
  std::filesystem::path path_ = dir_.path() / "1.log";
};

TEST_F(OutputLogTest, KeepsTheLimitAndTheOlderParts) {
  auto log = Make(10, 2);
  for (const char* line : {"aaaa\n", "bbbb\n", "cccc\n", "dddd\n", "eeee\n", "ffff\n", "gggg\n"})
    log.Write(line);
  EXPECT_EQ(Read(), "gggg\n");
  EXPECT_EQ(Read(".1"), "eeee\nffff\n");
  EXPECT_EQ(Read(".2"), "cccc\ndddd\n");
  EXPECT_EQ(Read(".3"), "(none)");
}

TEST_F(OutputLogTest, CutsBetweenLinesAndLongLinesAnywhere) {
  auto log = Make(10, 5);
  log.Write("one\ntwo\nthree\n");
  EXPECT_EQ(Read(".1"), "one\ntwo\n");
  EXPECT_EQ(Read(), "three\n");
  log.Write("0123456789ABCDEF\n");
  EXPECT_EQ(Read(".1"), "0123456789");
  EXPECT_EQ(Read(), "ABCDEF\n");
}

TEST_F(OutputLogTest, IsMadeAnewWhenSomebodyDeletesIt) {
  auto log = Make(10, 2);
  log.Write("aaaa\nbbb");
  std::filesystem::remove(path_);
  log.Write("cccc\n");
  EXPECT_EQ(Read(), "cccc\n");
  log.Write("dddd\neeee\n");
  EXPECT_EQ(Read(".1"), "cccc\ndddd\n") << "counted from its own beginning";
}

TEST_F(OutputLogTest, StartsOverWithoutRotations) {
  auto log = Make(10, 0);
  log.Write("aaaa\nbbbb\n");
  log.Write("cccc\n");
  EXPECT_EQ(Read(), "cccc\n");
  EXPECT_EQ(Read(".1"), "(none)");
}

TEST_F(OutputLogTest, GoesOnWithAFileThatIsThere) {
  Make(100, 1).Write("first\n");
  Make(100, 1).Write("second\n");
  EXPECT_EQ(Read(), "first\nsecond\n");
}

TEST_F(OutputLogTest, NotesStandOnLinesOfTheirOwn) {
  auto log = Make(1000, 1);
  log.Write("half a line");
  log.Note("soft limit\npassed");
  EXPECT_THAT(Read(), StartsWith("half a line\ngpuman 2"));
  EXPECT_THAT(Read(), EndsWith(": soft limit passed\n"));
}

TEST_F(OutputLogTest, DropsWhatAFullDiskRefusesAndSaysSo) {
  auto log = Make(0, 1);
  log.Write("before\n");
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{7, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  log.Write("0123456789\n");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  log.Write("after\n");
  EXPECT_THAT(Read(), HasSubstr("11 bytes of output are lost"));
  EXPECT_THAT(Read(), EndsWith("after\n"));
}

TEST_F(OutputLogTest, RecoversWhenItsDirectoryAppears) {
  path_ = dir_.path() / "later" / "1.log";
  auto log = Make(0, 1);
  EXPECT_FALSE(log.Open());
  log.Write("lost\n");
  std::filesystem::create_directory(dir_.path() / "later");
  log.Write("kept\n");
  EXPECT_THAT(Read(), HasSubstr("5 bytes of output are lost"));
  EXPECT_THAT(Read(), EndsWith("kept\n"));
}

TEST_F(OutputLogTest, FollowsNoLinkAndWaitsForNoFifo) {
  std::filesystem::create_symlink(dir_.path() / "target", path_);
  EXPECT_FALSE(Make(0, 1).Open());
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / "target"));
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(Make(0, 1).Open());
}

TEST_F(OutputLogTest, TheUserOfTheJobReadsItAndDoesNotWrite) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  std::filesystem::permissions(dir_.path(), std::filesystem::perms::all);
  // An earlier version left the file like this.
  std::ofstream(path_) << "old\n";
  ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
  OutputLog log({path_, base::Bytes{0}, 1}, 65534, 65533, clock_);
  log.Write("x\n");
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  if (status.st_uid == 65534) GTEST_SKIP() << "no access control lists here";
  EXPECT_EQ(status.st_uid, 0u);
  EXPECT_EQ(status.st_gid, 65533u);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  const auto may = [&](uid_t user, int flags) {
    const auto before = static_cast<uid_t>(::setfsuid(user));
    const auto group = static_cast<gid_t>(::setfsgid(65500));
    const base::Fd fd(::open(path_.c_str(), flags | O_CLOEXEC));
    ::setfsgid(group);
    ::setfsuid(before);
    return fd.ok();
  };
  EXPECT_TRUE(may(65534, O_RDONLY));
  EXPECT_FALSE(may(65534, O_WRONLY));
  EXPECT_FALSE(may(65532, O_RDONLY));
  EXPECT_EQ(Read(), "old\nx\n");
}

TEST(LogsOnAFullDisk, LeaveAPartToTheRecords) {
  const auto total = base::MiB(500);  // 10 MiB are kept, 5 of them for short logs as well
  EXPECT_TRUE(MayGrow(base::GiB(1), base::MiB(10), total));
  EXPECT_FALSE(MayGrow(base::GiB(1), base::MiB(9), total));
  EXPECT_FALSE(MayGrow(base::KiB(16), base::MiB(9), total));
  EXPECT_TRUE(MayGrow(base::KiB(15), base::MiB(9), total));
  EXPECT_TRUE(MayGrow(base::KiB(15), base::MiB(5), total));
  EXPECT_FALSE(MayGrow(base::Bytes{0}, base::MiB(4), total));
  EXPECT_TRUE(MayGrow(base::GiB(1), base::MiB(256), base::GiB(20000)));
  EXPECT_FALSE(MayGrow(base::GiB(1), base::MiB(255), base::GiB(20000)));
}

}  // namespace
}  // namespace gpuman::keeper
