#include "base/untrusted_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "base/file.h"
#include "base/test_automounter.h"
#include "base/test_temp_dir.h"

namespace gpuman::base {
namespace {

std::string TextOf(const Fd& file) {
  char text[100];
  const ssize_t bytes = ::read(file.get(), text, sizeof text);
  return bytes < 0 ? "" : std::string(text, static_cast<std::size_t>(bytes));
}

// A terminal: its master notices for good that somebody has opened the other end.
TEST(OpenUntrustedFile, DoesNotOpenADevice) {
  const Fd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!master.ok() || ::grantpt(master.get()) != 0 || ::unlockpt(master.get()) != 0)
    GTEST_SKIP() << "no terminals here";
  const std::string device = ::ptsname(master.get());
  const auto was_opened = [&] {
    pollfd state{master.get(), POLLIN, 0};
    return ::poll(&state, 1, 0) > 0 && (state.revents & POLLHUP) != 0;
  };
  const auto refused = OpenUntrustedFile(device);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, device + " is no regular file");
  EXPECT_FALSE(was_opened());
  const TempDir dir;
  std::filesystem::create_symlink(device, dir.path() / "link");
  EXPECT_FALSE(OpenUntrustedFile(dir.path() / "link"));
  EXPECT_FALSE(was_opened());
  const Fd folder = OpenFile("/dev/pts", O_RDONLY | O_DIRECTORY).value();
  EXPECT_FALSE(OpenUntrustedFileIn(folder.get(), std::filesystem::path(device).filename()));
  EXPECT_FALSE(was_opened());
  Fd(::open(device.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)).Close();
  EXPECT_TRUE(was_opened()) << "so the test would have seen it";
}

TEST(OpenUntrustedFile, MountsNothing) {
  TestAutomounter automounter;
  if (!automounter.is_mounted()) GTEST_SKIP() << "takes root and autofs";
  const auto file = automounter.path() / "home" / "file";
  const TempDir dir;
  std::filesystem::create_symlink(file, dir.path() / "link");
  for (const auto& path : {file, dir.path() / "link"}) {
    const auto refused = OpenUntrustedFile(path);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(refused.error().message, path.string() + " is not mounted yet");
  }
  EXPECT_FALSE(automounter.WasAsked(0));
  std::thread opener([&] { Fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC)).Close(); });
  EXPECT_TRUE(automounter.WasAsked(10'000)) << "so the test would have seen it";
  automounter.Refuse();
  opener.join();
}

TEST(OpenUntrustedFile, OpensFilesThroughLinksAsTheKernelDoes) {
  const TempDir dir;
  ASSERT_TRUE(MakeDirectories(dir.path() / "a" / "b"));
  ASSERT_TRUE(ReplaceFile(dir.path() / "a" / "b" / "file", "text"));
  std::filesystem::create_symlink("a/b", dir.path() / "near");
  std::filesystem::create_symlink("../a/./b//file", dir.path() / "a" / "up");
  std::filesystem::create_symlink(dir.path() / "near", dir.path() / "far");
  for (const char* path : {"a/b/file", "near/file", "far/file", "a/up", "a/b/../up", "far/../b/file"}) {
    const auto opened = OpenUntrustedFile(dir.path() / path);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(TextOf(*opened), "text") << path;
  }
  const auto missing = OpenUntrustedFile(dir.path() / "far/none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("far/none"), std::string::npos);
  EXPECT_FALSE(OpenUntrustedFile(dir.path() / "a")) << "a directory";
  EXPECT_FALSE(OpenUntrustedFile(dir.path() / "a/b/file/more"));
  std::filesystem::create_symlink("round", dir.path() / "round");
  EXPECT_FALSE(OpenUntrustedFile(dir.path() / "round"));
  ASSERT_EQ(::mkfifo((dir.path() / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(OpenUntrustedFile(dir.path() / "pipe"));
}

TEST(OpenUntrustedFile, InADirectoryFollowsNoLink) {
  const TempDir dir;
  ASSERT_TRUE(ReplaceFile(dir.path() / "file", "text"));
  std::filesystem::create_symlink("file", dir.path() / "link");
  const Fd folder = OpenFile(dir.path(), O_RDONLY | O_DIRECTORY).value();
  const auto opened = OpenUntrustedFileIn(folder.get(), "file");
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(TextOf(*opened), "text");
  EXPECT_FALSE(OpenUntrustedFileIn(folder.get(), "link"));
  const auto missing = OpenUntrustedFileIn(folder.get(), "none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpuman::base
