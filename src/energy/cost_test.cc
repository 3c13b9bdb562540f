#include "energy/cost.h"

#include <gtest/gtest.h>

namespace gpuman::energy {
namespace {

constexpr double kKwh = 3.6e6;

Prices Both() { return {.gpu_hour = 0.5, .kwh = 0.25, .currency = "EUR"}; }

TEST(Cost, IsOfTimeAndEnergy) {
  EXPECT_DOUBLE_EQ(*CostOf(Both(), 3, 2 * kKwh), 2);
  EXPECT_DOUBLE_EQ(*CostOf({.gpu_hour = 0.5}, 3, 2 * kKwh), 1.5);
  EXPECT_DOUBLE_EQ(*CostOf({.kwh = 0.25}, 3, 2 * kKwh), 0.5);
}

TEST(Cost, IsUnknownWithoutAPriceForWhatIsKnown) {
  EXPECT_FALSE(CostOf({}, 3, kKwh));
  EXPECT_FALSE(CostOf({.kwh = 0.25}, 3, std::nullopt));
  EXPECT_DOUBLE_EQ(*CostOf(Both(), 3, std::nullopt), 1.5) << "the time costs";
}

TEST(Cost, IsSaidInOneSentence) {
  EXPECT_EQ(UseText(0.41 * kKwh, 0.12, Both(), false), "It used 0.41 kWh, 0.12 EUR with its GPU time.");
  EXPECT_EQ(UseText(0.41 * kKwh, 0.12, {.kwh = 0.3, .currency = "EUR"}, true),
            "It has used 0.41 kWh, 0.12 EUR so far.");
  EXPECT_EQ(UseText(0.0041 * kKwh, std::nullopt, {}, false), "It used 4.10 Wh.");
  EXPECT_EQ(UseText(std::nullopt, 0.12, Both(), false), "It used GPU time for 0.12 EUR.");
  EXPECT_FALSE(UseText(std::nullopt, std::nullopt, Both(), false));
}

}  // namespace
}  // namespace gpuman::energy
