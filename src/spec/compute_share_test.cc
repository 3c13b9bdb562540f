#include "spec/compute_share.h"

#include <gtest/gtest.h>

namespace gpuman::spec {
namespace {

TEST(ComputeShareText, IsReadAsItIsWritten) {
  for (const ComputeShare& share :
       {ComputeShare{1, false}, ComputeShare{30, true}, ComputeShare{100, false}}) {
    const auto read = ParseComputeShare(ToString(share));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, share);
  }
  EXPECT_EQ(ToString({30, true}), "30%+");
}

TEST(ComputeShareText, WhatIsNoShareIsRefused) {
  for (const char* const text : {"", "%", "+", "0%", "101%", "-1%", "30", "30+", "+30%", "30%%", "30+%",
                                 "3e1%", "3.5%", "30 %", "99999999999999999999%", "a%", "30%++", "\xff%"})
    EXPECT_FALSE(ParseComputeShare(text)) << text;
  EXPECT_NE(ParseComputeShare("0%").error().hint.find("30%+"), std::string::npos);
}

}  // namespace
}  // namespace gpuman::spec
