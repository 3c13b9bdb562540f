#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/test_temp_dir.h"

namespace gpuman::base {
namespace {

TEST(ReplaceFile, ReplacesTheWholeContentAndLeavesNothingElse) {
  const TempDir dir;
  const auto path = dir.path() / "state";
  ASSERT_TRUE(ReplaceFile(path, "a long first content"));
  ASSERT_TRUE(ReplaceFile(path, "second", 0600));
  EXPECT_EQ(ReadFile(path), "second");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(ReplaceFile, NamesThePathThatFailed) {
  const auto result = ReplaceFile("/nonexistent/state", "x");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_NE(result.error().message.find("/nonexistent/state"), std::string::npos);
}

TEST(ReadFile, RefusesAFileOverTheLimit) {
  const TempDir dir;
  ASSERT_TRUE(ReplaceFile(dir.path() / "big", std::string(100, 'x')));
  EXPECT_EQ(ReadFile(dir.path() / "big", 99).error().code, ErrorCode::kExhausted);
  EXPECT_TRUE(ReadFile(dir.path() / "big", 100));
}

TEST(OpenFile, DescriptorsAreClosedOnExec) {
  const auto fd = OpenFile("/dev/null", O_RDONLY);
  ASSERT_TRUE(fd);
  EXPECT_TRUE(::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC);
}

TEST(MakeDirectories, MakesParentsAndAcceptsWhatIsThere) {
  const TempDir dir;
  EXPECT_TRUE(MakeDirectories(dir.path() / "a/b/c"));
  EXPECT_TRUE(MakeDirectories(dir.path() / "a/b/c"));
  ASSERT_TRUE(ReplaceFile(dir.path() / "file", ""));
  EXPECT_FALSE(MakeDirectories(dir.path() / "file/x"));
}

}  // namespace
}  // namespace gpuman::base
