#include "web/connection.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <thread>

namespace gpuman::web {
namespace {

using std::chrono::milliseconds;

class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest() {
    std::array<int, 2> fds{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
    ours_ = base::Fd(fds[0]);
    theirs_ = base::Fd(fds[1]);
  }

  Connection Open(ConnectionLimits limits = {}) { return Connection(std::move(ours_), limits); }
  void Type(std::string_view bytes) const {
    ASSERT_EQ(::send(theirs_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void Leave() const { ::shutdown(theirs_.get(), SHUT_WR); }
  // Returns what has been received so far.
  std::string Received() const {
    std::string all;
    std::array<char, 4096> piece{};
    for (ssize_t got; (got = ::recv(theirs_.get(), piece.data(), piece.size(), MSG_DONTWAIT)) > 0;)
      all.append(piece.data(), static_cast<std::size_t>(got));
    return all;
  }

  base::Fd ours_, theirs_;
};

TEST_F(ConnectionTest, ReadsRequestsOneAfterTheOther) {
  auto connection = Open();
  Type(
      "POST /v1/x?y=1 HTTP/1.1\r\nHost: localhost:1\r\nOrigin: http://localhost:1\r\nAuthorization: Bearer "
      "s\r\n"
      "Sec-Fetch-Site: same-origin\r\nContent-Length: 2\r\n\r\n{}GET / HTTP/1.1\r\nHost: a\r\nConnection: "
      "close\r\n\r\n");
  const auto first = connection.Read();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->method, "POST");
  EXPECT_EQ(first->target, "/v1/x?y=1");
  EXPECT_EQ(first->host, "localhost:1");
  EXPECT_EQ(first->origin, "http://localhost:1");
  EXPECT_EQ(first->authorization, "Bearer s");
  EXPECT_EQ(first->fetch_site, "same-origin");
  EXPECT_EQ(first->body, "{}");
  EXPECT_TRUE(connection.keeps_alive());
  const auto second = connection.Read();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->target, "/");
  EXPECT_FALSE(connection.keeps_alive());
}

TEST_F(ConnectionTest, AHeaderThatComesTwiceCountsAsNone) {
  auto connection = Open();
  Type(
      "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nAuthorization: Bearer a\r\nAuthorization: Bearer "
      "b\r\n\r\n");
  const auto request = connection.Read();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->host, "");
  EXPECT_EQ(request->authorization, "");
}

TEST_F(ConnectionTest, InvalidRequestIsAnsweredWith400) {
  auto connection = Open();
  Type("\x16\x03\x01 this is TLS\r\n\r\n");
  EXPECT_FALSE(connection.Read());
  EXPECT_TRUE(Received().starts_with("HTTP/1.1 400 Bad Request\r\n"));
}

TEST_F(ConnectionTest, TakesNoMoreThanItsLimits) {
  auto connection = Open({.header_bytes = 256, .body_bytes = 16});
  Type("GET /" + std::string(300, 'x') + " HTTP/1.1\r\n\r\n");
  EXPECT_FALSE(connection.Read());
  EXPECT_TRUE(Received().starts_with("HTTP/1.1 431 "));
}

TEST_F(ConnectionTest, TakesNoLargeBody) {
  auto connection = Open({.body_bytes = 16});
  Type("POST / HTTP/1.1\r\nContent-Length: 17\r\n\r\n");
  EXPECT_FALSE(connection.Read());
  EXPECT_TRUE(Received().starts_with("HTTP/1.1 413 "));
}

TEST_F(ConnectionTest, TakesNoEndlessHeadOfAChunk) {
  auto connection = Open({.header_bytes = 1024});
  Type("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(60'000, 'a'));
  EXPECT_FALSE(connection.Read());
  EXPECT_TRUE(Received().starts_with("HTTP/1.1 431 "));
}

TEST_F(ConnectionTest, ReadFromSlowOrSilentPeerTimesOut) {
  auto connection = Open({.request = milliseconds(30), .idle = milliseconds(30)});
  EXPECT_FALSE(connection.Read()) << "silent";
  Type("GET / HT");
  EXPECT_FALSE(connection.Read()) << "slow";
}

TEST_F(ConnectionTest, ReadFailsWhenPeerLeavesInTheMiddle) {
  auto connection = Open({.request = std::chrono::hours(1), .idle = std::chrono::hours(1)});
  Type("GET / HT");
  Leave();
  EXPECT_FALSE(connection.Read());
}

TEST_F(ConnectionTest, SendsAnswersWholeAndInPieces) {
  auto connection = Open();
  Type("GET / HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(connection.Read());
  EXPECT_TRUE(connection.Send(200, {{"Content-Type", "text/plain"}}, "hello"));
  EXPECT_EQ(Received(),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: "
            "keep-alive\r\n\r\nhello");
  EXPECT_TRUE(connection.BeginStream(200, {}));
  EXPECT_TRUE(connection.Write("one"));
  EXPECT_TRUE(connection.Write(""));
  EXPECT_TRUE(connection.EndStream());
  EXPECT_EQ(
      Received(),
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n3\r\none\r\n0\r\n\r\n");
}

TEST_F(ConnectionTest, SendToPeerThatDoesNotReadTimesOut) {
  auto connection = Open({.send = milliseconds(20)});
  EXPECT_FALSE(connection.Send(200, {}, std::string(64u << 20, 'x')));
}

TEST_F(ConnectionTest, HangUpEndsAReadThatWaits) {
  auto connection = Open({.idle = std::chrono::hours(1)});
  std::thread reader([&] { EXPECT_FALSE(connection.Read()); });
  connection.HangUp();
  reader.join();
}

}  // namespace
}  // namespace gpuman::web
