// Tests reading and setting on the simulated driver, and their behaviour when the driver refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>

#include "device/applier.h"
#include "device/reader.h"
#include "sim/state/lifecycle.h"
#include "sim/state/test_state.h"

namespace gpuman::device {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint32_t kInUse = 19, kLost = 15, kNoPermission = 4, kUnknown = 999, kIgnored = 0;

class DeviceApply : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "the driver lets only root change settings";
    Boot("h200");
  }
  void Boot(const char* profile) {
    nvml_.reset();
    machine_ = std::make_unique<sim::TestState>(sim::CreateOptions{.profile = profile, .gpus = 2});
    setenv(sim::kDirectoryVariable, machine_->directory().c_str(), 1);
    auto loaded = driver::Nvml::Load(GPUMAN_SIM_LIBRARIES "/libnvidia-ml.so.1");
    ASSERT_TRUE(loaded) << loaded.error().message;
    nvml_ = std::move(*loaded);
  }
  std::string Uuid(unsigned index = 0) { return machine_->shared().gpu_static[index].uuid; }
  DeviceReading Read(unsigned index = 0) {
    auto reading = ReadDevice(*nvml_, Uuid(index));
    EXPECT_TRUE(reading);
    return reading ? *reading : DeviceReading{};
  }
  std::optional<Value> Now(Setting setting, unsigned index = 0) {
    return Read(index).settings.at(setting).now;
  }
  void Refuse(const char* function, std::uint32_t status, unsigned gpu = sim::kAllGpus, unsigned nth = 1) {
    auto& refusal = machine_->shared().faults.refusals[0];
    std::strncpy(refusal.function, function, sizeof refusal.function - 1);
    refusal.gpu.store(gpu);
    refusal.status.store(status);
    refusal.nth.store(nth);
    refusal.active.store(1);
  }
  // On both GPUs, the power limit to 300 W from 700 W, and exclusive mode from default.
  std::vector<GpuSteps> Work() {
    std::vector<GpuSteps> work;
    for (const unsigned gpu : {0u, 1u})
      work.push_back(
          {Uuid(gpu),
           {{Setting::kComputeMode, Mode(ComputeMode::kDefault), Mode(ComputeMode::kExclusiveProcess)},
            {Setting::kPower, Milliwatts(700'000), Milliwatts(300'000)},
            {Setting::kGraphicsClocks, kUnlocked, Clocks(1200, 1200)}}});
    return work;
  }
  ApplyOutcome Do(OnFailure on_failure = OnFailure::kUndo) {
    return Apply(*nvml_, Work(), on_failure, progress_);
  }
  bool IsUntouched(unsigned index) {
    return Now(Setting::kComputeMode, index) == Mode(ComputeMode::kDefault) &&
           Now(Setting::kPower, index) == Milliwatts(700'000) &&
           machine_->shared().gpu[index].locked_graphics_max_mhz.load() == 0;
  }

  std::unique_ptr<sim::TestState> machine_;
  std::unique_ptr<driver::Nvml> nvml_;
  ApplyProgress progress_;
};

