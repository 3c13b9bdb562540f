#include "jobs/rare.h"

#include <gtest/gtest.h>

#include <string>

namespace gpuman::jobs {
namespace {

TEST(Rare, IsAnOptionalWithAValueOfItsOwn) {
  Rare<std::string> absent;
  EXPECT_FALSE(absent);
  EXPECT_EQ(absent.Optional(), std::nullopt);
  Rare<std::string> value = std::string("a");
  Rare<std::string> copy = value;
  copy->append("b");
  EXPECT_EQ(*value, "a");
  EXPECT_EQ(copy.Optional(), "ab");
  value = copy;
  EXPECT_EQ(value, copy);
  EXPECT_NE(value, absent);
  value.reset();
  EXPECT_EQ(value, absent);
  EXPECT_EQ(Rare<std::string>(std::optional<std::string>()), absent);
}

TEST(Rare, TakesOnePointer) { EXPECT_EQ(sizeof(Rare<std::string>), sizeof(void*)); }

}  // namespace
}  // namespace gpuman::jobs
