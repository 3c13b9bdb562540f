#include "shim/trace/sampler.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

namespace gpuman::shim {
namespace {

TEST(Sampler, HasAnExponentialFunctionOfItsOwn) {
  for (double x = 0; x < 64; x += 0.01) EXPECT_NEAR(ExpOfMinus(x), std::exp(-x), 1e-12) << x;
  EXPECT_EQ(ExpOfMinus(1000), 0);
}

TEST(Sampler, WeighsSamplesSoThatTheySumUpToWhatWasAllocated) {
  std::mt19937_64 sizes(20261129);
  for (const std::uint64_t mean : {kFirstMean, 16 * kFirstMean}) {
    double allocated = 0, told = 0, variance = 0;
    for (std::uint64_t i = 0; i < 200'000; ++i) {
      const std::uint64_t bytes = 1 + sizes() % (std::uint64_t{1} << (1 + sizes() % 23));
      const double drawn = -std::expm1(-static_cast<double>(bytes) / static_cast<double>(mean));
      allocated += static_cast<double>(bytes);
      variance += static_cast<double>(bytes) * static_cast<double>(bytes) * (1 / drawn - 1);
      if (IsDrawn(bytes, mean, Scramble(mean + i))) told += static_cast<double>(bytes) / drawn;
    }
    EXPECT_NEAR(told, allocated, 4 * std::sqrt(variance)) << mean;
    EXPECT_LT(4 * std::sqrt(variance), allocated / 10);
  }
}

TEST(Sampler, TakesSmallAllocationsInProportion) {
  const auto drawn = [](std::uint64_t bytes) {
    unsigned count = 0;
    for (std::uint64_t i = 0; i < 1'000'000; ++i) count += IsDrawn(bytes, kFirstMean, Scramble(i)) ? 1U : 0U;
    return count;
  };
  EXPECT_NEAR(drawn(4096), 7782, 400);
  EXPECT_NEAR(drawn(512), 976, 150);
  EXPECT_EQ(drawn(64 * kFirstMean), 1'000'000);
}

TEST(TracingBudget, SamplesLessWhereSamplesTakeTooLong) {
  TracingBudget pace;
  pace.Begin(0);
  EXPECT_EQ(pace.mean(), kFirstMean);
  std::uint64_t now = 0;
  for (int i = 0; i < 10'000; ++i) {  // 100 us of each 200 us
    pace.Took(now, now + 100'000, kFirstMean);
    now += 200'000;
  }
  EXPECT_GT(pace.mean(), kFirstMean << 10);
  for (int i = 0; i < 100; ++i) {
    now += 1'000'000'000;
    pace.Took(now, now + 100'000, kFirstMean);
  }
  EXPECT_EQ(pace.mean(), kFirstMean);
}

TEST(TracingBudget, HoldsTheTimeToAHundredth) {
  TracingBudget pace;
  pace.Begin(0);
  std::mt19937_64 random(7);
  std::uint64_t now = 0, spent = 0;
  while (now < 60'000'000'000) {  // an allocation of 2 MiB each 100 us, of which a sample takes 50 us
    now += 100'000;
    if (!IsDrawn(2u << 20, pace.mean(), random())) continue;
    spent += 50'000;
    pace.Took(now, now + 50'000, kFirstMean);
  }
  EXPECT_LT(static_cast<double>(spent), 0.013 * static_cast<double>(now));
  EXPECT_GT(static_cast<double>(spent), 0.004 * static_cast<double>(now));
}

TEST(TracingBudget, LeavesRoomInAFileThatFills) {
  EXPECT_EQ(LeastMean(0, 1600), kFirstMean);
  EXPECT_EQ(LeastMean(800, 1600), kFirstMean << 8);
  EXPECT_EQ(LeastMean(1600, 1600), kFirstMean << 15);
  TracingBudget pace;
  pace.Begin(0);
  pace.Took(0, 1, kFirstMean << 3);
  EXPECT_EQ(pace.mean(), kFirstMean << 3);
}

}  // namespace
}  // namespace gpuman::shim
