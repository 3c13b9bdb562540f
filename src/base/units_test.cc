#include "base/units.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gpuman::base {
namespace {

TEST(ParseBytes, ReadsPlainBytesAndEveryUnit) {
  EXPECT_EQ(ParseBytes("536870912")->count, 536870912u);
  EXPECT_EQ(ParseBytes("512MiB")->count, 536870912u);
  EXPECT_EQ(ParseBytes("512M")->count, 536870912u);
  EXPECT_EQ(ParseBytes("512mb")->count, 536870912u);
  EXPECT_EQ(ParseBytes("8G"), GiB(8));
  EXPECT_EQ(ParseBytes(" 20 GiB "), GiB(20));
  EXPECT_EQ(ParseBytes("1.5K")->count, 1536u);
  EXPECT_EQ(ParseBytes("2T"), GiB(2048));
}

TEST(ParseBytes, RefusesWhatIsNoSizeAndSaysWhy) {
  for (const char* text : {"", " ", "-1", "-5G", "0", "0G", "G", "12X", "1e9", "12GiBx", "0x10", "nan"}) {
    const auto result = ParseBytes(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument) << text;
    EXPECT_NE(result.error().message.find(text), std::string::npos) << text;
    EXPECT_FALSE(result.error().hint.empty()) << text;
  }
}

TEST(ParseBytes, RefusesAnOverflowInsteadOfWrapping) {
  EXPECT_FALSE(ParseBytes("18446744073709551616"));
  EXPECT_FALSE(ParseBytes("9223372036854775808"));
  EXPECT_FALSE(ParseBytes("8388608T"));
  EXPECT_FALSE(ParseBytes("99999999999.9T"));
  EXPECT_TRUE(ParseBytes("9223372036854775807"));
}

TEST(ParseSize, ReadsAPercentageOfTheDevice) {
  const auto half = ParseSize("50%");
  ASSERT_TRUE(half);
  EXPECT_TRUE(half->IsRelative());
  EXPECT_EQ(half->Of(GiB(6)), GiB(3));
  EXPECT_EQ(ParseSize("1G")->Of(GiB(6)), GiB(1));
  for (const char* text : {"0%", "-1%", "101%", "%", "5G%"}) EXPECT_FALSE(ParseSize(text)) << text;
}

RC_GTEST_PROP(FormatBytes, ReadsBackWithinHalfAPrintedStep, (std::uint64_t raw)) {
  const Bytes bytes{raw >> 2 | 1};
  const auto text = FormatBytes(bytes);
  const auto back = ParseBytes(text);
  RC_ASSERT(back);
  const double error = std::abs(static_cast<double>(back->count) - static_cast<double>(bytes.count));
  RC_ASSERT(error <= static_cast<double>(bytes.count) * 0.051);
}

TEST(Bytes, SubtractionStopsAtZeroAndAdditionAtTheTop) {
  EXPECT_EQ(MiB(1) - MiB(2), Bytes{});
  EXPECT_EQ((Bytes{UINT64_MAX} + MiB(1)).count, UINT64_MAX);
}

TEST(ParseDuration, ReadsEveryForm) {
  EXPECT_EQ(ParseDuration("500ms")->count(), 500);
  EXPECT_EQ(ParseDuration("30s")->count(), 30'000);
  EXPECT_EQ(ParseDuration("10m")->count(), 600'000);
  EXPECT_EQ(ParseDuration("2h")->count(), 7'200'000);
  EXPECT_EQ(ParseDuration("1d")->count(), 86'400'000);
  EXPECT_EQ(ParseDuration("4:00:00")->count(), 14'400'000);
  EXPECT_EQ(ParseDuration("1:30")->count(), 90'000);
  EXPECT_EQ(ParseDuration("0.5")->count(), 500);
  EXPECT_EQ(ParseDuration("0")->count(), 0);
}

TEST(ParseDuration, RefusesWhatIsNoTime) {
  for (const char* text : {"", "-1s", "1y", "1:2:3:4", "1:99", "::", "x", "1e300", "99999999999999d"})
    EXPECT_FALSE(ParseDuration(text)) << text;
}

TEST(FormatDuration, PrintsTwoUnitsAtMost) {
  EXPECT_EQ(FormatDuration(Millis(500)), "500ms");
  EXPECT_EQ(FormatDuration(Millis(1500)), "1.5s");
  EXPECT_EQ(FormatDuration(Millis(150'000)), "2m30s");
  EXPECT_EQ(FormatDuration(Millis(7'500'000)), "2h05m");
  EXPECT_EQ(FormatDuration(Millis(273'600'000)), "3d04h");
}

TEST(FormatHours, HoursArePrintedWithoutRounding) {
  for (const auto& [hours, text] :
       {std::pair{0.0, "0"}, {0.01, "0.01"}, {0.5, "0.5"}, {100.06, "100.06"}, {1e6, "1000000"}})
    EXPECT_EQ(FormatHours(hours), text);
}

TEST(FormatUsedHours, IsRoundedDownAndOnlyNothingIsZero) {
  for (const auto& [hours, text] : {std::pair{0.0, "0"},
                                    {1e-9, "<0.0001"},
                                    {0.0042, "0.0042"},
                                    {0.1, "0.1"},
                                    {0.57, "0.57"},
                                    {4.999, "4.99"},
                                    {12.0, "12"}})
    EXPECT_EQ(FormatUsedHours(hours), text);
}

}  // namespace
}  // namespace gpuman::base
