// Tests the sampler on the simulated driver: what it reports, and what it does when the driver misbehaves.
// The tests wait for reports; the deadlines only end a test that has failed.
#include "gpu/sampler.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

#include "driver/nvml.h"
#include "gpu/health_reader.h"
#include "gpu/reader.h"
#include "sim/state/lifecycle.h"
#include "sim/state/mig.h"
#include "sim/state/test_state.h"

namespace gpuman::gpu {
namespace {

using base::MiB;
using base::Millis;

constexpr std::chrono::seconds kDeadline{60};

// What the callbacks have received; a test can wait for it.
class Reports {
 public:
  SamplerCallbacks Callbacks() {
    return {[this](Inventory inventory) {
              const std::lock_guard lock(mutex_);
              inventories_.push_back(std::move(inventory));
              changed_.notify_all();
            },
            [this](GpuSample sample) {
              const std::lock_guard lock(mutex_);
              samples_.push_back(std::move(sample));
              changed_.notify_all();
            },
            [this](const XidEvent& xid) {
              const std::lock_guard lock(mutex_);
              xids_.push_back(xid);
              changed_.notify_all();
            }};
  }
  bool AwaitXid(const std::function<bool(const XidEvent&)>& fits,
                const std::function<void()>& meanwhile = {}) {
    return AwaitIn(xids_, fits, meanwhile);
  }
  // Waits for the first sample at or after `from` that fits; calls `meanwhile` now and then.
  bool Await(const std::function<bool(const GpuSample&)>& fits, const std::function<void()>& meanwhile = {}) {
    return AwaitIn(samples_, fits, meanwhile);
  }
  bool AwaitInventory(const std::function<bool(const Inventory&)>& fits,
                      const std::function<void()>& meanwhile = {}) {
    return AwaitIn(inventories_, fits, meanwhile);
  }
  void Forget() {
    const std::lock_guard lock(mutex_);
    forgotten_ += samples_.size();
    samples_.clear();
    inventories_.clear();
    xids_.clear();
  }
  // All samples since the beginning, also the forgotten ones.
  std::size_t total() const {
    const std::lock_guard lock(mutex_);
    return forgotten_ + samples_.size();
  }
  std::vector<GpuSample> samples() const {
    const std::lock_guard lock(mutex_);
    return samples_;
  }
  std::vector<Inventory> inventories() const {
    const std::lock_guard lock(mutex_);
    return inventories_;
  }

 private:
  template <typename T, typename Fits>
  bool AwaitIn(const std::vector<T>& all, const Fits& fits, const std::function<void()>& meanwhile) {
    const auto end = std::chrono::steady_clock::now() + kDeadline;
    std::unique_lock lock(mutex_);
    while (std::none_of(all.begin(), all.end(), fits)) {
      if (std::chrono::steady_clock::now() > end) return false;
      changed_.wait_for(lock, Millis(20));
      if (!meanwhile) continue;
      lock.unlock();
      meanwhile();
      lock.lock();
    }
    return true;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<GpuSample> samples_;
  std::size_t forgotten_ = 0;
  std::vector<Inventory> inventories_;
  std::vector<XidEvent> xids_;
};

class SimulatedSampler : public ::testing::Test {
 protected:
  explicit SimulatedSampler(unsigned gpus = 3) : machine_({.profile = "h200", .gpus = gpus}) {
    setenv(sim::kDirectoryVariable, machine_.directory().c_str(), 1);
    for (unsigned i = 0; i < gpus; ++i) uuids_.emplace_back(machine_.shared().gpu_static[i].uuid);
  }
  ~SimulatedSampler() override { sim::ClearFaults(machine_.shared(), sim::kAllGpus); }

