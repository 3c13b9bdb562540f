#include "jobs/fast_json.h"

#include <gtest/gtest.h>

namespace gpuman::jobs {
namespace {

using base::json::Json;

TEST(ParseFast, ReadsWhatTheLibraryReads) {
  const std::string text =
      R"({"a":1,"b":-2,"c":2.5,"d":"\u00e4\n","e":null,"f":true,"g":[1,[2,{"h":[]}],"x"],"i":{"j":{"k":[{}]}},"":9,"l":18446744073709551615})";
  const auto json = ParseFast(text);
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(*json, Json::parse(text));
  EXPECT_EQ(*ParseFast("7"), Json(7));
}

TEST(ParseFast, KeepsBothOfTwoWithOneNameAndTheLastCounts) {
  struct Two {
    int a = 0;
  } two;
  const auto json = ParseFast(R"({"a":1,"a":3})");
  ASSERT_TRUE(json);
  base::json::ParseState state{{}};
  base::json::JsonObjectReader(state, {}, *json)("a", two.a);
  EXPECT_EQ(two.a, 3);
}

TEST(ParseFast, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "{} {}", R"({"a":})", R"({"a":1)", R"({"a":[1})", "\xff"})
    EXPECT_FALSE(ParseFast(text)) << text;
}

}  // namespace
}  // namespace gpuman::jobs
