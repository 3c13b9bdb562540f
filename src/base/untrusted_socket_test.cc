#include "base/untrusted_socket.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "base/test_slow_closing_socket.h"

namespace gpuman::base {
namespace {

struct Pair {
  explicit Pair(int type) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
    peer = Fd(ends[0]);
    PrepareUntrusted(ends[1]);
    ours = UntrustedSocket(Fd(ends[1]), std::make_shared<Closer>());
  }
  void Say(const std::string& text) const {
    EXPECT_EQ(::send(peer.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  // The next message; "!" and a number: the error.
  std::string Hear() const {
    char buffer[64];
    const ssize_t got = ReceiveData(ours.get(), buffer, sizeof buffer);
    return got < 0 ? "!" + std::to_string(errno) : std::string(buffer, static_cast<std::size_t>(got));
  }
  bool Ended() const {
    char byte = 0;
    return ::recv(peer.get(), &byte, 1, 0) <= 0;
  }
  Fd peer;
  UntrustedSocket ours;
};

const std::string kBad = "!" + std::to_string(EBADMSG);

TEST(UntrustedSocket, ReadReturnsDataThenEndOfStream) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    Pair pair(type);
    EXPECT_EQ(pair.Hear(), "!" + std::to_string(EAGAIN));
    pair.Say("one");
    EXPECT_EQ(pair.Hear(), "one");
    pair.peer.Close();
    EXPECT_EQ(pair.Hear(), "");
  }
}

TEST(UntrustedSocket, TakesNothingThatComesWithADescriptor) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    Pair pair(type);
    SlowClosingSocket lingering;
    ASSERT_TRUE(lingering.ok());
    ASSERT_TRUE(lingering.PassTo(pair.peer.get(), "x"));
    EXPECT_EQ(pair.Hear(), kBad);
    EXPECT_EQ(pair.Hear(), kBad) << "it is still there";
    pair.ours.HangUp();
    EXPECT_TRUE(pair.Ended());
    lingering.AwaitClosed();
  }
}

TEST(UntrustedSocket, DescriptorAfterFirstDataIsRefused) {
  Pair pair(SOCK_STREAM);
  SlowClosingSocket lingering;
  ASSERT_TRUE(lingering.ok());
  pair.Say("GET");
  ASSERT_TRUE(lingering.PassTo(pair.peer.get(), "x"));
  // Only the data before the descriptor, or nothing.
  for (std::string said = pair.Hear(); said != kBad; said = pair.Hear()) ASSERT_EQ(said, "GET");
  pair.ours.HangUp();
  lingering.AwaitClosed();
}

TEST(UntrustedSocket, OutOfBandDataHidesNothing) {
  Pair pair(SOCK_STREAM);
  SlowClosingSocket lingering;
  ASSERT_TRUE(lingering.ok());
  if (!lingering.PassTo(pair.peer.get(), "x", MSG_OOB))
    GTEST_SKIP() << "this kernel has none on unix sockets";
  pair.Say("GET");
  EXPECT_EQ(pair.Hear(), kBad);
  pair.ours.HangUp();
  lingering.AwaitClosed();
}

TEST(UntrustedSocket, HangUpEndsConnectionThatPassedUnreadDescriptor) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    Pair pair(type);
    SlowClosingSocket lingering;
    ASSERT_TRUE(lingering.ok());
    pair.Say("");  // an empty message, where there are messages; it looks like the end
    ASSERT_TRUE(lingering.PassTo(pair.peer.get(), type == SOCK_STREAM ? "x" : ""));
    pair.ours.HangUp();
    EXPECT_TRUE(pair.Ended());
    lingering.AwaitClosed();
  }
}

TEST(UntrustedSocket, HangUpEndsConnectionWithoutData) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    Pair pair(type);
    pair.ours.HangUp();
    EXPECT_FALSE(pair.ours.ok());
    EXPECT_TRUE(pair.Ended());
  }
}

// No thread has to close it, so a client that sends and disconnects again and again costs little.
TEST(UntrustedSocket, HangUpEndsConnectionWithUnreadDataAtOnce) {
  Pair pair(SOCK_STREAM);
  for (const char* text : {"GET", " /", " HTTP"}) pair.Say(text);
  pair.ours.HangUp();
  EXPECT_FALSE(pair.ours.ok());
  EXPECT_TRUE(pair.Ended());
}

TEST(UntrustedSocket, HangUpEndsConnectionWithDescriptorBehindDataOrOutOfBand) {
  for (const int flags : {0, static_cast<int>(MSG_OOB)}) {
    Pair pair(SOCK_STREAM);
    SlowClosingSocket lingering;
    ASSERT_TRUE(lingering.ok());
    pair.Say("GET");
    if (!lingering.PassTo(pair.peer.get(), "x", flags))
      GTEST_SKIP() << "this kernel has no out-of-band data on unix sockets";
    pair.ours.HangUp();
    EXPECT_TRUE(pair.Ended());
    lingering.AwaitClosed();
  }
}

}  // namespace
}  // namespace gpuman::base
