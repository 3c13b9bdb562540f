#include "daemon/health/monitors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/health/kernel_log.h"
#include "daemon/health/views.h"

namespace gpuman::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FakeClock final : public base::Clock {
 public:
  base::MonoTime Mono() const override { return base::MonoTime(std::chrono::seconds(seconds)); }
  base::WallTime Wall() const override {
    return base::WallTime(std::chrono::seconds(1'795'000'000 + seconds));
  }
  int seconds = 100;
};

// A simulated disk, and the notices that were told.
struct Recorder {
  HealthCallbacks Callbacks() {
    return {
        [this](const jobs::SettingRows& entries) { Keep(entries); },
        [this](const std::string& gpu, const health::HealthNotice& notice) {
          heard.push_back(fmt::format("{} {} {}", gpu, static_cast<int>(notice.change), notice.fault.code));
        }};
  }
  void Keep(const jobs::SettingRows& entries) {
    ++writes;
    for (const auto& [key, value] : entries) {
      if (value)
        disk[key] = value;
      else
        disk.erase(key);
    }
  }
  std::vector<std::string> Heard() { return std::exchange(heard, {}); }

  jobs::SettingRows disk;
  int writes = 0;
  std::vector<std::string> heard;
};

gpu::GpuSample Sampled(const std::string& uuid, gpu::HealthReading health = {}) {
  gpu::GpuSample sample;
  sample.uuid = uuid;
  sample.taken_at = base::MonoTime(std::chrono::seconds(1));
  sample.health = health;
  return sample;
}

gpu::Inventory Two() {
  gpu::Inventory inventory;
  inventory.gpus = {{0, "GPU-a", "NVIDIA H200", "00000000:3B:00.0", {}},
                    {1, "GPU-b", "NVIDIA H200", "00000000:5E:00.0", {}}};
  return inventory;
}

class HealthMonitorsTest : public ::testing::Test {
 protected:
  std::unique_ptr<HealthMonitors> Start(const std::string& boot = "first") {
    auto monitors = std::make_unique<HealthMonitors>(clock_, recorder_.Callbacks(), boot);
    monitors->Recall(recorder_.disk);
    return monitors;
  }
  FakeClock clock_;
  Recorder recorder_;
};

TEST_F(HealthMonitorsTest, TellsAFaultOnceAndKeepsIt) {
  const auto monitors = Start();
  monitors->OnInventory(Two());
  for (int i = 0; i < 5; ++i) monitors->OnSample(Sampled("GPU-a", {.remap_failed = true}));
  EXPECT_THAT(recorder_.Heard(), ElementsAre("GPU-a 0 row_remap_failed"));
  EXPECT_TRUE(monitors->IsUnhealthy("GPU-a"));
  EXPECT_FALSE(monitors->IsUnhealthy("GPU-b"));
  EXPECT_FALSE(monitors->IsUnhealthy("GPU-c"));
}

TEST_F(HealthMonitorsTest, WritesOnlyWhatChanged) {
  const auto monitors = Start();
  monitors->OnInventory(Two());
  monitors->OnSample(Sampled("GPU-a", {.remap_failed = true}));
  const int writes = recorder_.writes;
  for (; clock_.seconds < 200; ++clock_.seconds) monitors->OnSample(Sampled("GPU-a", {.remap_failed = true}));
  EXPECT_EQ(recorder_.writes, writes);
}

TEST_F(HealthMonitorsTest, FaultIsKnownToTheNextDaemonAndNotReportedAgain) {
  Start()->OnXid("GPU-a", 79);
  recorder_.Heard();
  const auto next = Start();
  EXPECT_TRUE(next->IsUnhealthy("GPU-a"));
  EXPECT_THAT(recorder_.Heard(), IsEmpty());
}

TEST_F(HealthMonitorsTest, FaultEndsWithReboot) {
  Start()->OnXid("GPU-a", 79);
  recorder_.Heard();
  EXPECT_FALSE(Start("second")->IsUnhealthy("GPU-a"));
  EXPECT_THAT(recorder_.Heard(), ElementsAre("GPU-a 1 xid_79"));
  Start("second");
  EXPECT_THAT(recorder_.Heard(), IsEmpty()) << "told once";
}

TEST_F(HealthMonitorsTest, UnreadableRecordsAreReplaced) {
  recorder_.disk["health/GPU-a"] = "not json";
  recorder_.disk["health_log"] = "[]";
  EXPECT_FALSE(Start()->IsUnhealthy("GPU-a"));
}

TEST_F(HealthMonitorsTest, AGpuThatIsNotThereAnyMoreIsMissing) {
  Start()->OnInventory(Two());
  const auto monitors = Start();
  auto one = Two();
  one.gpus.pop_back();
  monitors->OnInventory(one);
  EXPECT_THAT(recorder_.Heard(), ElementsAre("GPU-b 0 missing"));
  EXPECT_THAT(monitors->Missing(), ElementsAre("GPU-b"));
  const auto report = HealthReportOf(*monitors, {});
  ASSERT_EQ(report.gpus.size(), 1U);
  EXPECT_EQ(report.gpus[0].index, std::nullopt);
  EXPECT_EQ(report.gpus[0].health.state, "unhealthy");
  EXPECT_EQ(report.gpus[0].action, "reboot");
  EXPECT_TRUE(monitors->Acknowledge("GPU-b", "", "root"));
  EXPECT_THAT(monitors->Missing(), IsEmpty());
  EXPECT_THAT(Start()->Missing(), IsEmpty());
  EXPECT_FALSE(recorder_.disk.contains("health/GPU-b"));
}

TEST_F(HealthMonitorsTest, GpuIsNotReportedMissingWithoutDriver) {
  const auto monitors = Start();
  monitors->OnInventory(Two());
  monitors->OnXid("GPU-b", 79);
  recorder_.Heard();
  gpu::Inventory none;
  none.problem = "no NVIDIA driver is loaded";
  monitors->OnInventory(none);
  auto half = Two();
  half.gpus.pop_back();
  half.problem = "GPU 1 cannot be used";
  monitors->OnInventory(half);
  EXPECT_THAT(recorder_.Heard(), IsEmpty());
  const auto report = HealthReportOf(*monitors, {});
  ASSERT_EQ(report.gpus.size(), 1U);
  EXPECT_EQ(report.gpus[0].uuid, "GPU-b");
  EXPECT_EQ(report.gpus[0].health.state, "unknown");
  EXPECT_TRUE(monitors->Acknowledge("GPU-b", "", "root"));
  EXPECT_NE(monitors->Find("GPU-b"), nullptr) << "it may come back";
  monitors->OnInventory(Two());
  EXPECT_THAT(monitors->Missing(), IsEmpty());
}

TEST_F(HealthMonitorsTest, GpuThatReturnsIsNotMissing) {
  const auto monitors = Start();
  monitors->OnInventory(Two());
  auto one = Two();
  one.gpus.pop_back();
  monitors->OnInventory(one);
  monitors->OnInventory(Two());
  monitors->OnSample(Sampled("GPU-b"));
  EXPECT_THAT(monitors->Missing(), IsEmpty());
  EXPECT_FALSE(monitors->IsUnhealthy("GPU-b"));
}

std::vector<KernelXid> Log() {
  return {{{"0000:3b:00.0", 79, {}, ""}, std::chrono::seconds(10)},
          {{"0000:5e:00.0", 31, 77, ""}, std::chrono::seconds(20)},
          {{"0000:99:00.0", 79, {}, ""}, std::chrono::seconds(30)}};
}

TEST_F(HealthMonitorsTest, TheKernelsLogTellsOfTheTimeBeforeTheStartAndIsReadOnce) {
  const auto monitors = Start();
  monitors->OnInventory(Two());
  monitors->OnKernelLog(Log(), Two());
  EXPECT_THAT(recorder_.Heard(), ElementsAre("GPU-a 0 xid_79", "GPU-b 3 xid_31"));
  ASSERT_NE(monitors->Find("GPU-a"), nullptr);
  // The machine was started 100 seconds before the clock's time.
  EXPECT_EQ(monitors->Find("GPU-a")->faults().at(0).since,
            base::WallTime(std::chrono::seconds(1'795'000'010)));
  const auto next = Start();
  next->OnInventory(Two());
  next->OnKernelLog(Log(), Two());
  EXPECT_THAT(recorder_.Heard(), IsEmpty());
  EXPECT_EQ(next->Find("GPU-a")->faults().at(0).count, 1U);
}

TEST_F(HealthMonitorsTest, AnErrorThatTheDriverToldIsNotTakenFromTheLogAgain) {
  Start()->OnXid("GPU-a", 79);
  recorder_.Heard();
  const auto next = Start();
  next->OnKernelLog(Log(), Two());
  EXPECT_THAT(recorder_.Heard(), IsEmpty());
}

TEST_F(HealthMonitorsTest, TheLogOfAnotherBootIsNew) {
  Start()->OnKernelLog(Log(), Two());
  recorder_.Heard();
  Start("second")->OnKernelLog(Log(), Two());
  EXPECT_THAT(recorder_.Heard(), ElementsAre("GPU-a 1 xid_79", "GPU-a 0 xid_79", "GPU-b 3 xid_31"));
}

TEST_F(HealthMonitorsTest, OnlyAFaultThatIsThereCanBeAcknowledged) {
  const auto monitors = Start();
  monitors->OnXid("GPU-a", 74);
  EXPECT_EQ(monitors->Acknowledge("GPU-a", "xid_79", "root").error().code, base::ErrorCode::kNotFound);
  EXPECT_EQ(monitors->Acknowledge("GPU-b", "", "root").error().code, base::ErrorCode::kNotFound);
  EXPECT_TRUE(monitors->Acknowledge("GPU-a", "xid_74", "root"));
  EXPECT_EQ(monitors->Acknowledge("GPU-a", "", "root").error().code, base::ErrorCode::kNotFound);
}

TEST_F(HealthMonitorsTest, StateOfUnsampledGpuIsUnknown) {
  const auto monitors = Start();
  monitors->OnInventory(Two());
  EXPECT_EQ(HealthViewOf(monitors->Find("GPU-a"), {}).state, "unknown");
  EXPECT_EQ(HealthViewOf(nullptr, Sampled("GPU-a")).state, "unknown");
  EXPECT_EQ(HealthViewOf(monitors->Find("GPU-a"), Sampled("GPU-a")).state, "healthy");
}

}  // namespace
}  // namespace gpuman::daemon
