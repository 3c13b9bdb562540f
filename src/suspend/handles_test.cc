#include "suspend/handles.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/test_temp_dir.h"

namespace gpuman::suspend {
namespace {

using base::Fd;

TEST(Handles, FilesWithoutANameAndDevicesCanBeMemory) {
  EXPECT_TRUE(CanBeDeviceMemory(Fd(::memfd_create("memory", MFD_CLOEXEC)).get()));
  EXPECT_TRUE(CanBeDeviceMemory(Fd(::open("/dev/null", O_RDWR | O_CLOEXEC)).get()));
}

TEST(Handles, ADescriptorThatMayBlockOnCloseIsNoDeviceMemory) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const Fd one(pair[0]), other(pair[1]);
  EXPECT_FALSE(CanBeDeviceMemory(one.get()));
  ASSERT_EQ(::pipe2(pair, O_CLOEXEC), 0);
  const Fd read(pair[0]), write(pair[1]);
  EXPECT_FALSE(CanBeDeviceMemory(read.get()));
  EXPECT_FALSE(CanBeDeviceMemory(Fd(::eventfd(0, EFD_CLOEXEC)).get()));
  EXPECT_FALSE(CanBeDeviceMemory(Fd(::open("/proc/self/status", O_RDONLY | O_CLOEXEC)).get()));
  EXPECT_FALSE(CanBeDeviceMemory(Fd(::open("/", O_RDONLY | O_CLOEXEC)).get()));
  EXPECT_FALSE(CanBeDeviceMemory(-1));
}

// The kernel would close descriptors for which there is no room, and the thread would wait for that.
TEST(Handles, AllThatCameWithAMessageIsTaken) {
  constexpr int kMany = 253;
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  const Fd ours(pair[0]), theirs(pair[1]);
  const Fd memory(::memfd_create("memory", MFD_CLOEXEC));
  char text = 'x';
  iovec part{&text, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMany * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(kMany * sizeof(int));
  int numbers[kMany];
  for (int& number : numbers) number = memory.get();
  std::memcpy(CMSG_DATA(header), numbers, sizeof numbers);
  ASSERT_EQ(::sendmsg(theirs.get(), &message, 0), 1);
  std::vector<Fd> files;
  EXPECT_EQ(ReceiveAll(ours.get(), &text, 1, files), 1);
  EXPECT_EQ(files.size(), static_cast<std::size_t>(kMany));
  for (const Fd& file : files) EXPECT_TRUE(CanBeDeviceMemory(file.get()));
  EXPECT_EQ(ReceiveAll(ours.get(), &text, 1, files), -1);
  EXPECT_EQ(errno, EAGAIN);
}

}  // namespace
}  // namespace gpuman::suspend
