// Profiles set by hand and for jobs: they are set, and taken off whatever happens in between.
#include "daemon/device/test_devices.h"

namespace gpuman::daemon {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(DeviceSettingsManagerTest, AProfileEndsByItself) {
  Apply("efficiency", 3600);
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 420'000U);
  Later(3599);
  EXPECT_EQ(Gpu().power_limit_mw.load(), 420'000U);
  Later(1);
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  EXPECT_THAT(host_.TakeReports(), Contains(HasSubstr("the time of profile efficiency is over")));
  EXPECT_FALSE(IsStored());
}

TEST_F(DeviceSettingsManagerTest, AProfileEndsAlsoWhenTheDaemonWasNotThere) {
  Apply("benchmark", 3600);
  host_.Pump();
  EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 1485U);
  clock_.seconds += 3700;
  Start();
  host_.Pump();
  Later(1);
  EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 0U);
  EXPECT_FALSE(IsStored());
}

TEST_F(DeviceSettingsManagerTest, ADaemonThatDiedWhileItTookAProfileOffTakesItOffWhenItStarts) {
  Apply("efficiency");
  host_.Pump();
  Apply(nullptr);
  host_.Pump(2);
  ASSERT_EQ(Gpu().power_limit_mw.load(), 420'000U);
  Start();
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  EXPECT_FALSE(IsStored());
}

TEST_F(DeviceSettingsManagerTest, AFailedRestoreIsTriedAgainLater) {
  Apply("efficiency", 60);
  host_.Pump();
  Refuse("nvmlDeviceSetPowerManagementLimit_v2", kUnknown, 0);
  Later(61);
  EXPECT_EQ(Gpu().power_limit_mw.load(), 420'000U);
  EXPECT_THAT(host_.TakeReports(), Contains(HasSubstr("device_failed")));
  Later();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  EXPECT_FALSE(IsStored());
}

TEST_F(DeviceSettingsManagerTest, AJobHasItsProfileWhileItIsThere) {
  devices_->SetJobProfiles({{Uuid(), {7, "efficiency"}}});
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 420'000U);
  EXPECT_THAT(host_.TakeReports(),
              ElementsAre(HasSubstr("device_profile: GPU 0: profile efficiency for job 7")));
  devices_->SetJobProfiles({});
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  EXPECT_FALSE(IsStored());
}

TEST_F(DeviceSettingsManagerTest, AJobThatEndedWhileNoDaemonWasThereLeavesNothing) {
  devices_->SetJobProfiles({{Uuid(), {7, "benchmark"}}});
  host_.Pump();
  EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 1485U);
  Start();
  devices_->SetJobProfiles({});
  host_.Pump();
  EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 0U);
  EXPECT_FALSE(IsStored());
}

// The daemon knows GPUs before jobs. Until it knows the jobs, no profile is taken off.
TEST_F(DeviceSettingsManagerTest, AJobThatIsStillThereKeepsItsProfileOverARestart) {
  devices_->SetJobProfiles({{Uuid(), {7, "benchmark"}}});
  host_.Pump();
  host_.todo.clear();
  devices_ = std::make_unique<DeviceSettingsManager>(clock_, host_.Callbacks());
  devices_->Recall(host_.disk);
  devices_->OnInventory(inventory_);
  host_.Pump();
  EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 1485U);
  devices_->SetJobProfiles({{Uuid(), {7, "benchmark"}}});
  host_.Pump();
  EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 1485U);
  EXPECT_TRUE(IsStored());
}

// Profiles of jobs were decided while no GPU was known. The decision does not apply to a GPU that appears
// later.
TEST_F(DeviceSettingsManagerTest, AGpuThatComesLateKeepsItsJobsProfile) {
  devices_->SetJobProfiles({{Uuid(), {7, "benchmark"}}});
  host_.Pump();
  for (const bool restart : {true, false}) {
    if (restart) {
      devices_ = std::make_unique<DeviceSettingsManager>(clock_, host_.Callbacks());
      devices_->Recall(host_.disk);
    } else {
      devices_->OnInventory({});
    }
    devices_->SetJobProfiles({});
    devices_->OnInventory(inventory_);
    host_.Pump();
    Later();
    EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 1485U) << restart;
    devices_->SetJobProfiles({{Uuid(), {7, "benchmark"}}});
    host_.Pump();
    EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 1485U) << restart;
    EXPECT_TRUE(IsStored());
  }
}

TEST_F(DeviceSettingsManagerTest, AJobsProfileGoesBeforeAnother) {
  Apply("benchmark");
  host_.Pump();
  devices_->SetJobProfiles({{Uuid(), {7, "performance"}}});
  host_.Pump();
  EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 0U);
  devices_->SetJobProfiles({});
  host_.Pump();
  EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 1485U);
}

TEST_F(DeviceSettingsManagerTest, AProfileThatFailsIsToldToItsJobOnceAndLeavesNothing) {
  Refuse("nvmlDeviceSetGpuLockedClocks", kUnknown, 0);
  devices_->SetJobProfiles({{Uuid(), {7, "benchmark"}}});
  host_.Pump();
  Later();
  EXPECT_THAT(host_.TakeReports(),
              ElementsAre(HasSubstr("job 7 refused: profile benchmark: GPU 0: graphics clocks")));
  EXPECT_FALSE(IsStored());
  EXPECT_EQ(Gpu().locked_memory_max_mhz.load(), 0U);
}

TEST_F(DeviceSettingsManagerTest, AProfileThatIsNotThereAnyMoreIsToldToItsJobOnce) {
  devices_->SetJobProfiles({{Uuid(), {7, "night"}}});
  host_.Pump();
  Later();
  EXPECT_THAT(host_.TakeReports(), ElementsAre("job 7 refused: profile night is not there any more"));
}

TEST_F(DeviceSettingsManagerTest, AProfileOfTheConfigurationGoesBeforeABuiltInOneOfItsName) {
  settings_.profiles = {{"benchmark", "ours", {}, false}};
  devices_->SetSettings(settings_);
  EXPECT_EQ(devices_->FindProfile("benchmark")->summary, "ours");
  EXPECT_EQ(devices_->Profiles().size(), 3U);
  const auto unknown = devices_->CheckProfile("bench");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("there are benchmark, efficiency, performance"));
}

}  // namespace
}  // namespace gpuman::daemon
