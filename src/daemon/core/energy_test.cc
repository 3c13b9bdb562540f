#include "daemon/core/energy.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

constexpr const char* kA = "GPU-a";
constexpr const char* kB = "GPU-b";

jobs::Job Exclusive(std::vector<std::string> gpus) {
  jobs::Job job;
  job.queued = true;
  job.gpus = std::move(gpus);
  return job;
}

base::MonoTime At(int ms) { return base::MonoTime(std::chrono::milliseconds(ms)); }

TEST(Energy, IsWhatTheGpusOfTheRunUsedFromItsStartToItsEnd) {
  auto job = Exclusive({kA, kB});
  BeginEnergy(job, {{kA, 1'000}, {kB, 50'000}});
  EXPECT_DOUBLE_EQ(*EnergyOf(job, {{kA, 4'000}, {kB, 52'500}}), 5.5);
}

TEST(Energy, IsNotToldOfGpusThatAreSharedOrDoNotTell) {
  auto shared = Exclusive({kA});
  shared.spec.Change([](auto& spec) { spec.share = true; });
  BeginEnergy(shared, {{kA, 1}});
  EXPECT_FALSE(EnergyOf(shared, {{kA, 9}}));
  auto none = Exclusive({});
  BeginEnergy(none, {{kA, 1}});
  EXPECT_FALSE(EnergyOf(none, {{kA, 9}}));
  auto half = Exclusive({kA, kB});
  BeginEnergy(half, {{kA, 1}});
  EXPECT_FALSE(EnergyOf(half, {{kA, 9}, {kB, 9}}));
}

TEST(Energy, DoesNotCountTheTimeOffTheGpu) {
  auto job = Exclusive({kA});
  BeginEnergy(job, {{kA, 1'000}});
  PauseEnergy(job, {{kA, 3'000}});
  EXPECT_DOUBLE_EQ(*EnergyOf(job, {{kA, 90'000}}), 2) << "it ended while it was off";
  ContinueEnergy(job, {{kA, 100'000}});
  EXPECT_DOUBLE_EQ(*EnergyOf(job, {{kA, 101'000}}), 3);
}

TEST(Energy, GoesWithAJobThatIsMoved) {
  auto job = Exclusive({kA});
  BeginEnergy(job, {{kA, 1'000}, {kB, 7'000}});
  PauseEnergy(job, {{kA, 2'000}, {kB, 7'500}});
  job.gpus = {kB};
  ContinueEnergy(job, {{kA, 2'000}, {kB, 7'500}});
  EXPECT_DOUBLE_EQ(*EnergyOf(job, {{kA, 9'000}, {kB, 8'000}}), 1.5);
}

TEST(Energy, IsNotToldWhereTheCounterBeganAnewOrNobodyLooked) {
  auto job = Exclusive({kA});
  BeginEnergy(job, {{kA, 1'000'000'000}});
  EXPECT_DOUBLE_EQ(*EnergyOf(job, {{kA, 999'999'000}}), 0) << "it was reckoned too high";
  EXPECT_FALSE(EnergyOf(job, {{kA, 10}}));
  EXPECT_FALSE(EnergyOf(job, {}));
  PauseEnergy(job, {});
  ContinueEnergy(job, {{kA, 2'000}});
  EXPECT_FALSE(EnergyOf(job, {{kA, 3'000}})) << "what it used before is not known";
}

TEST(Energy, IsReckonedFromThePowerSinceTheLastReading) {
  std::map<std::string, guard::GpuStatus> statuses;
  statuses[kA].sample.slow.energy = {5'000, At(1'000)};
  statuses[kA].sample.slow.power_w = 200;
  statuses[kB].sample.slow.power_w = 300;
  EXPECT_EQ(EnergyAt(statuses, At(1'500)), (EnergyReadings{{kA, 105'000}}));
  EXPECT_EQ(EnergyAt(statuses, At(60'000)), EnergyReadings{}) << "too old";
  statuses[kA].sample.state = gpu::GpuState::kLost;
  EXPECT_EQ(EnergyAt(statuses, At(1'500)), EnergyReadings{});
}

}  // namespace
}  // namespace gpuman::daemon
