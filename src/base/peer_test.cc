#include "base/peer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/passed_files.h"

namespace gpuman::base {
namespace {

// A connection whose other end a child has made, as with connect(2).
class PeerTest : public testing::Test {
 protected:
  PeerTest() {
    std::array<int, 2> ways{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ways.data()), 0);
    const Fd there(ways[1]);
    const Fd here(ways[0]);
    child_ = ::fork();
    if (child_ == 0) {
      std::array<int, 2> ends{};
      if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) != 0) ::_exit(1);
      Pass(there.get(), ends[0]);
      for (;;) ::pause();
    }
    connection_ = Take(here.get());
  }
  ~PeerTest() override { End(); }

  void End() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(std::exchange(child_, 0), nullptr, 0);
  }

  static void Pass(int way, int descriptor) { EXPECT_EQ(SendWithFiles(way, "x", std::array{descriptor}), 1); }

  static Fd Take(int way) {
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    EXPECT_EQ(::recvmsg(way, &message, 0), 1);
    int descriptor = -1;
    if (const cmsghdr* const header = CMSG_FIRSTHDR(&message))
      std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    return Fd(descriptor);
  }

  pid_t child_ = 0;
  Fd connection_;
};

TEST_F(PeerTest, PeerIsTheConnectedProcessWhileItLives) {
  for (const auto& ask : {PeerOf, PeerByPid}) {
    const auto peer = ask(connection_.get(), TicksNow());
    ASSERT_TRUE(peer) << peer.error().message;
    EXPECT_EQ(peer->process(), IdentityOf(child_));
    EXPECT_EQ(peer->uid(), ::geteuid());
    EXPECT_TRUE(peer->Lives());
  }
}

TEST_F(PeerTest, PeerIsUnknownOnceItsProcessHasEnded) {
  const auto by_descriptor = PeerOf(connection_.get(), TicksNow());
  const auto by_pid = PeerByPid(connection_.get(), TicksNow());
  ASSERT_TRUE(by_descriptor && by_pid);
  ::kill(child_, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOWAIT), 0);
  // A zombie still has its pid.
  EXPECT_FALSE(by_descriptor->Lives() || by_pid->Lives());
  EXPECT_FALSE(PeerOf(connection_.get(), TicksNow()) || PeerByPid(connection_.get(), TicksNow()));
  End();
  for (const auto& ask : {PeerOf, PeerByPid}) {
    const auto peer = ask(connection_.get(), TicksNow());
    ASSERT_FALSE(peer);
    EXPECT_EQ(peer.error().code, ErrorCode::kNotFound);
  }
}

// A peer that counts as ended is refused for good.
TEST_F(PeerTest, PeerWithoutPidDescriptorCountsAsAlive) {
  constexpr int kPeerPidFd = 77;
  int number = -1;
  socklen_t size = sizeof number;
  if (::getsockopt(connection_.get(), SOL_SOCKET, kPeerPidFd, &number, &size) != 0)
    GTEST_SKIP() << "this kernel has no descriptor of who connected";
  ::close(number);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest = ::dup(connection_.get());
  ::close(lowest);
  for (const int more : {0, 1}) {  // no descriptor left; and one left, for the process itself
    rlimit few = before;
    few.rlim_cur = static_cast<rlim_t>(lowest) + static_cast<rlim_t>(more);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto peer = PeerOf(connection_.get(), TicksNow());
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_FALSE(peer);
    EXPECT_NE(peer.error().code, ErrorCode::kNotFound) << more;
  }
}

// An older kernel gives a pid, which another process may have by then.
TEST_F(PeerTest, PidOfAnotherUserOrOfYoungerProcessIsNotThePeer) {
  const auto start = IdentityOf(child_)->start_time;
  EXPECT_TRUE(PeerByPid(connection_.get(), start));
  EXPECT_FALSE(PeerByPid(connection_.get(), start - 1));
  const std::array<uid_t, 4> alice{1000, 1000, 1000, 1000}, through_a_set_user_id_program{1000, 0, 0, 0};
  EXPECT_TRUE(MayBePeer(50, alice, 1000, 50));
  EXPECT_FALSE(MayBePeer(51, alice, 1000, 50));
  EXPECT_FALSE(MayBePeer(50, alice, 1001, 50));
  EXPECT_TRUE(MayBePeer(50, through_a_set_user_id_program, 1000, 50));
  EXPECT_TRUE(MayBePeer(50, through_a_set_user_id_program, 0, 50));
  EXPECT_FALSE(MayBePeer(50, {}, 1000, 50)) << "it has ended";
}

TEST_F(PeerTest, UsersAndNamespaceOwnerAreReadFromProcess) {
  EXPECT_EQ(UsersOf(::getpid()), std::vector<uid_t>(4, ::geteuid()));
  EXPECT_EQ(UsersOf(-1), std::vector<uid_t>());
  EXPECT_EQ(OwnerOfNamespace(-1), std::nullopt);
}

}  // namespace
}  // namespace gpuman::base
