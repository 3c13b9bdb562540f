#include "base/passed_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>

namespace gpuman::base {
namespace {

class PassedFilesTest : public testing::Test {
 protected:
  PassedFilesTest() {
    int pair[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    ours_ = Fd(pair[0]);
    theirs_ = Fd(pair[1]);
  }

  Fd ours_, theirs_;
  const Fd memory_{::memfd_create("memory", MFD_CLOEXEC)};
  std::array<char, 16> text_{};
  std::vector<Fd> files_;
};

ino_t FileOf(const Fd& fd) {
  struct stat status {};
  EXPECT_EQ(::fstat(fd.get(), &status), 0);
  return status.st_ino;
}

// The kernel would close descriptors for which there is no room, and the thread would wait for that.
TEST_F(PassedFilesTest, MaximumNumberOfFilesArrivesWithOneMessage) {
  const std::vector<int> many(kMaxPassedFiles, memory_.get());
  ASSERT_EQ(SendWithFiles(theirs_.get(), "text", many), 4);
  EXPECT_EQ(ReceiveWithFiles(ours_.get(), text_.data(), text_.size(), files_), 4);
  EXPECT_EQ(std::string_view(text_.data(), 4), "text");
  ASSERT_EQ(files_.size(), kMaxPassedFiles);
  for (const Fd& file : files_) {
    EXPECT_EQ(FileOf(file), FileOf(memory_));
    EXPECT_NE(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST_F(PassedFilesTest, MoreFilesThanTheMaximumAreRefused) {
  const std::vector<int> many(kMaxPassedFiles + 1, memory_.get());
  EXPECT_EQ(SendWithFiles(theirs_.get(), "text", many), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(PassedFilesTest, MessageWithoutFilesArrives) {
  ASSERT_EQ(SendWithFiles(theirs_.get(), "text", {}), 4);
  EXPECT_EQ(ReceiveWithFiles(ours_.get(), text_.data(), text_.size(), files_), 4);
  EXPECT_TRUE(files_.empty());
}

TEST_F(PassedFilesTest, ReceiveWithoutMessageAndSendToClosedPeerFailAtOnce) {
  EXPECT_EQ(ReceiveWithFiles(ours_.get(), text_.data(), text_.size(), files_), -1);
  EXPECT_EQ(errno, EAGAIN);
  theirs_.Close();
  EXPECT_EQ(SendWithFiles(ours_.get(), "text", {}), -1) << "and no signal";
  EXPECT_EQ(errno, EPIPE);
  EXPECT_EQ(ReceiveWithFiles(ours_.get(), text_.data(), text_.size(), files_), 0);
}

}  // namespace
}  // namespace gpuman::base
