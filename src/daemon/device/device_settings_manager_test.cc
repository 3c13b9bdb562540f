// The devices of a machine: which records are kept, in which order, and what happens to them when the daemon,
// the driver or a GPU goes away in between.
#include "daemon/device/test_devices.h"

namespace gpuman::daemon {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(DeviceSettingsManagerTest, AChangeIsKeptBeforeItIsMadeAndAnsweredAfterwards) {
  const auto answer = Set("power", "250W");
  host_.Pump(1);
  host_.Pump(1);
  EXPECT_THAT(host_.log, ElementsAre("driver", "kept"));
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  EXPECT_FALSE(*answer);
  host_.Pump();
  ASSERT_TRUE(*answer && **answer);
  EXPECT_EQ(Gpu().power_limit_mw.load(), 250'000U);
  ASSERT_EQ((**answer)->steps.size(), 1U);
  EXPECT_TRUE(IsStored());
}

TEST_F(DeviceSettingsManagerTest, ADryRunChangesAndKeepsNothing) {
  const auto answer = Set("power", "250W", {0, 1}, true);
  host_.Pump();
  ASSERT_TRUE(*answer && **answer);
  EXPECT_TRUE((**answer)->dry_run);
  EXPECT_EQ((**answer)->steps.size(), 2U);
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  EXPECT_THAT(host_.log, Not(Contains("kept")));
}

TEST_F(DeviceSettingsManagerTest, AChangeThatCannotBeStoredIsNotMade) {
  host_.disk_is_full = true;
  const auto answer = Set("power", "250W");
  host_.Pump();
  ASSERT_TRUE(*answer && !**answer);
  EXPECT_THAT((*answer)->error().message, HasSubstr("nothing was changed"));
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
}

TEST_F(DeviceSettingsManagerTest, ValueOutOfRangeIsRefusedWithRangeAndGpu) {
  const auto answer = Set("power", "900W", {1});
  host_.Pump();
  ASSERT_TRUE(*answer && !**answer);
  EXPECT_EQ((*answer)->error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_EQ((*answer)->error().message, "GPU 1: 900W is out of range: this GPU takes 200W to 700W");
}

TEST_F(DeviceSettingsManagerTest, AFailureOnOneGpuUndoesItOnTheOthersAndOnTheDisk) {
  Refuse("nvmlDeviceSetPowerManagementLimit_v2", kUnknown, 1);
  const auto answer = Set("power", "250W", {0, 1});
  host_.Pump();
  ASSERT_TRUE(*answer && !**answer);
  EXPECT_THAT((*answer)->error().message,
              HasSubstr("GPU 1: power limit: nvmlDeviceSetPowerManagementLimit_v2"));
  EXPECT_THAT((*answer)->error().message, HasSubstr("GPU 0: put back: power limit to 700W"));
  EXPECT_EQ(Gpu(0).power_limit_mw.load(), 700'000U);
  EXPECT_FALSE(IsStored(0));
  EXPECT_FALSE(IsStored(1));
}

TEST_F(DeviceSettingsManagerTest, AGpuThatIsLostInTheMiddleIsNamed) {
  Refuse("nvmlDeviceSetPowerManagementLimit_v2", kLost, 1);
  api::DeviceSettingsRequest change;
  change.set = {{"power", "250W"}, {"compute_mode", "prohibited"}};
  const auto answer = Ask(*TaskOf(change, Some({0, 1}), clock_.Wall()));
  host_.Pump();
  ASSERT_TRUE(*answer && !**answer);
  EXPECT_THAT((*answer)->error().message, HasSubstr("GPU 1: could not be put back: compute mode"));
  EXPECT_EQ(Gpu(0).compute_mode.load(), 0U);
  EXPECT_FALSE(IsStored(1));
}

TEST_F(DeviceSettingsManagerTest, GpuInUseErrorNamesProcessAndJob) {
  Refuse("nvmlDeviceSetComputeMode", kInUse, 0);
  const auto answer = Set("compute_mode", "prohibited");
  host_.Pump();
  ASSERT_TRUE(*answer && !**answer);
  EXPECT_EQ((*answer)->error().hint, "in use by pid 71 (python, job 3)");
}

TEST_F(DeviceSettingsManagerTest, ADaemonThatStartsSetsWhatIsWantedAgain) {
  Set("power", "250W");
  Set("graphics_clocks", "1200,1500");
  host_.Pump();
  sim::ResetGpu(machine_->shared(), 0);
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  Start();
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 250'000U);
  EXPECT_EQ(Gpu().locked_graphics_min_mhz.load(), 1200U);
  EXPECT_THAT(host_.TakeReports(), Contains(HasSubstr("device_reapplied: GPU 0: set again")));
}

TEST_F(DeviceSettingsManagerTest, ADaemonThatDiedBeforeItMadeAChangeMakesItWhenItStarts) {
  Set("power", "250W");
  host_.Pump(2);
  ASSERT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  Start();
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 250'000U);
}

TEST_F(DeviceSettingsManagerTest, AGpuThatComesBackIsSetAgain) {
  Set("power", "250W");
  host_.Pump();
  sim::ResetGpu(machine_->shared(), 0);
  devices_->OnBack(Uuid());
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 250'000U);
}

TEST_F(DeviceSettingsManagerTest, ADriverThatIsLoadedAnewIsToldAgain) {
  Set("power", "250W");
  host_.Pump();
  sim::ResetGpu(machine_->shared(), 0);
  devices_->OnInventory({});
  devices_->OnInventory(inventory_);
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 250'000U);
}

TEST_F(DeviceSettingsManagerTest, AResetThatNobodySawIsKnownByTheEnergyCounter) {
  Set("power", "250W");
  host_.Pump();
  Later();
  sim::ResetGpu(machine_->shared(), 0);
  host_.TakeReports();
  Later();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 250'000U);
  EXPECT_THAT(host_.TakeReports(), ElementsAre(HasSubstr("the GPU was reset, or its driver loaded anew")));
}

TEST_F(DeviceSettingsManagerTest, ForeignChangeIsReportedOnceAndKept) {
  Set("power", "250W");
  host_.Pump();
  Gpu().power_limit_mw.store(300'000);
  host_.TakeReports();
  for (int i = 0; i < 3; ++i) Later();
  EXPECT_THAT(host_.TakeReports(),
              ElementsAre("device_drift: GPU 0 is not set as it is wanted: power limit 300W, "
                          "wanted 250W"));
  EXPECT_EQ(Gpu().power_limit_mw.load(), 300'000U);
  EXPECT_EQ(devices_->DriftOf(Uuid()).size(), 1U);
  Gpu().power_limit_mw.store(250'000);
  Later();
  EXPECT_THAT(host_.TakeReports(), ElementsAre(HasSubstr("device_drift_over")));
  EXPECT_THAT(devices_->DriftOf(Uuid()), IsEmpty());
}

TEST_F(DeviceSettingsManagerTest, ForeignChangeIsUndoneWhereConfigured) {
  settings_.mend_drift = true;
  devices_->SetSettings(settings_);
  Set("power", "250W");
  host_.Pump();
  Gpu().power_limit_mw.store(300'000);
  Later();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 250'000U);
  EXPECT_THAT(host_.TakeReports(), Contains(HasSubstr("somebody had changed it")));
}

TEST_F(DeviceSettingsManagerTest, NobodyLooksAtAGpuOfWhichNothingIsWanted) {
  Later();
  EXPECT_THAT(host_.log, IsEmpty());
}

TEST_F(DeviceSettingsManagerTest, ACallThatHangsHoldsUpItsOwnGpuAlone) {
  host_.hangs = true;
  const auto stuck = Set("power", "250W", {0});
  host_.hangs = false;
  EXPECT_FALSE(*stuck);
  clock_.seconds += 11;
  devices_->OnTime();
  ASSERT_TRUE(*stuck && !**stuck);
  EXPECT_EQ((*stuck)->error().code, base::ErrorCode::kTimeout);
  EXPECT_THAT((*stuck)->error().message, HasSubstr("GPU 0: the driver has not answered within 10s"));
  const auto again = Set("power", "300W", {0});
  const auto other = Set("power", "300W", {1});
  host_.Pump();
  ASSERT_TRUE(*again && !**again);
  EXPECT_THAT((*again)->error().message, HasSubstr("has not come back"));
  ASSERT_TRUE(*other && **other);
  EXPECT_EQ(Gpu(1).power_limit_mw.load(), 300'000U);
  host_.todo.swap(host_.hung);
  host_.Pump();
  EXPECT_EQ(Gpu(0).power_limit_mw.load(), 700'000U);
  const auto at_last = Set("power", "350W", {0});
  host_.Pump();
  ASSERT_TRUE(*at_last && **at_last);
  EXPECT_EQ(Gpu(0).power_limit_mw.load(), 350'000U);
}

TEST_F(DeviceSettingsManagerTest, AChangeThatWasGivenUpWhileItWasMadeIsUndone) {
  const auto stuck = Set("power", "250W");
  host_.Pump(1);  // read
  host_.hangs = true;
  host_.Pump();
  host_.hangs = false;
  clock_.seconds += 11;
  devices_->OnTime();
  ASSERT_TRUE(*stuck && !**stuck);
  EXPECT_FALSE(IsStored()) << "nobody was told that it is so";
  host_.Pump();
  host_.todo.swap(host_.hung);
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
}

TEST_F(DeviceSettingsManagerTest, AReportOfAGpuThatDoesNotAnswerSaysSo) {
  std::vector<DeviceSettingsState> states;
  host_.hangs = true;
  devices_->Query(Some({0, 1}), [&](std::vector<DeviceSettingsState> looked) { states = std::move(looked); });
  host_.todo.push_back(host_.hung.back());
  host_.Pump();
  EXPECT_THAT(states, IsEmpty());
  clock_.seconds += 11;
  devices_->OnTime();
  ASSERT_EQ(states.size(), 2U);
  EXPECT_FALSE(states[0].reading);
  EXPECT_TRUE(states[1].reading);
  EXPECT_TRUE(ViewOf(states[0]).problem);
}

TEST_F(DeviceSettingsManagerTest, ChangesOfOneGpuAreMadeOneAfterTheOther) {
  const auto first = Set("power", "250W", {0, 1});
  const auto second = Set("power", "300W", {1});
  const auto third = Set("power", "350W", {0});
  host_.Pump();
  for (const auto& answer : {first, second, third}) ASSERT_TRUE(*answer && **answer);
  EXPECT_EQ(Gpu(0).power_limit_mw.load(), 350'000U);
  EXPECT_EQ(Gpu(1).power_limit_mw.load(), 300'000U);
  EXPECT_EQ((**second)->steps.at(0).step.from, device::Milliwatts(250'000));
}

TEST_F(DeviceSettingsManagerTest, EccChangeIsReportedAfterTheReset) {
  const auto answer = Set("ecc", "off");
  host_.Pump();
  ASSERT_TRUE(*answer && **answer);
  EXPECT_THAT((**answer)->notes, ElementsAre(HasSubstr("from the next reset")));
  Later();
  host_.TakeReports();
  sim::ResetGpu(machine_->shared(), 0);
  Later();
  EXPECT_THAT(host_.TakeReports(), Contains("device_ecc: GPU 0: ECC is off since the last reset"));
}

TEST_F(DeviceSettingsManagerTest, AnUnreadableRecordAsksForNothing) {
  host_.disk["device/" + Uuid()] = "not json";
  Start();
  host_.Pump();
  EXPECT_THAT(host_.log, IsEmpty());
}

}  // namespace
}  // namespace gpuman::daemon
