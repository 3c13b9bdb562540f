#include "energy/rest_power.h"

#include <gtest/gtest.h>

namespace gpuman::energy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kAtOnce{1}, kAtRest{10};

// For so many seconds, one after the other.
void See(RestPower& rest, Millijoules each_second, int time, Time after_last_process = kAtRest) {
  for (int i = 0; i < time; ++i) rest.Learn(each_second, seconds(1), after_last_process);
}

TEST(RestPower, RestPowerIsUnknownAfterShortTime) {
  RestPower rest;
  for (int i = 0; i < 16; ++i) {
    EXPECT_FALSE(rest.watts());
    rest.Learn(12'500, milliseconds(125), kAtRest);
  }
  EXPECT_DOUBLE_EQ(rest.watts().value(), 100);
}

TEST(RestPower, ReadingAfterUseCountsOnlyUntilGpuHasRested) {
  RestPower rest;
  See(rest, 132'000, 3, kAtOnce);
  EXPECT_DOUBLE_EQ(rest.watts().value(), 132) << "there is no better one";
  See(rest, 82'000, 2);
  EXPECT_DOUBLE_EQ(*rest.watts(), 82) << "at once, and not by and by";
  See(rest, 132'000, 600, kAtOnce);
  EXPECT_DOUBLE_EQ(*rest.watts(), 82);
}

TEST(RestPower, StoredRestPowerCountsUntilMeasured) {
  RestPower rest(100);
  See(rest, 132'000, 10, kAtOnce);
  EXPECT_DOUBLE_EQ(*rest.watts(), 100);
  See(rest, 82'000, 2);
  EXPECT_DOUBLE_EQ(*rest.watts(), 82);
}

TEST(RestPower, FollowsMuchLowerReadingsSoonAndMuchHigherOnesSlowly) {
  RestPower rest;
  See(rest, 100'000, 2);
  See(rest, 60'000, 20);  // its clocks had stayed high for longer
  EXPECT_NEAR(*rest.watts(), 60, 4);
  See(rest, 100'000, 20);
  EXPECT_LT(*rest.watts(), 67);
}

TEST(RestPower, SlightlyDifferentReadingsAreAveraged) {
  RestPower rest;
  See(rest, 82'000, 2);
  for (int i = 0; i < 500; ++i) See(rest, i % 2 == 0 ? 78'000 : 86'000, 2);
  EXPECT_NEAR(*rest.watts(), 82, 1) << "and not the least of them";
}

TEST(RestPower, ReadingsBeforeAndAfterRestAreNotMixed) {
  RestPower rest;
  See(rest, 132'000, 1, kAtOnce);
  See(rest, 82'000, 1);
  EXPECT_FALSE(rest.watts());
  See(rest, 82'000, 1);
  EXPECT_DOUBLE_EQ(rest.watts().value(), 82);
}

}  // namespace
}  // namespace gpuman::energy
