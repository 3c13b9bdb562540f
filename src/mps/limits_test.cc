#include "mps/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::mps {
namespace {

using ::testing::HasSubstr;

TEST(MpsLimits, ALimitOutOfRangeIsRefusedWithTheRange) {
  const base::Bytes whole = base::GiB(4);
  EXPECT_TRUE(Validate({}, whole));
  EXPECT_TRUE(Validate({1.0, base::MiB(64)}, whole));
  EXPECT_TRUE(Validate({100.0, whole}, whole));
  for (const double percent : {0.0, 0.5, 100.5, -3.0}) {
    const auto checked = Validate({percent, {}}, whole);
    ASSERT_FALSE(checked) << percent;
    EXPECT_THAT(checked.error().message, HasSubstr("between 1% and 100%"));
  }
  EXPECT_THAT(Validate({{}, base::GiB(5)}, whole).error().message,
              HasSubstr("5GiB is not between 64MiB and"));
  EXPECT_FALSE(Validate({{}, base::MiB(1)}, whole));
}

TEST(MpsLimits, AreWrittenAsTheControlProgramTakesThem) {
  EXPECT_EQ(ThreadsWord(50), "50");
  EXPECT_EQ(ThreadsWord(12.5), "12.5");
  EXPECT_EQ(MemoryWord(base::GiB(8)), "8192M");
  EXPECT_EQ(MemoryWord(base::Bytes{base::MiB(3).count + 1}), "3M");
}

}  // namespace
}  // namespace gpuman::mps