TEST_F(DeviceApply, ReadsWhatADataCentreGpuHas) {
  const auto reading = Read();
  for (const auto setting : AllSettings())
    EXPECT_EQ(reading.settings.at(setting).supported, true) << ToString(setting);
  EXPECT_EQ(reading.settings.at(Setting::kPersistence).now, Switch(true));
  EXPECT_EQ(reading.settings.at(Setting::kPower).usual, Milliwatts(700'000));
  ASSERT_TRUE(reading.power);
  EXPECT_EQ(reading.power->least_mw, 200'000U);
  EXPECT_EQ(reading.settings.at(Setting::kEcc).pending, Switch(true));
  EXPECT_EQ(reading.settings.at(Setting::kGraphicsClocks).now, std::nullopt) << "nobody can read it";
  ASSERT_TRUE(reading.clocks.contains(3201));
  EXPECT_EQ(reading.clocks.at(3201).back(), 1980U);
  EXPECT_TRUE(reading.energy_mj);
}

TEST_F(DeviceApply, ASettingThatALaptopLacksIsUnsupportedAndNotZero) {
  Boot("rtx4050");
  const auto reading = Read();
  for (const auto setting : {Setting::kEcc, Setting::kPower}) {
    const auto& reported = reading.settings.at(setting);
    EXPECT_EQ(reported.supported, false) << ToString(setting);
    EXPECT_EQ(reported.now, std::nullopt);
    EXPECT_THAT(reported.why, HasSubstr("does not have it"));
  }
  EXPECT_EQ(reading.power, std::nullopt);
}

TEST_F(DeviceApply, ALookReadsWhatItIsAskedForAlone) {
  const auto reading = ReadSettings(*nvml_, Uuid(), {Setting::kPower, Setting::kGraphicsClocks});
  ASSERT_TRUE(reading);
  EXPECT_THAT(reading->settings, SizeIs(1));
  EXPECT_TRUE(reading->graphics_mhz);
  EXPECT_EQ(reading->memory_mhz, std::nullopt);
}

TEST_F(DeviceApply, SetsEverySettingAndItsOpposite) {
  const std::vector<DevicePlanStep> there{{Setting::kPersistence, {}, Switch(false)},
                                          {Setting::kComputeMode, {}, Mode(ComputeMode::kProhibited)},
                                          {Setting::kPower, {}, Milliwatts(250'000)},
                                          {Setting::kMemoryClocks, {}, Clocks(2201, 2201)},
                                          {Setting::kGraphicsClocks, {}, Clocks(1200, 1500)},
                                          {Setting::kEcc, {}, Switch(false)}};
  EXPECT_TRUE(Apply(*nvml_, {{Uuid(), there}}, OnFailure::kUndo, progress_).Succeeded());
  const auto& now = machine_->shared().gpu[0];
  EXPECT_EQ(now.persistence.load(), 0U);
  EXPECT_EQ(now.compute_mode.load(), 2U);
  EXPECT_EQ(now.power_limit_mw.load(), 250'000U);
  EXPECT_EQ(now.locked_memory_max_mhz.load(), 2201U);
  EXPECT_EQ(now.locked_graphics_min_mhz.load(), 1200U);
  EXPECT_EQ(now.locked_graphics_max_mhz.load(), 1500U);
  EXPECT_EQ(now.ecc_pending.load(), 0U);
  EXPECT_EQ(now.ecc_current.load(), 1U) << "a reset brings it";
  const std::vector<DevicePlanStep> back{{Setting::kPersistence, {}, Switch(true)},
                                         {Setting::kMemoryClocks, {}, kUnlocked},
                                         {Setting::kGraphicsClocks, {}, kUnlocked}};
  EXPECT_TRUE(Apply(*nvml_, {{Uuid(), back}}, OnFailure::kUndo, progress_).Succeeded());
  EXPECT_EQ(now.persistence.load(), 1U);
  EXPECT_EQ(now.locked_memory_max_mhz.load(), 0U);
  EXPECT_EQ(now.locked_graphics_max_mhz.load(), 0U);
}

TEST_F(DeviceApply, AFailureInTheMiddleUndoesWhatWasDoneOnEveryGpu) {
  Refuse("nvmlDeviceSetPowerManagementLimit_v2", kUnknown, 1);
  const auto outcome = Do();
  ASSERT_THAT(outcome.failures, SizeIs(1));
  EXPECT_EQ(outcome.failures[0].uuid, Uuid(1));
  EXPECT_EQ(outcome.failures[0].setting, Setting::kPower);
  ASSERT_THAT(outcome.undone, SizeIs(2));
  EXPECT_EQ(outcome.undone[0].uuid, Uuid(1));
  EXPECT_THAT(outcome.undone[0].steps, SizeIs(1));
  EXPECT_THAT(outcome.undone[1].steps, SizeIs(3));
  EXPECT_THAT(outcome.not_undone, IsEmpty());
  EXPECT_TRUE(IsUntouched(0));
  EXPECT_TRUE(IsUntouched(1));
}

TEST_F(DeviceApply, AGpuThatIsLostInTheMiddleIsReportedAndTheOthersAreUndone) {
  Refuse("nvmlDeviceSetPowerManagementLimit_v2", kLost, 1);
  const auto outcome = Do();
  ASSERT_THAT(outcome.failures, SizeIs(1));
  EXPECT_EQ(outcome.failures[0].error.code, base::ErrorCode::kUnavailable);
  ASSERT_THAT(outcome.not_undone, SizeIs(1));
  EXPECT_EQ(outcome.not_undone[0].uuid, Uuid(1));
  EXPECT_EQ(outcome.not_undone[0].setting, Setting::kComputeMode);
  EXPECT_TRUE(IsUntouched(0));
}

TEST_F(DeviceApply, ADriverThatSaysYesAndDoesNothingIsFoundOut) {
  Refuse("nvmlDeviceSetPowerManagementLimit_v2", kIgnored, 0);
  const auto outcome = Do();
  ASSERT_THAT(outcome.failures, SizeIs(1));
  EXPECT_THAT(outcome.failures[0].error.message, HasSubstr("set to 300W and shows 700W"));
  EXPECT_TRUE(IsUntouched(0));
}

TEST_F(DeviceApply, AnErrorSaysWhatIsNeeded) {
  Refuse("nvmlDeviceSetComputeMode", kNoPermission);
  auto outcome = Do();
  ASSERT_THAT(outcome.failures, SizeIs(1));
  EXPECT_EQ(outcome.failures[0].error.code, base::ErrorCode::kPermissionDenied);
  EXPECT_THAT(outcome.failures[0].error.hint, HasSubstr("root"));
  Refuse("nvmlDeviceSetComputeMode", kInUse);
  outcome = Do();
  ASSERT_THAT(outcome.failures, SizeIs(1));
  EXPECT_EQ(outcome.failures[0].error.code, base::ErrorCode::kConflict);
  EXPECT_THAT(outcome.failures[0].error.hint, HasSubstr("proclist"));
}

TEST_F(DeviceApply, AfterAFailureGoOnAppliesTheRest) {
  Refuse("nvmlDeviceSetPowerManagementLimit_v2", kUnknown, 0);
  const auto outcome = Do(OnFailure::kGoOn);
  EXPECT_THAT(outcome.failures, SizeIs(1));
  EXPECT_EQ(Now(Setting::kComputeMode, 0), Mode(ComputeMode::kExclusiveProcess));
  EXPECT_EQ(Now(Setting::kPower, 1), Milliwatts(300'000));
}

TEST_F(DeviceApply, WorkThatNobodyWaitsForIsUndone) {
  progress_.abandoned = true;
  const auto outcome = Do();
  ASSERT_THAT(outcome.failures, SizeIs(1));
  EXPECT_EQ(outcome.failures[0].error.code, base::ErrorCode::kTimeout);
  EXPECT_TRUE(IsUntouched(0));
  EXPECT_TRUE(IsUntouched(1));
}

TEST_F(DeviceApply, AnUnknownOldValueIsReportedAsNotUndone) {
  Refuse("nvmlDeviceSetPowerManagementLimit_v2", kUnknown);
  const auto outcome = Apply(*nvml_,
                             {{Uuid(),
                               {{Setting::kComputeMode, {}, Mode(ComputeMode::kProhibited)},
                                {Setting::kPower, {}, Milliwatts(300'000)}}}},
                             OnFailure::kUndo, progress_);
  ASSERT_THAT(outcome.not_undone, SizeIs(1));
  EXPECT_THAT(outcome.not_undone[0].error.message, HasSubstr("not known"));
}

TEST_F(DeviceApply, AResetStartsTheEnergyCounterAnew) {
  auto& since = machine_->shared().gpu[0].energy_since_ns;
  EXPECT_EQ(since.load(), 0U);
  sim::ResetGpu(machine_->shared(), 0);
  EXPECT_GT(since.load(), 0U);
}

TEST_F(DeviceApply, ErrorCountersAreCleared) {
  auto& counters = machine_->shared().gpu[0].ecc;
  counters[0][1][2].store(3);
  counters[1][1][2].store(5);
  EXPECT_TRUE(ClearEccErrors(*nvml_, Uuid(), false));
  EXPECT_EQ(counters[0][1][2].load(), 0U);
  EXPECT_EQ(counters[1][1][2].load(), 5U);
  EXPECT_TRUE(ClearEccErrors(*nvml_, Uuid(), true));
  EXPECT_EQ(counters[1][1][2].load(), 0U);
}

}  // namespace
}  // namespace gpuman::device
