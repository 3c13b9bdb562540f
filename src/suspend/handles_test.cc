#include "suspend/handles.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

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

}  // namespace
}  // namespace gpuman::suspend