  static base::Result<std::shared_ptr<const driver::Nvml>> Load() {
    auto loaded = driver::Nvml::Load(GPUMAN_SIM_LIBRARIES "/libnvidia-ml.so.1");
    if (!loaded) return tl::unexpected<base::Error>(std::move(loaded.error()));
    return std::shared_ptr<const driver::Nvml>(std::move(*loaded));
  }
  Sampler& Start(Sampler::LoadNvml load = Load) {
    sampler_.emplace(settings_, reports_.Callbacks(), std::move(load));
    sampler_->Start();
    return *sampler_;
  }
  void Break(const char* function, unsigned gpu, std::uint32_t delay_ms) {
    auto& call = machine_.shared().faults.slow_calls[0];
    std::string(function).copy(call.function, sizeof call.function - 1);
    call.gpu.store(gpu);
    call.delay_ms.store(delay_ms);
    call.hang.store(delay_ms == 0 ? 1 : 0);
    call.active.store(1);
    machine_.shared().faults.slow_calls_active.store(1);
  }
  auto Of(unsigned gpu, GpuReachability state = GpuReachability::kOk) {
    return [uuid = uuids_[gpu], state](const GpuSample& s) { return s.uuid == uuid && s.state == state; };
  }
  std::function<void()> Watch() {
    return [this] { sampler_->CheckWatchdog(); };
  }

  sim::TestState machine_;
  std::vector<std::string> uuids_;
  Reports reports_;  // outlives the sampler
  SamplerSettings settings_{Millis(20), Millis(100), Millis(50), Millis(200), Millis(100)};
  std::optional<Sampler> sampler_;
};

TEST_F(SimulatedSampler, TellsTheInventoryFirstAndThenEveryGpu) {
  Start();
  for (unsigned gpu = 0; gpu < 3; ++gpu) ASSERT_TRUE(reports_.Await(Of(gpu)));
  const auto inventories = reports_.inventories();
  ASSERT_EQ(inventories.size(), 1u);
  EXPECT_EQ(inventories[0].driver_version, "580.159.04");
  EXPECT_EQ(inventories[0].problem, "");
  ASSERT_EQ(inventories[0].gpus.size(), 3u);
  EXPECT_EQ(inventories[0].gpus[2].uuid, uuids_[2]);
  const GpuSample first = reports_.samples().front();
  ASSERT_TRUE(first.memory);
  EXPECT_EQ(first.memory->total, inventories[0].gpus[0].memory);
  EXPECT_EQ(first.memory->used + first.memory->free + first.memory->reserved, first.memory->total);
  EXPECT_TRUE(first.slow.temperature_c);
  EXPECT_TRUE(first.slow.power_w);
}

TEST_F(SimulatedSampler, TellsHowTheGpusAreConnectedAndWhatTheyUsed) {
  Start();
  ASSERT_TRUE(reports_.AwaitInventory([](const Inventory& inventory) {
    using enum Link;
    return inventory.links ==
           std::vector{kUnknown, kNvLink, kNvLink, kNvLink, kUnknown, kNvLink, kNvLink, kNvLink, kUnknown};
  }));
  ASSERT_TRUE(reports_.Await([](const GpuSample& sample) {
    return sample.slow.energy && sample.slow.energy->millijoules > 0 &&
           sample.slow.energy->at == sample.taken_at;
  }));
}

TEST_F(SimulatedSampler, ReadsTheEnergyCounterOftenWhileItIsWatched) {
  settings_.slow_period = Millis(600'000);
  std::mutex mutex;
  std::vector<EnergySample> seen;
  auto callbacks = reports_.Callbacks();
  callbacks.on_energy = [&](EnergySample one) {
    const std::lock_guard lock(mutex);
    seen.push_back(std::move(one));
  };
  sampler_.emplace(settings_, callbacks, Load);
  sampler_->Start();
  ASSERT_TRUE(reports_.Await(Of(1)));
  sampler_->WatchEnergy(uuids_[1], std::chrono::steady_clock::now() + kDeadline);
  sampler_->WatchEnergy("GPU-unknown", std::chrono::steady_clock::now() + kDeadline);
  const auto read = [&] {
    const std::lock_guard lock(mutex);
    return seen.size();
  };
  for (const auto end = std::chrono::steady_clock::now() + kDeadline; read() < 3;) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::sleep_for(Millis(5));
  }
  sampler_->Stop();
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].uuid, uuids_[1]);
    if (i == 0) continue;
    EXPECT_GT(seen[i].reading.millijoules, seen[i - 1].reading.millijoules);
    EXPECT_GT(seen[i].reading.at, seen[i - 1].reading.at);
  }
}

