#include "daemon/history/job_readings.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using history::JobActivityState;
using history::Metric;

gpu::SlowReadings Slow(int utilization, double power, int temperature) {
  gpu::SlowReadings slow;
  slow.utilization_gpu = utilization;
  slow.power_w = power;
  slow.temperature_c = temperature;
  return slow;
}

TEST(ReadingOfAGpu, HasWhatTheSampleHas) {
  gpu::GpuSample sample;
  sample.memory = gpu::GpuMemoryInfo{base::GiB(80), base::MiB(3), base::GiB(79), {}};
  sample.slow = Slow(97, 512.34, 61);
  auto reading = ReadingOf(sample);
  ASSERT_TRUE(reading);
  EXPECT_EQ((*reading)[Metric::kMemory], 3 * 1024);
  EXPECT_EQ((*reading)[Metric::kUtilization], 97);
  EXPECT_EQ((*reading)[Metric::kPower], 5123);
  EXPECT_EQ((*reading)[Metric::kTemperature], 61);
}

TEST(ReadingOfAGpu, DoesNotKnowWhatTheDriverDoesNotReport) {
  gpu::GpuSample sample;
  auto reading = ReadingOf(sample);
  ASSERT_TRUE(reading);
  EXPECT_EQ(*reading, history::HistorySample{});
  sample.state = gpu::GpuReachability::kLost;
  EXPECT_FALSE(ReadingOf(sample));
}

TEST(ReadingOfAJob, AddsUpItsGpusWhileItRuns) {
  const auto one = Slow(50, 300, 60), two = Slow(90, 400.5, 71);
  auto reading = ReadingOf(JobReading{base::GiB(1), JobActivityState::kRunning, {&one, &two}});
  EXPECT_EQ(reading[Metric::kMemory], 1 << 20);
  EXPECT_EQ(reading[Metric::kUtilization], 70);
  EXPECT_EQ(reading[Metric::kPower], 7005);
  EXPECT_EQ(reading[Metric::kTemperature], 71);
}

TEST(ReadingOfAJob, DoesNotHaveTheFiguresOfOthersWhileItWaits) {
  const auto gpu = Slow(50, 300, 60);
  for (const auto state : {JobActivityState::kWaiting, JobActivityState::kSuspended}) {
    auto reading = ReadingOf(JobReading{base::Bytes{0}, state, {&gpu}});
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
  auto reading = ReadingOf(JobReading{{}, JobActivityState::kRunning, {&one, &two}});
  EXPECT_EQ(reading[Metric::kPower], std::nullopt);
  EXPECT_EQ(reading[Metric::kUtilization], 70);
  EXPECT_EQ(reading[Metric::kMemory], std::nullopt);
  EXPECT_EQ(ReadingOf(JobReading{}), history::HistorySample{});
}

guard::GpuStatus StatusWith(std::vector<gpu::AttributedProcess> processes) {
  guard::GpuStatus status;
  status.sample.processes.emplace();
  status.processes = std::move(processes);
  return status;
}

gpu::AttributedProcess ProcessOf(std::int64_t job, std::optional<base::Bytes> memory) {
  gpu::AttributedProcess process;
  process.job = base::JobId{job};
  process.memory = memory;
  return process;
}

TEST(MomentsOf, HaveTheMemoryOfTheGpuWhereAJobUsesMost) {
  std::map<std::string, guard::GpuStatus> statuses;
  statuses["a"] =
      StatusWith({ProcessOf(1, base::MiB(3)), ProcessOf(1, base::MiB(4)), ProcessOf(2, std::nullopt)});
  statuses["b"] = StatusWith({ProcessOf(1, base::MiB(5))});
  statuses["lost"] = StatusWith({ProcessOf(1, base::MiB(50))});
  statuses["lost"].sample.state = gpu::GpuReachability::kLost;
  const auto moments = MomentsOf(statuses);
  EXPECT_EQ(moments.Of({1}).memory, base::MiB(7));
  EXPECT_EQ(moments.Of({1}).gpus.size(), 2u);
  EXPECT_EQ(moments.Of({2}).memory, std::nullopt);
  EXPECT_EQ(moments.Of({2}).gpus.size(), 1u);
  EXPECT_EQ(moments.Of({3}).memory, base::Bytes{0});
  EXPECT_EQ(MomentsOf({}).Of({3}).memory, std::nullopt);
}

}  // namespace
}  // namespace gpuman::daemon
