#include "jobs/json_members.h"

#include <gtest/gtest.h>

namespace gpuman::jobs {
namespace {

using Json = nlohmann::json;

TEST(JsonMembers, HasTheValuesOfTheObjectAsTheLibraryReadsThem) {
  const std::string text =
      R"({"a":1,"b":-2,"c":2.5,"d":"\u00e4\n","e":null,"f":true,"g":[1,[2,{"h":[]}],"x"],"i":{"j":{"k":[{}]}},"":9,"long name":10})";
  const auto members = JsonMembers::Parse(text);
  ASSERT_TRUE(members) << members.error().message;
  const Json whole = Json::parse(text);
  for (const auto& [name, value] : whole.items()) {
    ASSERT_TRUE(members->contains(name)) << name;
    EXPECT_EQ(*members->find(name), value) << name;
  }
  for (const char* absent : {"z", "B", "long nam", "lonG name", "ab"})
    EXPECT_EQ(members->find(absent), members->end()) << absent;
  EXPECT_EQ(members->value("a", 7), 1);
  EXPECT_EQ(members->value("z", 7), 7);
}

TEST(JsonMembers, TakesTheLastOfTwoWithOneName) {
  const auto members = JsonMembers::Parse(R"({"a":1,"b":{"c":1,"c":2},"a":3})");
  ASSERT_TRUE(members);
  EXPECT_EQ(*members->find("a"), 3);
  EXPECT_EQ(*members->find("b"), Json({{"c", 2}}));
}

TEST(JsonMembers, RefusesWhatIsNoObject) {
  for (const char* text :
       {"", "{", "[]", "7", "\"a\"", "null", "{} {}", R"({"a":})", R"({"a":1)", R"({"a":[1})"})
    EXPECT_FALSE(JsonMembers::Parse(text)) << text;
  EXPECT_TRUE(JsonMembers::Parse("{}"));
}

}  // namespace
}  // namespace gpuman::jobs