TEST_F(SimulatedSampler, SeesMemoryComeAndGoWithTheProcessThatHoldsIt) {
  sim::Client client(machine_.state());
  Start();
  ASSERT_TRUE(reports_.Await(Of(1)));
  client.ContextCreated(1);
  ASSERT_TRUE(client.ReserveDeviceBytes(1, MiB(64).count));
  const auto held = [&](const GpuSample& s) {
    return s.uuid == uuids_[1] && s.processes && s.processes->size() == 1 &&
           s.processes->front().pid == ::getpid() && s.processes->front().memory >= MiB(64);
  };
  ASSERT_TRUE(reports_.Await(held));
  client.ReturnDeviceBytes(1, MiB(64).count);
  client.ContextDestroyed(1);
  client.Release();
  reports_.Forget();
  EXPECT_TRUE(reports_.Await(
      [&](const GpuSample& s) { return s.uuid == uuids_[1] && s.processes && s.processes->empty(); }));
}

TEST_F(SimulatedSampler, SeesTheEndOfAKilledProcess) {
  sim::Child child([&] {
    static sim::Client client(machine_.state());
    client.ContextCreated(0);
    return client.ReserveDeviceBytes(0, MiB(32).count);
  });
  ASSERT_TRUE(child.succeeded());
  Start();
  ASSERT_TRUE(reports_.Await([&](const GpuSample& s) {
    return s.uuid == uuids_[0] && s.processes && s.processes->size() == 1 &&
           s.processes->front().pid == child.pid();
  }));
  child.Kill(SIGKILL);
  EXPECT_TRUE(reports_.Await(
      [&](const GpuSample& s) { return s.uuid == uuids_[0] && s.processes && s.processes->empty(); }));
}

TEST_F(SimulatedSampler, ReportsNothingButSlowTicksWhileNothingHappens) {
  settings_.rest_period = Millis(1);
  settings_.slow_period = Millis(100);
  const auto began = std::chrono::steady_clock::now();
  Start();
  for (int tick = 0; tick < 5; ++tick) {
    reports_.Forget();
    ASSERT_TRUE(reports_.Await(Of(2)));
  }
  sampler_->Stop();
  // There were about 100 times as many rounds as slow ticks.
  const auto ticks = (std::chrono::steady_clock::now() - began) / settings_.slow_period + 2;
  EXPECT_LE(reports_.total(), static_cast<std::size_t>(3 * ticks));
}

TEST_F(SimulatedSampler, ReadsAtOnceWhenPoked) {
  settings_.rest_period = settings_.slow_period = Millis(3'600'000);
  Start();
  ASSERT_TRUE(reports_.Await(Of(2)));
  reports_.Forget();
  sampler_->Poke(uuids_[2]);
  EXPECT_TRUE(reports_.Await(Of(2)));
  reports_.Forget();
  sampler_->PokeAll();
  for (unsigned gpu = 0; gpu < 3; ++gpu) EXPECT_TRUE(reports_.Await(Of(gpu)));
}

TEST_F(SimulatedSampler, TakesAShorterPeriodAtOnce) {
  settings_.rest_period = settings_.slow_period = Millis(3'600'000);
  sim::Client client(machine_.state());
  Start();
  ASSERT_TRUE(reports_.Await(Of(2)));
  sampler_->SetPeriod(uuids_[2], Millis(5));
  client.ContextCreated(2);
  ASSERT_TRUE(client.ReserveDeviceBytes(2, MiB(64).count));
  EXPECT_TRUE(reports_.Await(
      [&](const GpuSample& s) { return s.uuid == uuids_[2] && s.processes && !s.processes->empty(); }));
  client.Release();
}

TEST_F(SimulatedSampler, TellsALostGpuAndTakesItBack) {
  Start();
  ASSERT_TRUE(reports_.Await(Of(0)));
  machine_.shared().gpu[0].lost.store(1);
  ASSERT_TRUE(reports_.Await([&](const GpuSample& s) {
    return Of(0, GpuReachability::kLost)(s) && s.error.find("lost") != std::string::npos && !s.memory;
  }));
  reports_.Forget();
  EXPECT_TRUE(reports_.Await(Of(1))) << "its neighbours go on";
  machine_.shared().gpu[0].lost.store(0);
  EXPECT_TRUE(reports_.Await(Of(0)));
}

