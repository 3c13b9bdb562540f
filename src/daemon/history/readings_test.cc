#include "daemon/history/readings.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using history::Metric;
using history::State;

gpu::SlowReadings Slow(int utilization, double power, int temperature) {
  gpu::SlowReadings slow;
  slow.utilization_gpu = utilization;
  slow.power_w = power;
  slow.temperature_c = temperature;
  return slow;
}

TEST(ReadingOfAGpu, HasWhatTheSampleHas) {
  gpu::Sample sample;
  sample.memory = gpu::MemoryUse{base::GiB(80), base::MiB(3), base::GiB(79), {}};
  sample.slow = Slow(97, 512.34, 61);
  auto reading = ReadingOf(sample);
  ASSERT_TRUE(reading);
  EXPECT_EQ((*reading)[Metric::kMemory], 3 * 1024);
  EXPECT_EQ((*reading)[Metric::kUtilization], 97);
  EXPECT_EQ((*reading)[Metric::kPower], 5123);
  EXPECT_EQ((*reading)[Metric::kTemperature], 61);
}

TEST(ReadingOfAGpu, DoesNotKnowWhatTheDriverDoesNotReport) {
  gpu::Sample sample;
  auto reading = ReadingOf(sample);
  ASSERT_TRUE(reading);
  EXPECT_EQ(*reading, history::Reading{});
  sample.state = gpu::GpuState::kLost;
  EXPECT_FALSE(ReadingOf(sample));
}

TEST(ReadingOfAJob, AddsUpItsGpusWhileItRuns) {
  const auto one = Slow(50, 300, 60), two = Slow(90, 400.5, 71);
  auto reading = ReadingOf(JobMoment{base::GiB(1), State::kRunning, {&one, &two}});
  EXPECT_EQ(reading[Metric::kMemory], 1 << 20);
  EXPECT_EQ(reading[Metric::kUtilization], 70);
  EXPECT_EQ(reading[Metric::kPower], 7005);
  EXPECT_EQ(reading[Metric::kTemperature], 71);
}

TEST(ReadingOfAJob, DoesNotHaveTheFiguresOfOthersWhileItWaits) {
  const auto gpu = Slow(50, 300, 60);
  for (const auto state : {State::kWaiting, State::kSuspended}) {
    auto reading = ReadingOf(JobMoment{base::Bytes{0}, state, {&gpu}});
    EXPECT_EQ(reading.state, state);
    EXPECT_EQ(reading[Metric::kMemory], 0);
    EXPECT_EQ(reading[Metric::kUtilization], std::nullopt);
    EXPECT_EQ(reading[Metric::kPower], std::nullopt);
  }
}

TEST(ReadingOfAJob, DoesNotKnowWhatOneOfItsGpusDoesNotReport) {
  const auto one = Slow(50, 300, 60);
  auto two = Slow(90, 400, 71);
  two.power_w.reset();
  auto reading = ReadingOf(JobMoment{{}, State::kRunning, {&one, &two}});
  EXPECT_EQ(reading[Metric::kPower], std::nullopt);
  EXPECT_EQ(reading[Metric::kUtilization], 70);
  EXPECT_EQ(reading[Metric::kMemory], std::nullopt);
  EXPECT_EQ(ReadingOf(JobMoment{}), history::Reading{});
}

}  // namespace
}  // namespace gpuman::daemon
