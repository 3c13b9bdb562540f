#include "base/parse_number.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace gpuman::base {
namespace {

TEST(ParseNumber, ReadsWholeNumbersThatTheTypeCanHold) {
  EXPECT_EQ(ParseNumber<int>("0"), 0);
  EXPECT_EQ(ParseNumber<int>("0042"), 42);
  EXPECT_EQ(ParseNumber<int>("-7"), -7);
  EXPECT_EQ(ParseNumber<std::uint8_t>("255"), 255);
  EXPECT_EQ(ParseNumber<std::int64_t>("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(ParseNumber<std::uint64_t>("18446744073709551615"), UINT64_MAX);
}

TEST(ParseNumber, RefusesWhatIsNoWholeNumber) {
  for (const char* const text :
       {"", "-", "+", "+1", " 1", "1 ", "1\n", "1x", "x1", "0x1", "1.0", "1e2", "--1"})
    EXPECT_FALSE(ParseNumber<int>(text)) << text;
  EXPECT_FALSE(ParseNumber<int>(std::string_view())) << "a view of nothing";
  EXPECT_FALSE(ParseNumber<int>(std::string_view("1\0", 2))) << "a NUL is no end";
}

TEST(ParseNumber, RefusesWhatTheTypeCannotHold) {
  EXPECT_FALSE(ParseNumber<int>("2147483648"));
  EXPECT_FALSE(ParseNumber<int>("-2147483649"));
  EXPECT_FALSE(ParseNumber<std::uint8_t>("256"));
  EXPECT_FALSE(ParseNumber<std::uint64_t>("18446744073709551616"));
  EXPECT_FALSE(ParseNumber<unsigned>("-1"));
  EXPECT_FALSE(ParseNumber<unsigned>("-0"));
}

TEST(ParseNumber, ReadsTheBaseThatItIsTold) {
  EXPECT_EQ(ParseNumber<unsigned>("fF", 16), 255U);
  EXPECT_EQ(ParseNumber<unsigned char>("7f", 16), 0x7f);
  EXPECT_FALSE(ParseNumber<unsigned>("0xff", 16));
  EXPECT_FALSE(ParseNumber<unsigned>("fg", 16));
  EXPECT_FALSE(ParseNumber<unsigned>("8", 8));
}

TEST(ParseNumber, ReadsFloatingPointNumbersInTheFormatThatItIsTold) {
  EXPECT_EQ(ParseNumber<double>("2.5"), 2.5);
  EXPECT_EQ(ParseNumber<double>("-.5"), -0.5);
  EXPECT_EQ(ParseNumber<double>("1e3"), 1000);
  EXPECT_EQ(ParseNumber<double>("inf"), std::numeric_limits<double>::infinity());
  EXPECT_FALSE(ParseNumber<double>("1e3", std::chars_format::fixed));
  for (const char* const text : {"", ".", "+1", "1,5", "1.5 ", "1.5.5", "1e999"})
    EXPECT_FALSE(ParseNumber<double>(text)) << text;
}

TEST(TakeNumber, LeavesWhatIsBehindTheNumber) {
  std::string_view text = "12-34kB";
  EXPECT_EQ(TakeNumber<int>(text), 12);
  EXPECT_EQ(text, "-34kB");
  EXPECT_EQ(TakeNumber<int>(text), -34);
  EXPECT_EQ(text, "kB");
}

TEST(TakeNumber, LeavesTheTextAsItWasWhereItBeginsWithNone) {
  for (const std::string_view text : {"", "kB", " 1", "300 and more"}) {
    std::string_view rest = text;
    EXPECT_FALSE(TakeNumber<std::uint8_t>(rest)) << text;
    EXPECT_EQ(rest, text);
  }
}

TEST(LeadingNumber, IsTheNumberWithWhichTheTextBegins) {
  EXPECT_EQ(LeadingNumber<int>("-34kB"), -34);
  EXPECT_EQ(LeadingNumber<unsigned>("ff:00", 16), 255U);
  for (const char* const text : {"", "kB", " 1"}) EXPECT_FALSE(LeadingNumber<int>(text)) << text;
}

}  // namespace
}  // namespace gpuman::base
