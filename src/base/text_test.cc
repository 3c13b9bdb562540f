#include "base/text.h"

#include <gtest/gtest.h>

namespace gpuman::base {
namespace {

TEST(TakeUntil, TakesOnePartAfterTheOther) {
  std::string_view text = "a,,b";
  EXPECT_EQ(TakeUntil(text, ','), "a");
  EXPECT_EQ(TakeUntil(text, ','), "");
  EXPECT_EQ(TakeUntil(text, ','), "b");
  EXPECT_TRUE(text.empty());
  EXPECT_EQ(TakeUntil(text, ','), "");
}

TEST(DropPrefix, LeavesATextThatBeginsWithSomethingElse) {
  std::string_view text = "pod12";
  EXPECT_FALSE(DropPrefix(text, "pods"));
  EXPECT_EQ(text, "pod12");
  EXPECT_TRUE(DropPrefix(text, "pod"));
  EXPECT_EQ(text, "12");
}

TEST(Trimmed, KeepsBlanksInside) {
  EXPECT_EQ(Trimmed(" \ta b\r\n"), "a b");
  EXPECT_EQ(Trimmed(" \n "), "");
  EXPECT_EQ(Trimmed(""), "");
  EXPECT_EQ(Trimmed(" a\n", " "), "a\n");
}

TEST(Case, ChangesTheLettersOfAsciiOnly) {
  EXPECT_EQ(LowerCase("GPU-3fA é Ü"), "gpu-3fa é Ü");
  EXPECT_EQ(UpperCase("out_of_memory é1"), "OUT_OF_MEMORY é1");
}

TEST(AreDigits, RefusesEverythingElse) {
  EXPECT_TRUE(AreDigits("0123456789"));
  for (const char* const text : {"", " 1", "1 ", "-1", "1.0", "1a", "\xc2\xb2"})
    EXPECT_FALSE(AreDigits(text)) << text;
}

}  // namespace
}  // namespace gpuman::base
