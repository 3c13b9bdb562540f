#include "base/utf8.h"

#include <gtest/gtest.h>

namespace gpuman::base {
namespace {

TEST(IsUtf8, TellsWellFormedFromIllFormed) {
  for (const char* good :
       {"", "abc", "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(IsUtf8(good)) << good;
  // A lone continuation, overlong forms, surrogates, beyond U+10FFFF, cut short.
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xf0\x8f\xbf\xbf", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xf0\x9f\x98", "\xe2\x82", "\xc3", "\xc3(", "\xff"})
    EXPECT_FALSE(IsUtf8(bad));
}

TEST(Utf8CharacterAt, GivesTheCodeAndItsLength) {
  const auto euro = Utf8CharacterAt("a\xe2\x82\xac", 1);
  EXPECT_EQ(euro.code, U'\u20ac');
  EXPECT_EQ(euro.length, 3u);
  EXPECT_EQ(Utf8CharacterAt("a\xe2\x82\xac", 2).length, 0u) << "the middle of a character";
}

}  // namespace
}  // namespace gpuman::base