TEST_F(SimulatedSampler, TellsTheDriversErrorsAsTheyCome) {
  Start();
  ASSERT_TRUE(reports_.Await(Of(2)));
  // The driver reports errors only to listeners: the first report shows that the sampler listens.
  const auto strike = [&](unsigned gpu, unsigned xid) {
    sim::PostEvent(machine_.shared(), gpu, driver::abi::nvmlEventTypeXidCriticalError, xid);
  };
  const auto is = [&](unsigned gpu, unsigned xid) {
    return [this, gpu, xid](const XidEvent& seen) { return seen == XidEvent{uuids_[gpu], xid}; };
  };
  ASSERT_TRUE(reports_.AwaitXid(is(1, 31), [&] { strike(1, 31); }));
  strike(2, 79);
  strike(0, 48);
  EXPECT_TRUE(reports_.AwaitXid(is(2, 79)));
  EXPECT_TRUE(reports_.AwaitXid(is(0, 48)));
}

TEST_F(SimulatedSampler, TellsTheErrorsOfOthersWhenOneIsLost) {
  Start();
  ASSERT_TRUE(reports_.Await(Of(2)));
  machine_.shared().gpu[0].lost.store(1);
  EXPECT_TRUE(reports_.AwaitXid(
      [&](const XidEvent& seen) { return seen.uuid == uuids_[1]; },
      [&] { sim::PostEvent(machine_.shared(), 1, driver::abi::nvmlEventTypeXidCriticalError, 13); }));
}

TEST_F(SimulatedSampler, GoesOnWhenTheDriverHangsWhereItIsAskedForErrors) {
  Break("nvmlEventSetWait_v2", sim::kAllGpus, 0);
  Start();
  for (int round = 0; round < 3; ++round) {
    reports_.Forget();
    for (unsigned gpu = 0; gpu < 3; ++gpu) ASSERT_TRUE(reports_.Await(Of(gpu), Watch()));
  }
  for (const auto& inventory : reports_.inventories()) EXPECT_EQ(inventory.problem, "");
  sim::ClearFaults(machine_.shared(), sim::kAllGpus);
  EXPECT_TRUE(reports_.AwaitXid([&](const XidEvent& seen) { return seen.xid == 13; },
                                [&] {
                                  sampler_->CheckWatchdog();
                                  sim::PostEvent(machine_.shared(), 1,
                                                 driver::abi::nvmlEventTypeXidCriticalError, 13);
                                }));
}

TEST_F(SimulatedSampler, ReadsWhatIsBroken) {
  auto& gpu = machine_.shared().gpu[1];
  gpu.remapped_uncorrectable.store(600);
  gpu.remap_failed.store(1);
  gpu.recovery_action.store(4);
  gpu.ecc[0][1][2].store(3);
  gpu.throttle_reasons.store(0x40);
  gpu.pcie_replays.store(17);
  Start();
  ASSERT_TRUE(reports_.Await(Of(1)));
  ASSERT_TRUE(reports_.Await(Of(0)));
  const auto samples = reports_.samples();
  const auto sick = std::find_if(samples.begin(), samples.end(), Of(1))->health;
  EXPECT_EQ(sick.uncorrectable_remaps, 600U);
  EXPECT_EQ(sick.remap_failed, true);
  EXPECT_EQ(sick.remap_pending, false);
  EXPECT_EQ(sick.recovery, Recovery::kDrainAndReset);
  EXPECT_EQ(sick.double_bit_errors, 3U);
  EXPECT_EQ(sick.hardware_slowdown, true);
  EXPECT_EQ(sick.pcie_replays, 17U);
  const auto well = std::find_if(samples.begin(), samples.end(), Of(0))->health;
  EXPECT_EQ(well.recovery, Recovery::kNone);
  EXPECT_EQ(well.double_bit_errors, 0U);
  EXPECT_EQ(well.hardware_slowdown, false);
  EXPECT_EQ(well.retired_pages, std::nullopt) << "an H200 remaps rows";
}

