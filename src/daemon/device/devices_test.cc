// The devices of a machine on the simulated driver: what is kept, in which order, and what becomes of it when
// the daemon, the driver or a GPU goes away in between.
#include "daemon/device/devices.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <deque>

#include "daemon/device/tasks.h"
#include "driver/nvml.h"
#include "sim/state/lifecycle.h"
#include "sim/state/test_state.h"

namespace gpuman::daemon {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FakeClock final : public base::Clock {
 public:
  base::MonoTime Mono() const override { return base::MonoTime(std::chrono::seconds(seconds)); }
  base::WallTime Wall() const override {
    return base::WallTime(std::chrono::seconds(1'795'000'000 + seconds));
  }
  int seconds = 100;
};

// A machine: a disk, a driver, ears. What the devices want done waits until Pump.
class Host final : public DeviceHost {
 public:
  void KeepDevices(jobs::Settings entries, std::function<void(base::Result<>)> done) override {
    const bool full = std::exchange(disk_is_full, false);
    log.push_back(full ? "refused to keep" : "kept");
    for (auto& [key, value] : full ? jobs::Settings{} : entries) {
      if (value)
        disk[key] = value;
      else
        disk.erase(key);
    }
    todo.push_back([done, full] {
      done(full ? base::Result<>(base::Fail(base::ErrorCode::kExhausted, "the disk is full"))
                : base::Result<>());
    });
  }
  void Drive(device::Worker::Work work, std::function<void()> then) override {
    auto act = [this, work = std::move(work), then = std::move(then)] {
      log.emplace_back("driver");
      const auto nvml = driver::Nvml::Load(GPUMAN_SIM_LIBRARIES "/libnvidia-ml.so.1");
      base::Error error;
      if (!nvml) error = nvml.error();
      work(nvml ? nvml->get() : nullptr, &error);
      then();
    };
    (hangs ? hung : todo).push_back(std::move(act));
  }
  void TellDevice(const char* kind, const std::string&, const std::string& message) override {
    told.push_back(fmt::format("{}: {}", kind, message));
  }
  void TellProfileRefused(std::int64_t job, const std::string&, const std::string& why) override {
    told.push_back(fmt::format("job {} refused: {}", job, why));
  }
  std::string UsersOf(const std::string&) override { return "pid 71 (python, job 3)"; }

  void Pump(int steps = 1'000'000) {
    for (; steps > 0 && !todo.empty(); --steps) {
      const auto act = std::move(todo.front());
      todo.pop_front();
      act();
    }
  }
  std::vector<std::string> Told() { return std::exchange(told, {}); }

  jobs::Settings disk;
  bool disk_is_full = false;
  bool hangs = false;
  std::deque<std::function<void()>> todo, hung;
  std::vector<std::string> told, log;
};

class DevicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "the driver lets only root change settings";
    machine_ = std::make_unique<sim::TestState>(sim::CreateOptions{.profile = "h200", .gpus = 2});
    setenv(sim::kDirectoryVariable, machine_->directory().c_str(), 1);
    for (unsigned i = 0; i < 2; ++i)
      inventory_.gpus.push_back({i, machine_->shared().gpu_static[i].uuid, "NVIDIA H200", "", {}});
    Start();
  }
  // A daemon that was killed has left its disk, and nothing else.
  void Start() {
    host_.todo.clear();
    devices_ = std::make_unique<Devices>(clock_, host_);
    devices_->SetSettings(settings_);
    devices_->Recall(host_.disk);
    devices_->OnInventory(inventory_);
  }
  sim::GpuDynamic& Gpu(unsigned index = 0) { return machine_->shared().gpu[index]; }
  std::string Uuid(unsigned index = 0) { return inventory_.gpus[index].uuid; }
  bool IsStored(unsigned index = 0) { return host_.disk.contains("device/" + Uuid(index)); }

