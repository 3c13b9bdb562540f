#include "jobs/indirect_optional.h"

#include <gtest/gtest.h>

#include <string>

namespace gpuman::jobs {
namespace {

TEST(IndirectOptional, IsAnOptionalWithAValueOfItsOwn) {
  IndirectOptional<std::string> absent;
  EXPECT_FALSE(absent);
  EXPECT_EQ(absent.Optional(), std::nullopt);
  IndirectOptional<std::string> value = std::string("a");
  IndirectOptional<std::string> copy = value;
  copy->append("b");
  EXPECT_EQ(*value, "a");
  EXPECT_EQ(copy.Optional(), "ab");
  value = copy;
  EXPECT_EQ(value, copy);
  EXPECT_NE(value, absent);
  value.reset();
  EXPECT_EQ(value, absent);
  EXPECT_EQ(IndirectOptional<std::string>(std::optional<std::string>()), absent);
}

TEST(IndirectOptional, TakesOnePointer) { EXPECT_EQ(sizeof(IndirectOptional<std::string>), sizeof(void*)); }

}  // namespace
}  // namespace gpuman::jobs
