#include "daemon/http/party.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/fd.h"
#include "base/tcp_user.h"

namespace gpuman::daemon::http {
namespace {

// Serves one connection of a child process, which runs as another user if the test may change users.
class PartyTest : public testing::TestWithParam<int> {
 protected:
  PartyTest() : listener_(::socket(GetParam(), SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~PartyTest() override {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  base::Fd Accept(uid_t user) {
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(GetParam());
    if (GetParam() == AF_INET6)
      reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
    else
      reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    if (!listener_.ok() || ::bind(listener_.get(), plain, size) != 0 || ::listen(listener_.get(), 4) != 0 ||
        ::getsockname(listener_.get(), plain, &size) != 0)
      return {};
    child_ = ::fork();
    if (child_ == 0) {
      if (user != ::geteuid() && ::setresuid(user, user, user) != 0) ::_exit(1);
      const int mine = ::socket(GetParam(), SOCK_STREAM, 0);
      if (::connect(mine, plain, size) != 0) ::_exit(1);
      for (;;) ::pause();
    }
    return base::Fd(::accept(listener_.get(), nullptr, nullptr));
  }

  base::Fd listener_;
  pid_t child_ = 0;
};

TEST_P(PartyTest, TcpPartyIsTheUserOfTheOtherEnd) {
  const base::Fd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink.ok()) GTEST_SKIP() << "the kernel does not tell whose a socket is";
  const uid_t user = ::geteuid() == 0 ? 61234 : ::geteuid();
  const auto connection = Accept(user);
  if (!connection.ok()) GTEST_SKIP() << "there is no such protocol here";
  EXPECT_EQ(PartyOfTcp(connection.get()), PartyOf(user));
}

INSTANTIATE_TEST_SUITE_P(Families, PartyTest, testing::Values(AF_INET, AF_INET6));

TEST(Party, RemoteTcpAddressHasNoUser) {
  sockaddr_storage own{}, other{};
  reinterpret_cast<sockaddr_in&>(own) = {AF_INET, htons(1), {htonl(0xC0000201)}, {}};  // 192.0.2.1
  reinterpret_cast<sockaddr_in&>(other) = {AF_INET, htons(2), {htonl(0xC0000202)}, {}};
  EXPECT_EQ(base::UserOfTcp(own, other).state, base::TcpSocketOwner::State::kNone);
  EXPECT_EQ(base::UserOfTcp({}, {}).state, base::TcpSocketOwner::State::kUntold);
}

}  // namespace
}  // namespace gpuman::daemon::http
