#include "plugins/kubernetes/rpc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::kubernetes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RpcTest, MessagesComeApartHoweverTheirBytesArrive) {
  const std::string bytes = Frame("one") + Frame("") + Frame(std::string(300, 'x'));
  EXPECT_EQ(bytes.substr(0, 8), std::string("\0\0\0\0\3one", 8));
  RpcMessageReader whole;
  EXPECT_FALSE(whole.Feed(bytes));
  EXPECT_THAT(whole.Take(), ElementsAre("one", "", std::string(300, 'x')));
  EXPECT_FALSE(whole.in_the_middle());
  RpcMessageReader single;
  for (const char c : bytes) EXPECT_FALSE(single.Feed({&c, 1}));
  EXPECT_THAT(single.Take(), ElementsAre("one", "", std::string(300, 'x')));
  EXPECT_FALSE(single.Feed(bytes.substr(0, 7)));
  EXPECT_TRUE(single.in_the_middle());
  EXPECT_THAT(single.Take(), IsEmpty());
}

TEST(RpcTest, CompressedAndEndlessMessagesAreRefused) {
  RpcMessageReader compressed;
  EXPECT_EQ(compressed.Feed(std::string("\1\0\0\0\0", 5))->code, RpcCode::kUnimplemented);
  RpcMessageReader endless;
  EXPECT_EQ(endless.Feed(std::string("\0\xff\xff\xff\xff", 5))->code, RpcCode::kResourceExhausted);
  RpcMessageReader longest;
  EXPECT_FALSE(longest.Feed(std::string("\0\0\x40\0\0", 5)));
  RpcMessageReader longer;
  EXPECT_EQ(longer.Feed(std::string("\0\0\x40\0\1", 5))->code, RpcCode::kResourceExhausted);
  EXPECT_EQ(longer.Feed(Frame("x"))->code, RpcCode::kResourceExhausted) << "it stays refused";
}

TEST(RpcTest, MessagesOfAStatusAreAscii) {
  EXPECT_EQ(EncodeStatusMessage("50 % of \xc3\xa4\n"), "50 %25 of %C3%A4%0A");
  EXPECT_EQ(DecodeStatusMessage("50 %25 of %C3%A4%0A"), "50 % of \xc3\xa4\n");
  EXPECT_EQ(DecodeStatusMessage("%4 %zz %"), "%4 %zz %");
  EXPECT_EQ(DecodeStatusMessage("%41"), "A");
}

TEST(RpcTest, ErrorsHaveTheCodeThatKubeletUnderstands) {
  EXPECT_EQ(StatusOf({base::ErrorCode::kNotFound, "m"}), (RpcStatus{RpcCode::kNotFound, "m"}));
  EXPECT_EQ(StatusOf({base::ErrorCode::kConflict, "m"}).code, RpcCode::kFailedPrecondition);
  EXPECT_EQ(StatusOf({base::ErrorCode::kInvalidArgument, "m"}).code, RpcCode::kInvalidArgument);
  EXPECT_EQ(StatusOf({base::ErrorCode::kUnavailable, "m"}).code, RpcCode::kUnavailable);
  EXPECT_EQ(StatusOf({base::ErrorCode::kCorrupt, "m"}).code, RpcCode::kInternal);
}

}  // namespace
}  // namespace gpuman::kubernetes
