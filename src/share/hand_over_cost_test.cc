#include "share/hand_over_cost.h"

#include <gtest/gtest.h>

namespace gpuman::share {
namespace {

using base::GiB;
using base::MiB;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

// Forty GiB were copied in a second.
HandOverCostEstimator Measured() {
  HandOverCostEstimator meter;
  meter.Add(1s, {GiB(40), GiB(40)});
  EXPECT_EQ(meter.TimeFor(GiB(20)), Span(500ms));
  return meter;
}

TEST(HandOverCostEstimator, MemoryWithoutCopyDoesNotRaiseBusSpeed) {
  HandOverCostEstimator meter = Measured();
  meter.Add(20ms, {GiB(40), {}});
  EXPECT_EQ(meter.TimeFor(GiB(20)), Span(500ms)) << "on its way back all of it is copied";
  meter.Add(20ms, {GiB(40), MiB(400)});
  EXPECT_EQ(meter.TimeFor(GiB(20)), Span(500ms));
}

TEST(HandOverCostEstimator, MostlyUncopiedMemoryDoesNotLowerBusSpeed) {
  HandOverCostEstimator meter = Measured();
  meter.Add(200ms, {GiB(40), MiB(100)});
  EXPECT_EQ(meter.TimeFor(GiB(20)), Span(500ms));
}

TEST(HandOverCostEstimator, PartlyCopiedMemoryGivesBusSpeedOfTheCopy) {
  HandOverCostEstimator meter = Measured();
  for (int i = 0; i < 100; ++i) meter.Add(1s, {GiB(30), GiB(20)});
  EXPECT_NEAR(std::chrono::duration<double>(meter.TimeFor(GiB(20))).count(), 1, 0.001);
}

TEST(HandOverCostEstimator, HandOverTimeFollowsMeasuredTimeNotCopiedBytes) {
  HandOverCostEstimator meter = Measured();
  EXPECT_EQ(meter.HandOver(), Span(1s));
  for (int i = 0; i < 100; ++i) meter.Add(20ms, {GiB(40), {}});
  EXPECT_NEAR(std::chrono::duration<double>(meter.HandOver()).count(), 0.02, 0.001);
  const SchedulerSettings settings;
  EXPECT_EQ(QuantumFor(meter.HandOver(), settings), Span(settings.quantum_min));
}

TEST(HandOverCostEstimator, TimeIsGuessedBeforeTheFirstCopy) {
  HandOverCostEstimator meter;
  const Span guess = meter.TimeFor(GiB(20));
  EXPECT_GT(guess, Span(500ms));
  meter.Add(20ms, {GiB(40), {}});
  EXPECT_EQ(meter.TimeFor(GiB(20)), guess);
}

}  // namespace
}  // namespace gpuman::share