  using Answer = std::optional<base::Result<DeviceReport>>;
  std::shared_ptr<Answer> Ask(DeviceTask task) {
    auto answer = std::make_shared<Answer>();
    devices_->Run(std::move(task), [answer](base::Result<DeviceReport> done) { *answer = std::move(done); });
    return answer;
  }
  std::vector<gpu::Gpu> Some(std::vector<unsigned> indices) {
    std::vector<gpu::Gpu> gpus;
    for (const auto index : indices) gpus.push_back(inventory_.gpus[index]);
    return gpus;
  }
  std::shared_ptr<Answer> Set(const std::string& setting, const std::string& value,
                              std::vector<unsigned> gpus = {0}, bool dry_run = false) {
    api::DeviceChange change;
    change.set[setting] = value;
    change.dry_run = dry_run;
    auto task = TaskOf(change, Some(std::move(gpus)), clock_.Wall());
    EXPECT_TRUE(task);
    return Ask(std::move(*task));
  }
  std::shared_ptr<Answer> Apply(const char* profile, std::optional<int> seconds = {},
                                std::vector<unsigned> gpus = {0}) {
    const auto until = seconds ? std::optional(clock_.Wall() + std::chrono::seconds(*seconds)) : std::nullopt;
    return Ask(
        TaskOf(profile ? devices_->FindProfile(profile) : nullptr, until, Some(std::move(gpus)), false));
  }
  void Refuse(const char* function, std::uint32_t status, unsigned gpu) {
    auto& refusal = machine_->shared().faults.refusals[0];
    std::snprintf(refusal.function, sizeof refusal.function, "%s", function);
    refusal.gpu.store(gpu);
    refusal.status.store(status);
    refusal.nth.store(1);
    refusal.active.store(1);
  }
  // A check's worth of time.
  void Later(int seconds = 40) {
    clock_.seconds += seconds;
    devices_->OnTime();
    host_.Pump();
  }

