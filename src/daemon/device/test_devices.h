// For tests: devices on the simulated driver, with a simulated disk, a list of the events that were told, and
// a clock that the test sets.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <deque>

#include "daemon/device/device_settings_manager.h"
#include "daemon/device/tasks.h"
#include "driver/nvml.h"
#include "sim/state/lifecycle.h"
#include "sim/state/test_state.h"

namespace gpuman::daemon {

class FakeClock final : public base::Clock {
 public:
  base::MonoTime Mono() const override { return base::MonoTime(std::chrono::seconds(seconds)); }
  base::WallTime Wall() const override {
    return base::WallTime(std::chrono::seconds(1'795'000'000 + seconds));
  }
  int seconds = 100;
};

// A simulated machine: a disk, the driver, and the events that were told. The devices' orders wait until
// Pump.
class Host {
 public:
  DeviceCallbacks Callbacks() {
    return {[this](const jobs::SettingRows& entries, const std::function<void(base::Result<>)>& done) {
              Keep(entries, done);
            },
            [this](driver::NvmlExecutor::Work work, std::function<void()> then) {
              Drive(std::move(work), std::move(then));
            },
            [this](const char* kind, const std::string&, const std::string& message) {
              told.push_back(fmt::format("{}: {}", kind, message));
            },
            [this](std::int64_t job, const std::string&, const std::string& why) {
              told.push_back(fmt::format("job {} refused: {}", job, why));
            },
            [](const std::string&) { return "pid 71 (python, job 3)"; }};
  }
  void Keep(const jobs::SettingRows& entries, const std::function<void(base::Result<>)>& done) {
    const bool full = std::exchange(disk_is_full, false);
    log.emplace_back(full ? "refused to keep" : "kept");
    for (const auto& [key, value] : full ? jobs::SettingRows{} : entries) {
      if (value)
        disk[key] = value;
      else
        disk.erase(key);
    }
    todo.emplace_back([done, full] {
      done(full ? base::Result<>(base::Fail(base::ErrorCode::kExhausted, "the disk is full"))
                : base::Result<>());
    });
  }
  void Drive(driver::NvmlExecutor::Work work, std::function<void()> then) {
    auto act = [this, work = std::move(work), then = std::move(then)] {
      log.emplace_back("driver");
      const auto nvml = driver::Nvml::Load(GPUMAN_SIM_LIBRARIES "/libnvidia-ml.so.1");
      work(nvml ? driver::LoadedNvml(nvml->get()) : base::Fail(nvml.error()));
      then();
    };
    (hangs ? hung : todo).emplace_back(std::move(act));
  }
  void Pump(int steps = 1'000'000) {
    for (; steps > 0 && !todo.empty(); --steps) {
      const auto act = std::move(todo.front());
      todo.pop_front();
      act();
    }
  }
  std::vector<std::string> TakeReports() { return std::exchange(told, {}); }

  jobs::SettingRows disk;
  bool disk_is_full = false;
  bool hangs = false;
  std::deque<std::function<void()>> todo, hung;
  std::vector<std::string> told, log;
};

class DeviceSettingsManagerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "the driver lets only root change settings";
    machine_ = std::make_unique<sim::TestState>(sim::CreateOptions{.profile = "h200", .gpus = 2});
    setenv(sim::kDirectoryVariable, machine_->directory().c_str(), 1);
    for (unsigned i = 0; i < 2; ++i)
      inventory_.gpus.push_back({i, machine_->shared().gpu_static[i].uuid, "NVIDIA H200", "", {}});
    Start();
  }
  // Starts a daemon. Of an earlier daemon, only the disk is left.
  void Start() {
    host_.todo.clear();
    devices_ = std::make_unique<DeviceSettingsManager>(clock_, host_.Callbacks());
    devices_->SetSettings(settings_);
    devices_->Recall(host_.disk);
    devices_->OnInventory(inventory_);
  }
  sim::GpuDynamic& Gpu(unsigned index = 0) { return machine_->shared().gpu[index]; }
  std::string Uuid(unsigned index = 0) { return inventory_.gpus[index].uuid; }
  bool IsStored(unsigned index = 0) { return host_.disk.contains("device/" + Uuid(index)); }

  using Answer = std::optional<base::Result<DeviceTaskResult>>;
  std::shared_ptr<Answer> Ask(DeviceTask task) {
    auto answer = std::make_shared<Answer>();
    devices_->Run(std::move(task),
                  [answer](base::Result<DeviceTaskResult> done) { *answer = std::move(done); });
    return answer;
  }
  std::vector<gpu::Gpu> Some(const std::vector<unsigned>& indices) {
    std::vector<gpu::Gpu> gpus;
    gpus.reserve(indices.size());
    for (const auto index : indices) gpus.push_back(inventory_.gpus[index]);
    return gpus;
  }
  std::shared_ptr<Answer> Set(const std::string& setting, const std::string& value,
                              const std::vector<unsigned>& gpus = {0}, bool dry_run = false) {
    api::DeviceSettingsRequest change;
    change.set[setting] = value;
    change.dry_run = dry_run;
    auto task = TaskOf(change, Some(gpus), clock_.Wall());
    EXPECT_TRUE(task);
    return Ask(std::move(*task));
  }
  std::shared_ptr<Answer> Apply(const char* profile, std::optional<int> seconds = {},
                                const std::vector<unsigned>& gpus = {0}) {
    const auto until = seconds ? std::optional(clock_.Wall() + std::chrono::seconds(*seconds)) : std::nullopt;
    return Ask(TaskOf(profile ? devices_->FindProfile(profile) : nullptr, until, Some(gpus), false));
  }
  void Refuse(const char* function, std::uint32_t status, unsigned gpu) {
    auto& refusal = machine_->shared().faults.refusals[0];
    std::snprintf(refusal.function, sizeof refusal.function, "%s", function);
    refusal.gpu.store(gpu);
    refusal.status.store(status);
    refusal.nth.store(1);
    refusal.active.store(1);
  }
  // Lets enough time pass for a check.
  void Later(int seconds = 40) {
    clock_.seconds += seconds;
    devices_->OnTime();
    host_.Pump();
  }

  FakeClock clock_;
  Host host_;
  DeviceManagementSettings settings_;
  std::unique_ptr<sim::TestState> machine_;
  gpu::Inventory inventory_;
  std::unique_ptr<DeviceSettingsManager> devices_;
};

// nvmlReturn_t
inline constexpr std::uint32_t kUnknown = 999, kInUse = 19, kLost = 15;

}  // namespace gpuman::daemon
