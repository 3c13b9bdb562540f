#include "mig/record.h"

#include <gtest/gtest.h>

namespace gpuman::mig {
namespace {

TEST(MigRecord, IsReadAsItWasWritten) {
  for (const WantedLayout& wanted :
       {WantedLayout{true, {{"3g.71gb", 0, 1}, {"1g.18gb", 0, 2}, {"7g.141gb", 1, 7}}},
        WantedLayout{true, {}}, WantedLayout{false, {}}})
    EXPECT_EQ(*ParseRecord(SerializeRecord(wanted)), wanted);
}

TEST(MigRecord, IsRefusedWhereNobodyWroteIt) {
  for (const char* text :
       {"", "{}", "[]", "null", R"({"v":1,"enabled":1,"instances":[]})",
        R"({"v":1,"enabled":true,"instances":["x"]})", R"({"v":1,"enabled":true,"instances":[],"more":1})"})
    EXPECT_EQ(ParseRecord(text).error().code, base::ErrorCode::kCorrupt) << text;
  EXPECT_EQ(ParseRecord(R"({"v":2,"enabled":true,"instances":[]})").error().code,
            base::ErrorCode::kNotSupported);
}

}  // namespace
}  // namespace gpuman::mig
