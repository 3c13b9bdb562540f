#include "daemon/core/listen.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/file.h"
#include "base/passed_files.h"
#include "base/test_temp_dir.h"

namespace gpuman::daemon {
namespace {

TEST(Listen, MakesTheSocketWithItsDirectoryAndPermissions) {
  const base::TempDir dir;
  const auto path = dir.path() / "run/gpumand.sock";
  const auto fd = Listen({path, 0660, {}});
  ASSERT_TRUE(fd) << fd.error().message;
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0660u);
}

TEST(Listen, TakesNoDescriptorsFromItsClients) {
  constexpr int kPassRights = 83;  // SO_PASSRIGHTS
  const base::TempDir dir;
  const auto path = dir.path() / "s";
  const auto fd = Listen({path, 0600, {}});
  ASSERT_TRUE(fd) << fd.error().message;
  int passes = 1;
  socklen_t size = sizeof passes;
  if (::getsockopt(fd->get(), SOL_SOCKET, kPassRights, &passes, &size) != 0)
    GTEST_SKIP() << "this kernel cannot refuse them";
  EXPECT_EQ(passes, 0);
  const base::Fd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.native().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(base::SendWithFiles(client.get(), "x", std::array{client.get()}), -1);
  EXPECT_EQ(::send(client.get(), "x", 1, MSG_NOSIGNAL), 1);
}

TEST(Listen, RefusesASocketThatIsServedAndReplacesAStaleOne) {
  const base::TempDir dir;
  const auto path = dir.path() / "s";
  {
    const auto first = Listen({path, 0600, {}});
    ASSERT_TRUE(first);
    const auto second = Listen({path, 0600, {}});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, base::ErrorCode::kAlreadyExists);
    EXPECT_NE(second.error().message.find(path.string()), std::string::npos);
  }
  EXPECT_TRUE(std::filesystem::exists(path)) << "the socket file outlives its server";
  EXPECT_TRUE(Listen({path, 0600, {}}));
}

// Returns 0 if connect() to `path` succeeds, else errno.
int Connect(const std::filesystem::path& path) {
  const base::Fd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.native().copy(address.sun_path, sizeof address.sun_path - 1);
  return ::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0
                                                                                                   : errno;
}

TEST(Listen, ReplacesAStaleSocketWithoutAMomentInWhichThereIsNone) {
  const base::TempDir dir;
  const auto path = dir.path() / "s";
  ASSERT_TRUE(Listen({path, 0600, {}}));
  std::atomic<bool> ends = false;
  std::atomic<int> none = 0, asked = 0;
  std::thread client([&] {
    while (!ends) {
      none += Connect(path) == ENOENT;
      ++asked;
    }
  });
  constexpr int kRestarts = 2'000;
  bool all = true;
  for (int i = 0; i < kRestarts && all; ++i) all = Listen({path, 0600, {}}).has_value();
  ends = true;
  client.join();
  EXPECT_TRUE(all);
  EXPECT_EQ(none, 0) << "of " << asked;
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "s.new"));
}

TEST(Listen, ReplacesTheRemainderOfADaemonThatWasKilledWhileItStarted) {
  const base::TempDir dir;
  const auto path = dir.path() / "s";
  ASSERT_TRUE(Listen({path, 0600, {}}));
  ASSERT_TRUE(Listen({dir.path() / "s.new", 0600, {}}));
  const auto fd = Listen({path, 0600, {}});
  ASSERT_TRUE(fd) << fd.error().message;
  EXPECT_EQ(Connect(path), 0);
}

TEST(Listen, ReplacesAStaleSocketWhosePathIsAsLongAsItMayBe) {
  const base::TempDir dir;
  const auto parent = dir.path().native().size();
  const auto path = dir.path() / std::string(sizeof(sockaddr_un::sun_path) - 2 - parent, 'x');
  ASSERT_TRUE(Listen({path, 0600, {}}));
  const auto fd = Listen({path, 0600, {}});
  ASSERT_TRUE(fd) << fd.error().message;
  EXPECT_EQ(Connect(path), 0);
}

TEST(Listen, LeavesAFileThatIsNoSocketAlone) {
  const base::TempDir dir;
  ASSERT_TRUE(base::ReplaceFile(dir.path() / "s", "precious"));
  EXPECT_EQ(Listen({dir.path() / "s", 0600, {}}).error().code, base::ErrorCode::kAlreadyExists);
  EXPECT_EQ(base::ReadFile(dir.path() / "s"), "precious");
}

TEST(Listen, SaysWhenThePathIsTooLong) {
  const base::TempDir dir;
  const auto result = Listen({dir.path() / std::string(120, 'x'), 0600, {}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_FALSE(result.error().hint.empty());
}

TEST(ListenOnTcp, SaysWhoseTheAddressIs) {
  // The kernel chooses a port; it is taken until this socket is closed.
  base::Fd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in chosen{};
  chosen.sin_family = AF_INET;
  chosen.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof chosen;
  ASSERT_EQ(::bind(other.get(), reinterpret_cast<const sockaddr*>(&chosen), size), 0);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  ASSERT_EQ(::getsockname(other.get(), reinterpret_cast<sockaddr*>(&chosen), &size), 0);
  const auto text = "127.0.0.1:" + std::to_string(ntohs(chosen.sin_port));
  const auto address = ParseTcpAddress(text);
  ASSERT_TRUE(address);
  const auto refused = Listen(*address);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kAlreadyExists);
  EXPECT_NE(refused.error().message.find(text), std::string::npos) << refused.error().message;
  other.Close();
  EXPECT_TRUE(Listen(*address));
}

TEST(ClaimDirectory, IsForOneDaemonAtATime) {
  const base::TempDir dir;
  {
    const auto first = ClaimDirectory(dir.path());
    ASSERT_TRUE(first);
    const auto second = ClaimDirectory(dir.path());
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().message.find(std::to_string(::getpid())), std::string::npos)
        << second.error().message;
  }
  EXPECT_TRUE(ClaimDirectory(dir.path()));
}

}  // namespace
}  // namespace gpuman::daemon
