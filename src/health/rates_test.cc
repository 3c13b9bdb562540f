#include "health/rates.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gpuman::health {
namespace {

using base::Millis;
using base::MonoTime;

MonoTime SampledAt(int seconds) { return MonoTime(std::chrono::seconds(seconds)); }

TEST(Growth, IsUnknownBeforeThereAreTwoValues) {
  GrowthMeter counter(Millis(60'000));
  EXPECT_EQ(counter.Growth(), std::nullopt);
  counter.Add(SampledAt(0), 500);
  EXPECT_EQ(counter.Growth(), std::nullopt);
  counter.Add(SampledAt(1), 500);
  EXPECT_EQ(counter.Growth(), 0U);
}

TEST(Growth, IsARateOnlyOverAWholeWindow) {
  GrowthMeter counter(Millis(60'000));
  counter.Add(SampledAt(0), 0);
  counter.Add(SampledAt(30), 100);
  EXPECT_EQ(counter.RatePer(Millis(60'000)), std::nullopt);
  counter.Add(SampledAt(60), 100);
  EXPECT_DOUBLE_EQ(counter.RatePer(Millis(60'000)).value_or(-1), 100);
}

TEST(Growth, ForgetsWhatIsOlderThanTheWindow) {
  GrowthMeter counter(Millis(60'000));
  counter.Add(SampledAt(0), 0);
  for (int second = 10; second <= 600; second += 10) counter.Add(SampledAt(second), 7);
  EXPECT_EQ(counter.Growth(), 0U);
}

TEST(Growth, OfACounterThatBeganAgainIsWhatItShows) {
  GrowthMeter counter(Millis(60'000));
  counter.Add(SampledAt(0), 1'000'000);
  counter.Add(SampledAt(10), 3);
  EXPECT_EQ(counter.Growth(), 3U);
}

RC_GTEST_PROP(Growth, IsNeverMoreThanWhatWasCounted, (const std::vector<std::uint8_t>& steps)) {
  GrowthMeter counter(Millis(20'000));
  std::uint64_t value = 0, counted = 0;
  int second = 0;
  for (const auto step : steps) {
    const bool reset = step > 250;
    if (reset) value = 0;
    value += step;
    counted += step;
    counter.Add(SampledAt(++second), value);
    if (const auto growth = counter.Growth()) RC_ASSERT(*growth <= counted);
  }
}

TEST(ConditionMinuteCounter, CountsEachMinuteOnceAndForgets) {
  ConditionMinuteCounter slow(10);
  for (int second = 0; second < 60; ++second) slow.Add(SampledAt(second), true);
  EXPECT_EQ(slow.Count(), 1);
  slow.Add(SampledAt(60), true);
  EXPECT_EQ(slow.Count(), 2);
  slow.Add(SampledAt(599), false);
  EXPECT_EQ(slow.Count(), 2);
  slow.Add(SampledAt(600), false);
  EXPECT_EQ(slow.Count(), 1);
}

}  // namespace
}  // namespace gpuman::health
