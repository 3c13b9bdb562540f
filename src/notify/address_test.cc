#include "notify/address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

namespace gpuman::notify {
namespace {

TEST(Address, OfTheMachineTheLinkAndPrivateNetworksIsReserved) {
  for (const char* const text : {"127.0.0.1",
                                 "127.1.2.3",
                                 "0.0.0.0",
                                 "10.1.2.3",
                                 "172.16.0.1",
                                 "172.31.255.255",
                                 "192.168.1.1",
                                 "169.254.169.254",
                                 "100.64.0.1",
                                 "224.0.0.1",
                                 "255.255.255.255",
                                 "::1",
                                 "::",
                                 "::ffff:127.0.0.1",
                                 "::ffff:10.0.0.1",
                                 "fe80::1",
                                 "fd12:3456::1",
                                 "ff02::1",
                                 "64:ff9b::7f00:1",
                                 "2002:7f00:1::",
                                 "2002:c0a8:101::",
                                 "::127.0.0.1",
                                 "2001:0:1::1",
                                 "64:ff9b:1::a00:1",
                                 "198.18.0.1"})
    EXPECT_TRUE(ReservedFor(*ParseAddress(text))) << text;
  for (const char* const text :
       {"1.1.1.1", "172.32.0.1", "172.15.255.255", "100.128.0.1", "11.0.0.0", "192.169.0.1",
        "2606:4700::1111", "64:ff9b::101:101", "2002:101:101::", "2001:4860::8888"})
    EXPECT_FALSE(ReservedFor(*ParseAddress(text))) << text;
}

TEST(Address, IsAllowedWhereTheAdministratorNamesIt) {
  const std::vector<IpNetwork> allowed{*ParseNetwork("10.1.0.0/16"), *ParseNetwork("::1")};
  EXPECT_FALSE(RefusalOf(*ParseAddress("10.1.200.1"), allowed));
  EXPECT_FALSE(RefusalOf(*ParseAddress("::ffff:10.1.0.1"), allowed));
  EXPECT_FALSE(RefusalOf(*ParseAddress("::1"), allowed));
  EXPECT_FALSE(RefusalOf(*ParseAddress("9.9.9.9"), {}));
  EXPECT_EQ(RefusalOf(*ParseAddress("10.2.0.1"), allowed),
            "10.2.0.1 is an address of a private network, and notify.allow does not name it");
  EXPECT_TRUE(RefusalOf(*ParseAddress("127.0.0.1"), allowed));
}

TEST(Address, OfTheMachineItselfIsRefusedAlsoWhereItIsPublic) {
  const std::vector<Address> own{*ParseAddress("8.8.4.4"), *ParseAddress("2606:4700::1111")};
  EXPECT_EQ(RefusalOf(*ParseAddress("8.8.4.4"), {}, own),
            "8.8.4.4 is an address of the machine itself, and notify.allow does not name it");
  EXPECT_TRUE(RefusalOf(*ParseAddress("2606:4700::1111"), {}, own));
  EXPECT_TRUE(RefusalOf(*ParseAddress("64:ff9b::808:404"), {}, own)) << "the same, translated on its way";
  EXPECT_FALSE(RefusalOf(*ParseAddress("8.8.8.8"), {}, own));
  EXPECT_FALSE(RefusalOf(*ParseAddress("8.8.4.4"), {*ParseNetwork("8.8.4.0/24")}, own));
}

TEST(Address, IsReadOffASocketsAddress) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(AddressOf(reinterpret_cast<const sockaddr*>(&four)), ParseAddress("127.0.0.1"));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_loopback;
  EXPECT_EQ(AddressOf(reinterpret_cast<const sockaddr*>(&six)), ParseAddress("::1"));
  sockaddr other{};
  other.sa_family = AF_UNIX;
  EXPECT_FALSE(AddressOf(&other));
}

TEST(IpNetwork, IsAnAddressOrAnAddressWithANumberOfBits) {
  EXPECT_TRUE(ParseNetwork("fd00::/8")->Has(*ParseAddress("fd12::1")));
  EXPECT_TRUE(ParseNetwork("0.0.0.0/0")->Has(*ParseAddress("127.0.0.1")));
  EXPECT_FALSE(ParseNetwork("0.0.0.0/0")->Has(*ParseAddress("::1")));
  EXPECT_TRUE(ParseNetwork("10.0.0.0/9")->Has(*ParseAddress("10.127.0.1")));
  EXPECT_FALSE(ParseNetwork("10.0.0.0/9")->Has(*ParseAddress("10.128.0.1")));
  for (const char* const text :
       {"", "localhost", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0/8", "::/129"})
    EXPECT_FALSE(ParseNetwork(text)) << text;
}

}  // namespace
}  // namespace gpuman::notify