TEST_F(SimulatedSampler, MarksOnlyTheGpuWhoseCallHangsAndTakesItBack) {
  Start();
  for (unsigned gpu = 0; gpu < 3; ++gpu) ASSERT_TRUE(reports_.Await(Of(gpu)));
  Break("", 1, 0);
  ASSERT_TRUE(reports_.Await(Of(1, GpuReachability::kUnresponsive), Watch()));
  for (int round = 0; round < 3; ++round) {
    reports_.Forget();
    EXPECT_TRUE(reports_.Await(Of(0), Watch()));
    EXPECT_TRUE(reports_.Await(Of(2), Watch()));
  }
  const auto samples = reports_.samples();
  EXPECT_TRUE(std::none_of(samples.begin(), samples.end(), Of(1)));
  EXPECT_TRUE(std::none_of(samples.begin(), samples.end(), Of(1, GpuReachability::kUnresponsive)))
      << "told once";
  sim::ClearFaults(machine_.shared(), sim::kAllGpus);
  EXPECT_TRUE(reports_.Await(Of(1), Watch()));
  reports_.Forget();
  EXPECT_TRUE(reports_.Await(Of(1), Watch())) << "and goes on";
}

TEST_F(SimulatedSampler, SurvivesADriverInWhichEveryCallHangs) {
  Start();
  for (unsigned gpu = 0; gpu < 3; ++gpu) ASSERT_TRUE(reports_.Await(Of(gpu)));
  Break("", sim::kAllGpus, 0);
  for (unsigned gpu = 0; gpu < 3; ++gpu)
    EXPECT_TRUE(reports_.Await(Of(gpu, GpuReachability::kUnresponsive), Watch()));
  reports_.Forget();
  sim::ClearFaults(machine_.shared(), sim::kAllGpus);
  for (unsigned gpu = 0; gpu < 3; ++gpu) EXPECT_TRUE(reports_.Await(Of(gpu), Watch()));
}

TEST_F(SimulatedSampler, DoesNotLetASlowGpuHoldUpTheOthers) {
  settings_.call_limit = Millis(60'000);
  settings_.slow_round = Millis(30);
  Start();
  for (unsigned gpu = 0; gpu < 3; ++gpu) ASSERT_TRUE(reports_.Await(Of(gpu)));
  Break("nvmlDeviceGetMemoryInfo_v2", 1, 500);
  // Until it counts as slow, the others get one turn for each of its turns. Then they run on their own.
  const auto turns_of_another = [&] {
    reports_.Forget();
    if (!reports_.Await(Of(1))) return std::ptrdiff_t{-1};
    const auto samples = reports_.samples();
    return std::count_if(samples.begin(), samples.end(), Of(0));
  };
  std::ptrdiff_t turns = 0;
  for (int tries = 0; tries < 20 && turns >= 0 && turns < 3; ++tries) turns = turns_of_another();
  EXPECT_GE(turns, 3);
}

// The number of this process's threads that read GPUs.
std::ptrdiff_t SamplerThreads() {
  std::ptrdiff_t threads = 0;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    threads += name == "gpuman-sampler" ? 1 : 0;
  }
  return threads;
}

