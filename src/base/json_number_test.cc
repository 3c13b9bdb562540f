#include "base/json_number.h"

#include <gtest/gtest.h>

#include <limits>

namespace gpuman::base {
namespace {

using Json = nlohmann::json;

template <typename T>
std::optional<T> Read(const char* text) {
  return WholeNumber<T>(Json::parse(text));
}

TEST(WholeNumber, IsTakenUpToTheLimitsOfItsType) {
  EXPECT_EQ(Read<int>("2147483647"), std::numeric_limits<int>::max());
  EXPECT_EQ(Read<int>("-2147483648"), std::numeric_limits<int>::min());
  EXPECT_EQ(Read<std::int64_t>("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(Read<std::int64_t>("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(Read<std::uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(Read<std::uint32_t>("0"), 0u);
}

TEST(WholeNumber, NumberBeyondItsTypeIsRefusedNotTruncated) {
  EXPECT_FALSE(Read<int>("2147483648"));
  EXPECT_FALSE(Read<int>("4294967296"));  // its low bits are 0
  EXPECT_FALSE(Read<int>("-2147483649"));
  EXPECT_FALSE(Read<std::int64_t>("9223372036854775808"));
  EXPECT_FALSE(Read<std::uint64_t>("-1"));
  EXPECT_FALSE(Read<std::uint64_t>("18446744073709551616"));  // the library reads it as a float
}

TEST(WholeNumber, FractionsExponentsAndOtherTypesAreRefused) {
  for (const char* text : {"1.0", "1e3", "1e300", "-1e300", "true", "null", "\"1\"", "[1]", "{\"n\":1}"})
    EXPECT_FALSE(Read<std::int64_t>(text)) << text;
}

TEST(WholeNumber, ComesOutOfOrderedJsonAsWell) {
  EXPECT_EQ(WholeNumber<int>(nlohmann::ordered_json(7)), 7);
  EXPECT_FALSE(WholeNumber<int>(nlohmann::ordered_json(INT64_MAX)));
}

}  // namespace
}  // namespace gpuman::base