  FakeClock clock_;
  Host host_;
  DeviceSettings settings_;
  std::unique_ptr<sim::TestState> machine_;
  gpu::Inventory inventory_;
  std::unique_ptr<Devices> devices_;
};

constexpr std::uint32_t kUnknown = 999, kInUse = 19, kLost = 15;

TEST_F(DevicesTest, AChangeIsKeptBeforeItIsMadeAndAnsweredAfterwards) {
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

TEST_F(DevicesTest, ADryRunChangesAndKeepsNothing) {
  const auto answer = Set("power", "250W", {0, 1}, true);
  host_.Pump();
  ASSERT_TRUE(*answer && **answer);
  EXPECT_TRUE((**answer)->dry_run);
  EXPECT_EQ((**answer)->steps.size(), 2U);
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  EXPECT_THAT(host_.log, Not(Contains("kept")));
}

TEST_F(DevicesTest, WhatCannotBeKeptIsNotMade) {
  host_.disk_is_full = true;
  const auto answer = Set("power", "250W");
  host_.Pump();
  ASSERT_TRUE(*answer && !**answer);
  EXPECT_THAT((*answer)->error().message, HasSubstr("nothing was changed"));
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
}

TEST_F(DevicesTest, OutOfRangeIsRefusedWithTheRangeAndTheGpu) {
  const auto answer = Set("power", "900W", {1});
  host_.Pump();
  ASSERT_TRUE(*answer && !**answer);
  EXPECT_EQ((*answer)->error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_EQ((*answer)->error().message, "GPU 1: 900W is out of range: this GPU takes 200W to 700W");
}

TEST_F(DevicesTest, AFailureOnOneGpuUndoesItOnTheOthersAndOnTheDisk) {
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

TEST_F(DevicesTest, AGpuThatIsLostInTheMiddleIsNamed) {
  Refuse("nvmlDeviceSetPowerManagementLimit_v2", kLost, 1);
  api::DeviceChange change;
  change.set = {{"power", "250W"}, {"compute_mode", "prohibited"}};
  const auto answer = Ask(*TaskOf(change, Some({0, 1}), clock_.Wall()));
  host_.Pump();
  ASSERT_TRUE(*answer && !**answer);
  EXPECT_THAT((*answer)->error().message, HasSubstr("GPU 1: could not be put back: compute mode"));
  EXPECT_EQ(Gpu(0).compute_mode.load(), 0U);
  EXPECT_FALSE(IsStored(1));
}

TEST_F(DevicesTest, OneThatIsInUseSaysByWhom) {
  Refuse("nvmlDeviceSetComputeMode", kInUse, 0);
  const auto answer = Set("compute_mode", "prohibited");
  host_.Pump();
  ASSERT_TRUE(*answer && !**answer);
  EXPECT_EQ((*answer)->error().hint, "in use by pid 71 (python, job 3)");
}

TEST_F(DevicesTest, ADaemonThatStartsSetsWhatIsWantedAgain) {
  Set("power", "250W");
  Set("graphics_clocks", "1200,1500");
  host_.Pump();
  sim::ResetGpu(machine_->shared(), 0);
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  Start();
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 250'000U);
  EXPECT_EQ(Gpu().locked_graphics_min_mhz.load(), 1200U);
  EXPECT_THAT(host_.Told(), Contains(HasSubstr("device_reapplied: GPU 0: set again")));
}

TEST_F(DevicesTest, ADaemonThatDiedBeforeItMadeAChangeMakesItWhenItStarts) {
  Set("power", "250W");
  host_.Pump(2);
  ASSERT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  Start();
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 250'000U);
}

TEST_F(DevicesTest, AGpuThatComesBackIsSetAgain) {
  Set("power", "250W");
  host_.Pump();
  sim::ResetGpu(machine_->shared(), 0);
  devices_->OnBack(Uuid());
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 250'000U);
}

TEST_F(DevicesTest, ADriverThatIsLoadedAnewIsToldAgain) {
  Set("power", "250W");
  host_.Pump();
  sim::ResetGpu(machine_->shared(), 0);
  devices_->OnInventory({});
  devices_->OnInventory(inventory_);
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 250'000U);
}

TEST_F(DevicesTest, AResetThatNobodySawIsKnownByTheEnergyCounter) {
  Set("power", "250W");
  host_.Pump();
  Later();
  sim::ResetGpu(machine_->shared(), 0);
  host_.Told();
  Later();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 250'000U);
  EXPECT_THAT(host_.Told(), ElementsAre(HasSubstr("the GPU was reset, or its driver loaded anew")));
}

TEST_F(DevicesTest, WhatSomebodyElseChangedIsToldOnceAndLeftAlone) {
  Set("power", "250W");
  host_.Pump();
  Gpu().power_limit_mw.store(300'000);
  host_.Told();
  for (int i = 0; i < 3; ++i) Later();
  EXPECT_THAT(host_.Told(), ElementsAre("device_drift: GPU 0 is not set as it is wanted: power limit 300W, "
                                        "wanted 250W"));
  EXPECT_EQ(Gpu().power_limit_mw.load(), 300'000U);
  EXPECT_EQ(devices_->DriftOf(Uuid()).size(), 1U);
  Gpu().power_limit_mw.store(250'000);
  Later();
  EXPECT_THAT(host_.Told(), ElementsAre(HasSubstr("device_drift_over")));
  EXPECT_THAT(devices_->DriftOf(Uuid()), IsEmpty());
}

TEST_F(DevicesTest, OrItIsMendedWhereThatIsConfigured) {
  settings_.mend_drift = true;
  devices_->SetSettings(settings_);
  Set("power", "250W");
  host_.Pump();
  Gpu().power_limit_mw.store(300'000);
  Later();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 250'000U);
  EXPECT_THAT(host_.Told(), Contains(HasSubstr("somebody had changed it")));
}

TEST_F(DevicesTest, NobodyLooksAtAGpuOfWhichNothingIsWanted) {
  Later();
  EXPECT_THAT(host_.log, IsEmpty());
}

TEST_F(DevicesTest, AProfileEndsByItself) {
  Apply("efficiency", 3600);
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 420'000U);
  Later(3599);
  EXPECT_EQ(Gpu().power_limit_mw.load(), 420'000U);
  Later(1);
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  EXPECT_THAT(host_.Told(), Contains(HasSubstr("the time of profile efficiency is over")));
  EXPECT_FALSE(IsStored());
}

TEST_F(DevicesTest, AProfileEndsAlsoWhenTheDaemonWasNotThere) {
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

TEST_F(DevicesTest, ADaemonThatDiedWhileItTookAProfileOffTakesItOffWhenItStarts) {
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

TEST_F(DevicesTest, WhatCannotBePutBackNowIsPutBackLater) {
  Apply("efficiency", 60);
  host_.Pump();
  Refuse("nvmlDeviceSetPowerManagementLimit_v2", kUnknown, 0);
  Later(61);
  EXPECT_EQ(Gpu().power_limit_mw.load(), 420'000U);
  EXPECT_THAT(host_.Told(), Contains(HasSubstr("device_failed")));
  Later();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  EXPECT_FALSE(IsStored());
}

TEST_F(DevicesTest, ACallThatHangsHoldsUpItsOwnGpuAlone) {
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

TEST_F(DevicesTest, AChangeThatWasGivenUpWhileItWasMadeIsUndone) {
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

TEST_F(DevicesTest, ALookAtAGpuThatDoesNotAnswerSaysSo) {
  std::vector<DeviceState> states;
  host_.hangs = true;
  devices_->Look(Some({0, 1}), [&](std::vector<DeviceState> looked) { states = std::move(looked); });
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

TEST_F(DevicesTest, ChangesOfOneGpuAreMadeOneAfterTheOther) {
  const auto first = Set("power", "250W", {0, 1});
  const auto second = Set("power", "300W", {1});
  const auto third = Set("power", "350W", {0});
  host_.Pump();
  for (const auto& answer : {first, second, third}) ASSERT_TRUE(*answer && **answer);
  EXPECT_EQ(Gpu(0).power_limit_mw.load(), 350'000U);
  EXPECT_EQ(Gpu(1).power_limit_mw.load(), 300'000U);
  EXPECT_EQ((**second)->steps.at(0).step.from, device::Milliwatts(250'000));
}

TEST_F(DevicesTest, AJobHasItsProfileWhileItIsThere) {
  devices_->SetJobProfiles({{Uuid(), {7, "efficiency"}}});
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 420'000U);
  EXPECT_THAT(host_.Told(), ElementsAre(HasSubstr("device_profile: GPU 0: profile efficiency for job 7")));
  devices_->SetJobProfiles({});
  host_.Pump();
  EXPECT_EQ(Gpu().power_limit_mw.load(), 700'000U);
  EXPECT_FALSE(IsStored());
}

TEST_F(DevicesTest, AJobThatEndedWhileNoDaemonWasThereLeavesNothing) {
  devices_->SetJobProfiles({{Uuid(), {7, "benchmark"}}});
  host_.Pump();
  EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 1485U);
  Start();
  host_.Pump();
  EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 0U);
  EXPECT_FALSE(IsStored());
}

TEST_F(DevicesTest, AJobThatIsStillThereKeepsItsProfileOverARestart) {
  devices_->SetJobProfiles({{Uuid(), {7, "benchmark"}}});
  host_.Pump();
  host_.todo.clear();
  devices_ = std::make_unique<Devices>(clock_, host_);
  devices_->Recall(host_.disk);
  devices_->SetJobProfiles({{Uuid(), {7, "benchmark"}}});
  devices_->OnInventory(inventory_);
  host_.Pump();
  EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 1485U);
  EXPECT_TRUE(IsStored());
}

TEST_F(DevicesTest, AJobsProfileGoesBeforeAnother) {
  Apply("benchmark");
  host_.Pump();
  devices_->SetJobProfiles({{Uuid(), {7, "performance"}}});
  host_.Pump();
  EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 0U);
  devices_->SetJobProfiles({});
  host_.Pump();
  EXPECT_EQ(Gpu().locked_graphics_max_mhz.load(), 1485U);
}

TEST_F(DevicesTest, AProfileThatFailsIsToldToItsJobOnceAndLeavesNothing) {
  Refuse("nvmlDeviceSetGpuLockedClocks", kUnknown, 0);
  devices_->SetJobProfiles({{Uuid(), {7, "benchmark"}}});
  host_.Pump();
  Later();
  EXPECT_THAT(host_.Told(),
              ElementsAre(HasSubstr("job 7 refused: profile benchmark: GPU 0: graphics clocks")));
  EXPECT_FALSE(IsStored());
  EXPECT_EQ(Gpu().locked_memory_max_mhz.load(), 0U);
}

TEST_F(DevicesTest, AProfileThatIsNotThereAnyMoreIsToldToItsJobOnce) {
  devices_->SetJobProfiles({{Uuid(), {7, "night"}}});
  host_.Pump();
  Later();
  EXPECT_THAT(host_.Told(), ElementsAre("job 7 refused: profile night is not there any more"));
}

TEST_F(DevicesTest, EccSaysWhenItTookEffect) {
  const auto answer = Set("ecc", "off");
  host_.Pump();
  ASSERT_TRUE(*answer && **answer);
  EXPECT_THAT((**answer)->notes, ElementsAre(HasSubstr("from the next reset")));
  Later();
  host_.Told();
  sim::ResetGpu(machine_->shared(), 0);
  Later();
  EXPECT_THAT(host_.Told(), Contains("device_ecc: GPU 0: ECC is off since the last reset"));
}

TEST_F(DevicesTest, WhatCannotBeReadFromTheStoreIsNotWanted) {
  host_.disk["device/" + Uuid()] = "not json";
  Start();
  host_.Pump();
  EXPECT_THAT(host_.log, IsEmpty());
}

TEST_F(DevicesTest, AProfileOfTheConfigurationGoesBeforeABuiltInOneOfItsName) {
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