TEST_F(SimulatedSampler, LooksAtAGpuThatWasSlowTogetherWithTheOthersAgain) {
  settings_.call_limit = Millis(60'000);
  settings_.slow_round = Millis(300);  // longer than a busy machine makes a round
  settings_.rest_period = settings_.slow_period = Millis(5);
  Start();
  for (unsigned gpu = 0; gpu < 3; ++gpu) ASSERT_TRUE(reports_.Await(Of(gpu)));
  const auto become = [&](std::ptrdiff_t threads) {
    const auto end = std::chrono::steady_clock::now() + kDeadline;
    for (; SamplerThreads() != threads && std::chrono::steady_clock::now() < end; sampler_->CheckWatchdog())
      std::this_thread::sleep_for(Millis(2));
    return SamplerThreads() == threads;
  };
  Break("nvmlDeviceGetMemoryInfo_v2", 1, 1000);
  EXPECT_TRUE(become(2));
  sim::ClearFaults(machine_.shared(), sim::kAllGpus);
  EXPECT_TRUE(become(1));
  reports_.Forget();
  for (unsigned gpu = 0; gpu < 3; ++gpu) EXPECT_TRUE(reports_.Await(Of(gpu)));
}

TEST_F(SimulatedSampler, StopsThoughACallNeverComesBack) {
  Start();
  ASSERT_TRUE(reports_.Await(Of(2)));
  Break("", 1, 0);
  ASSERT_TRUE(reports_.Await(Of(1, GpuReachability::kUnresponsive), Watch()));
  sampler_->Stop();
  EXPECT_TRUE(sampler_->left_a_thread());
  reports_.Forget();
  sim::ClearFaults(machine_.shared(), sim::kAllGpus);
  EXPECT_TRUE(reports_.samples().empty());
}

TEST_F(SimulatedSampler, StopsBeforeAndAfterItStarted) {
  settings_.call_limit = Millis(60'000);
  Sampler never(settings_, reports_.Callbacks(), Load);
  never.Stop();
  Start();
  sampler_->Stop();
  sampler_->Stop();
  EXPECT_FALSE(sampler_->left_a_thread());
}

TEST_F(SimulatedSampler, SaysOnceThatThereIsNoDriverAndFindsOneInstalledLater) {
  std::atomic<int> attempts{0};
  std::atomic<bool> installed{false};
  Start([&]() -> base::Result<std::shared_ptr<const driver::Nvml>> {
    ++attempts;
    if (!installed) return base::Fail(base::ErrorCode::kUnavailable, "no NVIDIA driver");
    return Load();
  });
  ASSERT_TRUE(reports_.AwaitInventory([](const Inventory& i) { return i.gpus.empty(); },
                                      [&] { sampler_->PokeAll(); }));
  while (attempts < 4) sampler_->PokeAll(), std::this_thread::yield();
  ASSERT_EQ(reports_.inventories().size(), 1u);
  EXPECT_EQ(reports_.inventories()[0].problem, "no NVIDIA driver");
  installed = true;
  EXPECT_TRUE(reports_.AwaitInventory([](const Inventory& i) { return i.gpus.size() == 3; }));
  EXPECT_TRUE(reports_.Await(Of(0)));
}

TEST_F(SimulatedSampler, TellsADriverThatHangsWhileLoading) {
  std::atomic<bool> hangs{true};
  Start([&]() -> base::Result<std::shared_ptr<const driver::Nvml>> {
    while (hangs) std::this_thread::yield();
    return Load();
  });
  EXPECT_TRUE(reports_.AwaitInventory(
      [](const Inventory& i) { return i.problem.find("does not answer") != std::string::npos; }, Watch()));
  hangs = false;
  EXPECT_TRUE(reports_.AwaitInventory([](const Inventory& i) { return i.gpus.size() == 3; }, Watch()));
  EXPECT_TRUE(reports_.Await(Of(0), Watch()));
}

class SimulatedSamplerWithoutGpus : public SimulatedSampler {
 protected:
  SimulatedSamplerWithoutGpus() : SimulatedSampler(0) {}
};

TEST_F(SimulatedSamplerWithoutGpus, MissingGpusAreReportedAsProblem) {
  Start();
  ASSERT_TRUE(reports_.AwaitInventory([](const Inventory& i) { return !i.problem.empty(); }));
  EXPECT_TRUE(reports_.inventories()[0].gpus.empty());
}

TEST_F(SimulatedSampler, ReadsDetailsOnlyWhileTheyAreWanted) {
  settings_.slow_period = Millis(20);
  machine_.shared().gpu_static[1].features |= sim::kFeatureFan;
  Sampler& sampler = Start();
  ASSERT_TRUE(reports_.Await(Of(1)));
  for (const auto& sample : reports_.samples()) EXPECT_EQ(sample.details, Details{});
  sampler.WantDetails(std::chrono::steady_clock::now() + std::chrono::hours(1));
  EXPECT_TRUE(reports_.Await([&](const GpuSample& s) {
    const auto& d = s.details;
    return s.uuid == uuids_[1] && d.sm_clock_mhz && d.memory_clock_mhz && d.encoder_percent &&
           d.decoder_percent && d.memory_temperature_c && d.pcie_sent && d.pcie_received &&
           d.corrected_volatile && d.corrected_aggregate && d.uncorrected_aggregate && d.correctable_remaps &&
           d.fan_percent == 30 && d.power_limit_w == 700 && d.performance_state == 0;
  }));
  sampler.WantDetails({});
  EXPECT_TRUE(reports_.Await([this, seen = false](const GpuSample& s) mutable {
    if (s.uuid != uuids_[1]) return false;
    seen = seen || s.details != Details{};
    return seen && s.details == Details{};
  })) << "what was read is forgotten";
  EXPECT_GT(sampler.Rounds().count(), 0u);
}

TEST_F(SimulatedSampler, LeavesOutWhatTakesLongWhileTheGpuIsWatchedClosely) {
  settings_.slow_period = Millis(20);
  Sampler& sampler = Start();
  sampler.WantDetails(std::chrono::steady_clock::now() + std::chrono::hours(1));
  ASSERT_TRUE(reports_.Await([&](const GpuSample& s) {
    return s.uuid == uuids_[1] && s.details.pcie_sent && s.details.pcie_received;
  }));
  sampler.SetPeriod(uuids_[1], Millis(5));
  EXPECT_TRUE(reports_.Await([&, seen = false](const GpuSample& s) mutable {
    if (s.uuid != uuids_[1]) return false;
    seen = seen || s.details.pcie_sent;
    return seen && !s.details.pcie_sent && !s.details.pcie_received && s.details.sm_clock_mhz;
  }));
}

TEST_F(SimulatedSampler, ReadsNoDetailThatTheDeviceLacks) {
  settings_.slow_period = Millis(20);
  machine_.shared().gpu_static[0].features &=
      ~(sim::kFeatureMemoryTemperature | sim::kFeatureRemappedRows | sim::kFeatureFan);
  Sampler& sampler = Start();
  sampler.WantDetails(std::chrono::steady_clock::now() + std::chrono::hours(1));
  std::size_t with_clock = 0;
  EXPECT_TRUE(reports_.Await([&](const GpuSample& s) {
    return s.uuid == uuids_[1] && s.details.memory_temperature_c && s.details.correctable_remaps;
  }));
  EXPECT_TRUE(reports_.Await([&](const GpuSample& s) {
    return s.uuid == uuids_[0] && s.details.sm_clock_mhz && s.details.pcie_received;
  }));
  for (const auto& sample : reports_.samples()) {
    if (sample.uuid != uuids_[0]) continue;
    with_clock += sample.details.sm_clock_mhz ? 1U : 0U;
    EXPECT_FALSE(sample.details.memory_temperature_c);
    EXPECT_FALSE(sample.details.correctable_remaps);
    EXPECT_FALSE(sample.details.fan_percent);
  }
  EXPECT_GT(with_clock, 0u);
}

// The reader reads the bus, and with it the links, every ten seconds; so the test sets its times.
class SimulatedHealth : public SimulatedSampler {
 protected:
  HealthReading ReadHealth() {
    now_ += std::chrono::seconds(10);
    const auto device = nvml_->DeviceByUuid(uuids_[0]);
    EXPECT_TRUE(device);
    return reader_.Read(*nvml_, device.value_or(nullptr), now_);
  }
  std::shared_ptr<const driver::Nvml> nvml_ = Load().value();
  HealthReader reader_;
  base::MonoTime now_{std::chrono::hours(1)};
};

TEST_F(SimulatedHealth, ALinkIsDownWhenItWasUpBefore) {
  EXPECT_EQ(ReadHealth().nvlinks_down, std::nullopt) << "it has none";
  EXPECT_EQ(ReadHealth().nvlink_crc_errors, std::nullopt);
  machine_.shared().gpu_static[0].nvlinks = 4;
  auto& now = machine_.shared().gpu[0];
  now.nvlinks_down.store(0b1000);
  EXPECT_EQ(ReadHealth().nvlinks_down, 0u) << "the last leads nowhere";
  now.nvlinks_down.store(0b1011);
  EXPECT_EQ(ReadHealth().nvlinks_down, 2u);
  now.nvlinks_down.store(0);
  EXPECT_EQ(ReadHealth().nvlinks_down, 0u);
  now.nvlinks_down.store(0b1000);
  EXPECT_EQ(ReadHealth().nvlinks_down, 1u);
  reader_.Forget();
  EXPECT_EQ(ReadHealth().nvlinks_down, 0u) << "the driver was loaded anew";
  now.nvlink_crc_errors.store(7);
  EXPECT_EQ(ReadHealth().nvlink_crc_errors, 7u);
}

TEST_F(SimulatedHealth, TheThresholdOfOnChipMemoryIsToldByDevicesThatHaveOne) {
  EXPECT_EQ(ReadHealth().sram_threshold_exceeded, false);
  machine_.shared().gpu[0].sram_threshold.store(1);
  EXPECT_EQ(ReadHealth().sram_threshold_exceeded, true);
  machine_.shared().gpu_static[0].features &= ~sim::kFeatureEcc;
  EXPECT_EQ(ReadHealth().sram_threshold_exceeded, std::nullopt);
}

// Makes the first instance of a GPU: 1g.18gb at the first free place.
std::string Divide(sim::Shared& shared, unsigned gpu) {
  shared.gpu[gpu].mig_current.store(1);
  sim::MigInstance instance;
  unsigned compute = 0;
  EXPECT_EQ(sim::CreateMigInstance(shared, gpu, 0, std::nullopt, instance), sim::MigOutcome::kDone);
  EXPECT_EQ(sim::CreateMigCompute(shared, instance.index, 1, compute), sim::MigOutcome::kDone);
  return sim::MigUuid(shared, instance, compute);
}

TEST_F(SimulatedSampler, ReportsTheInstancesOfASplitGpuAsDevicesBehindIt) {
  const auto first = Divide(machine_.shared(), 1);
  const auto second = Divide(machine_.shared(), 1);
  Start();
  ASSERT_TRUE(reports_.AwaitInventory([](const Inventory& inventory) { return inventory.gpus.size() == 5; }));
  const auto inventory = reports_.inventories().front();
  EXPECT_EQ(inventory.gpus[1].uuid, uuids_[1]);
  EXPECT_TRUE(inventory.gpus[1].split);
  EXPECT_FALSE(inventory.gpus[0].split);
  EXPECT_EQ(inventory.gpus[2].uuid, first);
  EXPECT_EQ(inventory.gpus[3].uuid, second);
  ASSERT_TRUE(inventory.gpus[3].mig);
  EXPECT_EQ(*inventory.gpus[3].mig, (Instance{uuids_[1], 1, 2, 0, "1g.18gb"}));
  EXPECT_EQ(inventory.gpus[3].index, 1u);
  EXPECT_LT(inventory.gpus[3].memory, inventory.gpus[1].memory);
  EXPECT_EQ(inventory.links.size(), 25u);
  EXPECT_TRUE(reports_.Await([&](const GpuSample& sample) {
    return sample.uuid == second && sample.state == GpuReachability::kOk && sample.memory &&
           sample.processes && !sample.slow.temperature_c && sample.health == HealthReading{};
  }));
}

TEST_F(SimulatedSampler, NoticesInstancesThatComeAndGoAndCallsNoneLost) {
  settings_.rest_period = Millis(5);
  settings_.slow_period = Millis(20);
  Start();
  ASSERT_TRUE(reports_.AwaitInventory([](const Inventory& inventory) { return inventory.gpus.size() == 3; }));
  const auto uuid = Divide(machine_.shared(), 0);
  ASSERT_TRUE(reports_.AwaitInventory([](const Inventory& inventory) { return inventory.gpus.size() == 4; }));
  ASSERT_TRUE(reports_.Await([&](const GpuSample& sample) { return sample.uuid == uuid; }));
  sim::RemoveMigInstances(machine_.shared(), 0);
  machine_.shared().gpu[0].mig_current.store(0);
  reports_.Forget();
  ASSERT_TRUE(reports_.AwaitInventory(
      [](const Inventory& inventory) { return inventory.gpus.size() == 3 && !inventory.gpus[0].split; }));
  reports_.Forget();
  ASSERT_TRUE(reports_.Await([&](const GpuSample& sample) { return sample.uuid == uuids_[0]; }));
  for (const auto& sample : reports_.samples()) {
    EXPECT_NE(sample.uuid, uuid);
    EXPECT_EQ(sample.state, GpuReachability::kOk);
  }
}

TEST(IsDividedAnew, SilentGpuCountsAsUnchanged) {
  const Divisions before{{0, {true, {"MIG-a"}}}, {1, {}}};
  EXPECT_FALSE(IsDividedAnew(before, before));
  EXPECT_FALSE(IsDividedAnew(before, {{1, {}}}));
  EXPECT_TRUE(IsDividedAnew(before, {{0, {true, {}}}, {1, {}}}));
  EXPECT_TRUE(IsDividedAnew(before, {{1, {true, {}}}}));
}

}  // namespace
}  // namespace gpuman::gpu
