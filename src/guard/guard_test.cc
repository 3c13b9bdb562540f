// Tests the guard as the daemon uses it: samples in, signals and periods out. Sizes in MiB.
#include "guard/guard.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "guard/test_machine.h"

namespace gpuman::guard {
namespace {

using base::MiB;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class HandClock final : public base::Clock {
 public:
  base::MonoTime Mono() const override { return now; }
  base::WallTime Wall() const override { return {}; }
  base::MonoTime now = At(0);
};

// Processes whose parent is the keeper of their job.
class Table final : public base::ProcessTable {
 public:
  std::optional<base::ProcessInfo> Find(pid_t pid) const override {
    const auto it = parents.find(pid);
    if (it == parents.end()) return std::nullopt;
    return base::ProcessInfo{{pid, static_cast<std::uint64_t>(pid)}, it->second, 0, 0, 'S', "python"};
  }
  std::vector<base::ProcessInfo> List() const override { return {}; }
  std::optional<uid_t> Owner(pid_t) const override { return 1000; }
  std::vector<std::string> CommandLine(pid_t) const override { return {}; }
  std::optional<std::string> Environment(pid_t, std::string_view) const override { return std::nullopt; }
  std::map<pid_t, pid_t> parents{{70, 1}, {80, 1}, {701, 70}, {702, 70}, {801, 80}};
};

class RecordingActuator final : public Actuator {
 public:
  void Announce(JobId job, const std::string& reason, const std::string&) override {
    calls.push_back(fmt::format("announce {} {}", job.value, reason));
    if (on_announce) on_announce(job);
  }
  base::Result<> SignalJob(JobId job, int signal, std::function<void(const SignalJobResult&)> sent) override {
    calls.push_back(fmt::format("signal {} {}", signal, job.value));
    under_way.push_back(std::move(sent));
    return {};
  }
  void Finish() {
    for (const auto& sent : std::exchange(under_way, {})) sent({1, {}});
  }
  base::Result<> SignalProcess(base::ProcessId, int) override { return {}; }
  void SuspendJob(JobId job, const std::string& reason, const std::string&, base::Millis after) override {
    calls.push_back(fmt::format("suspend {} {} {}", job.value, reason, base::FormatDuration(after)));
  }
  void Note(JobId, const std::string&) override {}
  void Emit(Event event) override {
    calls.push_back("emit " + event.kind);
    last = std::move(event);
  }
  std::vector<std::function<void(const SignalJobResult&)>> under_way;
  std::vector<std::string> calls;
  Event last;
  std::function<void(JobId)> on_announce;
};

class GuardTest : public ::testing::Test {
 protected:
  GuardTest() {
    gpu::Inventory inventory;
    for (unsigned i = 0; i < 2; ++i)
      inventory.gpus.push_back({i, fmt::format("GPU-{}", i), "NVIDIA H200", "", MiB(10'000)});
    guard.SetInventory(inventory);
  }
  static GuardedJob Seven() {
    GuardedJob job;
    job.id = {7};
    job.tag = "hog";
    job.started_at = At(-1000);
    job.hard = base::SizeSpec{MiB(1000)};
    job.root = {.job = {7}, .keeper = {70, 70}, .owner = 1000};
    return job;
  }
  // Gives a sample of GPU `index`, `milliseconds` after the start. `managed`: memory that the driver counts
  // for the GPU and for no process.
  void Observe(std::int64_t milliseconds, unsigned index, const std::map<pid_t, std::uint64_t>& processes,
               std::uint64_t managed = 0) {
    clock.now = At(milliseconds);
    gpu::GpuSample sample;
    sample.uuid = fmt::format("GPU-{}", index);
    sample.taken_at = At(milliseconds);
    gpu::GpuMemoryInfo memory{MiB(10'000), {}, {}, {}};
    sample.processes.emplace();
    for (const auto& [pid, used] : processes) {
      sample.processes->push_back({pid, MiB(used), gpu::ProcessKind::kCompute});
      memory.used += MiB(used);
    }
    memory.used += MiB(managed);
    memory.free = memory.total - memory.used;
    sample.memory = memory;
    guard.OnSample(sample);
    if (read_with_it) read_with_it();
    if (judges) guard.Judge();
    actuator.Finish();
  }
  void Fail(unsigned index, gpu::GpuReachability state) {
    gpu::GpuSample sample;
    sample.uuid = fmt::format("GPU-{}", index);
    sample.taken_at = clock.now;
    sample.state = state;
    sample.error = "it fell off";
    guard.OnSample(sample);
    guard.Judge();
  }

  HandClock clock;
  Table table;
  RecordingActuator actuator;
  std::vector<std::string> periods;
  std::function<void()> read_with_it;  // runs between a sample and its judgement
  bool judges = true;                  // whether each sample is judged at once
  Guard guard{{}, table, actuator, clock, [this](const std::string& uuid, base::Millis period) {
                periods.push_back(fmt::format("{} {}", uuid, period.count()));
              }};
};

TEST_F(GuardTest, EndsAJobWhoseTreePassesItsLimit) {
  guard.SetJob(Seven());
  Observe(0, 0, {{701, 600}, {702, 400}, {801, 5000}});
  EXPECT_THAT(actuator.calls, IsEmpty());
  Observe(100, 0, {{701, 600}, {702, 401}, {801, 5000}});
  EXPECT_THAT(actuator.calls, ElementsAre("announce 7 memory_limit", "signal 9 7", "emit hard_limit"));
  EXPECT_EQ(actuator.last.job, JobId{7});
}

// GPU 0 is split into one instance of 1000 MiB; the driver lists the processes there with both.
TEST_F(GuardTest, OfAGpuThatIsSplitItJudgesTheInstancesAlone) {
  gpu::Inventory inventory = guard.inventory();
  inventory.gpus[0].split = true;
  gpu::Gpu instance{0, "MIG-0", "NVIDIA H200 MIG 1g.18gb", "", MiB(1000)};
  instance.mig = gpu::Instance{"GPU-0", 0, 1, 0, "1g.18gb"};
  inventory.gpus.insert(inventory.gpus.begin() + 1, instance);
  guard.SetInventory(inventory);
  auto job = Seven();
  job.hard = base::ParseSize("50%").value();
  guard.SetJob(job);
  Observe(0, 0, {{701, 9000}});
  EXPECT_THAT(actuator.calls, IsEmpty());
  EXPECT_TRUE(guard.UsageOf({7}).by_gpu.empty());
  EXPECT_THAT(guard.Find("GPU-0")->processes, IsEmpty());
  gpu::GpuSample sample;
  sample.uuid = "MIG-0";
  sample.taken_at = At(100);
  clock.now = At(100);
  sample.memory = gpu::GpuMemoryInfo{MiB(1000), MiB(501), MiB(499), {}};
  sample.processes.emplace().push_back({701, MiB(501), gpu::ProcessKind::kCompute});
  guard.OnSample(sample);
  EXPECT_EQ(guard.UsageOf({7}).by_gpu, (std::map<std::string, base::Bytes>{{"MIG-0", MiB(501)}}));
  guard.Judge();
  actuator.Finish();
  EXPECT_THAT(actuator.calls, ElementsAre("announce 7 memory_limit", "signal 9 7", "emit hard_limit"));
  EXPECT_THAT(actuator.last.message, HasSubstr("GPU 0:0"));
}

TEST_F(GuardTest, AnInstanceThatIsAwayWithItsGpuIsToldOnce) {
  gpu::Inventory inventory = guard.inventory();
  gpu::Gpu instance{0, "GPU-7", "NVIDIA H200 MIG 1g.18gb", "", MiB(1000)};
  instance.mig = gpu::Instance{"GPU-0", 0, 1, 0, "1g.18gb"};
  inventory.gpus.insert(inventory.gpus.begin() + 1, instance);
  guard.SetInventory(inventory);
  Fail(0, gpu::GpuReachability::kLost);
  Fail(7, gpu::GpuReachability::kLost);
  EXPECT_THAT(actuator.calls, ElementsAre("emit gpu_lost"));
}

TEST_F(GuardTest, CarriesOutAGraceWithoutASample) {
  auto job = Seven();
  job.grace = base::Millis(500);
  guard.SetJob(job);
  Observe(0, 0, {{701, 1001}});
  EXPECT_EQ(guard.NextDeadline(), At(500));
  actuator.calls.clear();
  clock.now = At(500);
  guard.OnTime();
  actuator.Finish();
  EXPECT_THAT(actuator.calls, ElementsAre("signal 9 7", "emit sigkill_sent"));
}

TEST_F(GuardTest, ResolvesPercentagesOnEachGpu) {
  auto job = Seven();
  job.hard = base::SizeSpec{{}, 50};
  guard.SetJob(job);
  Observe(0, 1, {{701, 5000}});
  EXPECT_THAT(actuator.calls, IsEmpty());
  Observe(1, 1, {{701, 5001}});
  EXPECT_FALSE(actuator.calls.empty());
}

TEST_F(GuardTest, AppliesALimitThatWasChangedToTheNextSample) {
  guard.SetJob(Seven());
  Observe(0, 0, {{701, 900}});
  auto job = Seven();
  job.hard = base::SizeSpec{MiB(800)};
  guard.SetJob(job);
  Observe(10, 0, {{701, 900}});
  EXPECT_THAT(actuator.calls, ElementsAre("announce 7 memory_limit", "signal 9 7", "emit hard_limit"));
}

TEST_F(GuardTest, JudgesAJobByWhatItCountsWhenTheSampleIsTaken) {
  guard.SetJob(Seven());
  guard.SetCounted({7}, "GPU-0", MiB(0));
  Observe(0, 0, {});
  // Since the last sample the job has allocated, and its limit was lowered.
  auto job = Seven();
  job.hard = base::SizeSpec{MiB(300)};
  guard.SetJob(job);
  read_with_it = [&] { guard.SetCounted({7}, "GPU-0", MiB(900)); };
  Observe(10, 0, {{701, 900}});
  EXPECT_THAT(actuator.calls, ElementsAre("emit over_limit")) << "it takes no more, and is warned first";
}

TEST_F(GuardTest, JudgesAllSamplesThatCameAtOnceInOneGo) {
  auto of_all = Seven();
  of_all.gpus = {};
  guard.SetJob(of_all);
  Observe(0, 0, {});
  Observe(0, 1, {});
  periods.clear();
  judges = false;
  Observe(10, 0, {{701, 900}});
  Observe(10, 1, {{701, 1001}});
  EXPECT_THAT(actuator.calls, IsEmpty());
  guard.Judge();
  actuator.Finish();
  EXPECT_THAT(actuator.calls, ElementsAre("announce 7 memory_limit", "signal 9 7", "emit hard_limit"));
  EXPECT_EQ(actuator.last.gpu, "GPU-1");
  EXPECT_THAT(periods, SizeIs(2)) << "both have something to watch now";
  actuator.calls.clear();
  guard.Judge();
  actuator.Finish();
  EXPECT_THAT(actuator.calls, IsEmpty()) << "no sample is new";
}

TEST_F(GuardTest, KnowsTheProcessesOfAJobThatIsAddedLate) {
  Observe(0, 0, {{701, 900}});
  EXPECT_EQ(guard.Find("GPU-0")->processes.at(0).job, std::nullopt);
  guard.SetJob(Seven());
  EXPECT_EQ(guard.Find("GPU-0")->processes.at(0).job, JobId{7});
  guard.RemoveJob({7});
  EXPECT_EQ(guard.Find("GPU-0")->processes.at(0).job, std::nullopt);
}

TEST_F(GuardTest, CountsUsageAndPeakOfARun) {
  guard.SetJob(Seven());
  EXPECT_EQ(guard.UsageOf({7}).used, std::nullopt);
  Observe(0, 0, {{701, 300}, {702, 100}});
  Observe(1, 1, {{701, 700}});
  EXPECT_EQ(guard.UsageOf({7}).used, MiB(700)) << "the largest of its GPUs";
  Observe(2, 1, {{701, 100}});
  EXPECT_EQ(guard.UsageOf({7}).used, MiB(400));
  EXPECT_EQ(guard.UsageOf({7}).peak, MiB(700));
  EXPECT_EQ(guard.UsageOf({7}).by_gpu.at("GPU-1"), MiB(100));
  auto again = Seven();
  again.run = 2;
  guard.SetJob(again);
  EXPECT_EQ(guard.UsageOf({7}).peak, std::nullopt);
}

TEST_F(GuardTest, HoldsTheReserveOfEachGpu) {
  GuardSettings settings;
  settings.reserve = base::SizeSpec{{}, 5};
  settings.gpu_reserve["GPU-1"] = base::SizeSpec{MiB(2000)};
  guard.SetSettings(settings);
  auto job = Seven();
  job.hard.reset();
  guard.SetJob(job);
  Observe(0, 0, {{701, 9500}});
  EXPECT_THAT(actuator.calls, IsEmpty());
  Observe(1, 1, {{701, 8001}});
  EXPECT_THAT(actuator.calls,
              ElementsAre("announce 7 device_pressure", "signal 9 7", "emit device_pressure"));
}

TEST_F(GuardTest, TakesManagedMemoryForFree) {
  GuardSettings settings;
  settings.reserve = base::SizeSpec{MiB(500)};
  guard.SetSettings(settings);
  auto job = Seven();
  job.hard.reset();
  guard.SetJob(job);
  guard.SetManaged("GPU-0", MiB(20'000));
  Observe(0, 0, {{701, 400}}, 9600);
  EXPECT_THAT(actuator.calls, IsEmpty()) << "it gives way";
  EXPECT_EQ(guard.FreeOf("GPU-0"), MiB(9600));
  guard.SetManaged("GPU-0", MiB(100));
  Observe(1000, 0, {{701, 400}}, 9600);
  EXPECT_THAT(actuator.calls, ElementsAre("announce 7 device_pressure", "signal 9 7", "emit device_pressure"))
      << "who has the rest is not known";
}

TEST_F(GuardTest, TellsOfAGpuThatIsLostOrHangsAndNeverActsOnIt) {
  guard.SetJob(Seven());
  Observe(0, 0, {{701, 900}});
  Fail(0, gpu::GpuReachability::kLost);
  Fail(0, gpu::GpuReachability::kLost);
  EXPECT_EQ(actuator.last.message, "GPU 0 (NVIDIA H200) is lost: it fell off");
  Fail(0, gpu::GpuReachability::kUnresponsive);
  auto job = Seven();
  job.hard = base::SizeSpec{MiB(1)};
  guard.SetJob(job);
  guard.OnTime();
  actuator.Finish();
  EXPECT_THAT(actuator.calls, ElementsAre("emit gpu_lost", "emit gpu_unresponsive"));
  EXPECT_EQ(guard.UsageOf({7}).used, std::nullopt);
  Observe(1, 0, {{701, 900}});
  EXPECT_THAT(actuator.calls, testing::Contains("emit gpu_back"));
}

TEST_F(GuardTest, SetsAPeriodOnlyWhenItChanges) {
  guard.SetJob(Seven());
  Observe(0, 0, {});
  Observe(100, 0, {});
  Observe(200, 0, {{701, 500}});
  Observe(205, 0, {{701, 510}});
  Observe(3000, 0, {{701, 510}});
  EXPECT_THAT(periods, ElementsAre("GPU-0 100", "GPU-0 5", "GPU-0 100"));
}

TEST_F(GuardTest, LetsTheDaemonChangeJobsWhileItActs) {
  guard.SetJob(Seven());
  actuator.on_announce = [&](JobId job) { guard.RemoveJob(job); };
  Observe(0, 0, {{701, 1001}});
  EXPECT_THAT(actuator.calls, ElementsAre("announce 7 memory_limit", "signal 9 7", "emit hard_limit"));
}

TEST_F(GuardTest, ForgetsAGpuThatIsGone) {
  Observe(0, 1, {{701, 100}});
  guard.SetInventory({});
  EXPECT_EQ(guard.Find("GPU-1"), nullptr);
  Observe(1, 1, {{701, 100}});
  EXPECT_EQ(guard.Find("GPU-1"), nullptr);
}

}  // namespace
}  // namespace gpuman::guard
