#include "daemon/config/tcp_address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include "daemon/config/config.h"

namespace gpuman::daemon {
namespace {

TEST(TcpAddress, IsAnAddressOfEitherKindWithAPort) {
  const auto four = ParseTcpAddress("127.0.0.1:9835");
  ASSERT_TRUE(four) << four.error().message;
  const auto* in = reinterpret_cast<const sockaddr_in*>(&four->socket);
  EXPECT_EQ(in->sin_family, AF_INET);
  EXPECT_EQ(ntohs(in->sin_port), 9835);
  EXPECT_EQ(ntohl(in->sin_addr.s_addr), INADDR_LOOPBACK);
  EXPECT_EQ(four->text, "127.0.0.1:9835");
  const auto six = ParseTcpAddress("[::1]:1");
  ASSERT_TRUE(six) << six.error().message;
  EXPECT_EQ(six->socket.ss_family, AF_INET6);
  EXPECT_EQ(six->size, sizeof(sockaddr_in6));
}

TEST(TcpAddress, IsRefusedInAnyOtherForm) {
  for (const char* text :
       {"", "9835", "127.0.0.1", "127.0.0.1:", ":9835", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:98x", "localhost:9835", "::1:9835", "[::1]", "[]:9835"}) {
    const auto address = ParseTcpAddress(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code, base::ErrorCode::kInvalidArgument);
    EXPECT_NE(address.error().message.find(std::string("'") + text + "'"), std::string::npos);
  }
}

TEST(ConfiguredMetrics, AreServedNowhereUnlessAskedFor) {
  const auto silent = ParseConfig("", "f", {});
  ASSERT_TRUE(silent);
  EXPECT_FALSE(silent->metrics.listen);
  const auto empty = ParseConfig("[metrics]\nlisten = \"\"\n", "f", {});
  ASSERT_TRUE(empty);
  EXPECT_FALSE(empty->metrics.listen);
  const auto given = ParseConfig("[metrics]\nlisten = \"127.0.0.1:9835\"\n", "f", {});
  ASSERT_TRUE(given);
  ASSERT_TRUE(given->metrics.listen);
  EXPECT_EQ(given->metrics.listen->text, "127.0.0.1:9835");
  const auto wrong = ParseConfig("\n[metrics]\nlisten = \"here\"\n", "f", {});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().front().key, "metrics.listen");
  EXPECT_EQ(wrong.error().front().line, 3u);
}

TEST(ConfiguredPage, IsServedOnTheLoopbackDeviceAlone) {
  EXPECT_FALSE(ParseConfig("", "f", {})->web.listen);
  EXPECT_FALSE(ParseConfig("[web]\nlisten = \"\"\n", "f", {})->web.listen);
  for (const std::string address : {"127.0.0.1:8790", "[::1]:8790"}) {
    const auto given = ParseConfig("[web]\nlisten = \"" + address + "\"\n", "f", {});
    ASSERT_TRUE(given) << address;
    EXPECT_EQ(given->web.listen->text, address);
  }
  for (const std::string address : {"0.0.0.0:8790", "127.0.0.2:8790", "10.0.0.1:80", "[::]:8790",
                                    "[fe80::1]:80", "localhost:8790", "127.0.0.1:0", "8790"}) {
    const auto wrong = ParseConfig("\n[web]\nlisten = \"" + address + "\"\n", "f", {});
    ASSERT_FALSE(wrong) << address;
    EXPECT_EQ(wrong.error().front().key, "web.listen") << address;
    EXPECT_EQ(wrong.error().front().line, 3u);
    EXPECT_NE(wrong.error().front().message.find("'" + address + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace gpuman::daemon
