#include "daemon/core/views.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using base::GiB;
using base::MiB;

gpu::Inventory TwoGpus() {
  gpu::Inventory inventory;
  inventory.gpus = {{0, "GPU-a", "A", "0", GiB(8)}, {1, "GPU-b", "B", "1", GiB(4)}};
  return inventory;
}

TEST(JobView, AJobWithoutGpusOfItsOwnHasAllOfThem) {
  jobs::Job job;
  EXPECT_EQ(JobViewOf(job, {}, TwoGpus(), "/l").gpus, (std::vector<std::string>{"GPU-a", "GPU-b"}));
  job.gpus = {"GPU-b"};
  EXPECT_EQ(JobViewOf(job, {}, TwoGpus(), "/l").gpus, std::vector<std::string>{"GPU-b"});
}

TEST(JobView, TheCommandIsTheUsersAlsoInACondaEnvironment) {
  const std::vector<std::string> own{"python", "train.py"};
  jobs::Job job;
  job.command = own;
  job.spec.Change([](auto& spec) { spec.conda_env = "torch"; });
  EXPECT_EQ(JobViewOf(job, {}, TwoGpus(), "/l").command, own)
      << "of an earlier daemon, which wrapped otherwise";
  job.command = jobs::InConda("torch", own);
  EXPECT_EQ(JobViewOf(job, {}, TwoGpus(), "/l").command, own);
  job.spec.Change([](auto& spec) { spec.conda_env.reset(); });
  EXPECT_EQ(JobViewOf(job, {}, TwoGpus(), "/l").command.size(), 7u) << "the user wrote it like that";
}

TEST(JobView, AListShowsTheBeginningOfALongCommand) {
  jobs::Job job;
  job.command = std::vector<std::string>(40, std::string(130'000, '\x01'));
  const auto listed = JobViewOf(job, {}, TwoGpus(), "/l", JobDetail::kListed);
  EXPECT_TRUE(listed.cut);
  ASSERT_EQ(listed.command.size(), 1u);
  EXPECT_LE(listed.command.front().size(), kListedCommand + 3);
  const auto whole = JobViewOf(job, {}, TwoGpus(), "/l");
  EXPECT_FALSE(whole.cut);
  EXPECT_EQ(whole.command, job.command);
  EXPECT_TRUE(IsLong(whole));
  EXPECT_FALSE(IsLong(listed));
  job.command = {"python", "train.py"};
  const auto usual = JobViewOf(job, {}, TwoGpus(), "/l", JobDetail::kListed);
  EXPECT_FALSE(usual.cut);
  EXPECT_EQ(usual.command.size(), 2u);
}

TEST(JobView, AListShowsTheBeginningOfOtherLongTexts) {
  api::JobView view;
  view.directory = std::string(100'000, '/');
  view.reason_detail = std::string(100'000, 'r');
  view.notes = std::vector<std::string>(1000, std::string(100'000, 'n'));
  view.unshimmed = std::vector<int>(100'000, 1);
  ShortenForList(view);
  EXPECT_TRUE(view.cut);
  EXPECT_LE(view.directory.size(), kListedText + 3);
  EXPECT_LE(view.reason_detail->size(), kListedText + 3);
  EXPECT_EQ(view.notes.size(), kListedElements);
  EXPECT_LE(view.notes.front().size(), kListedText + 3);
  EXPECT_EQ(view.unshimmed->size(), kListedElements);
}

TEST(JobView, AJobWithVeryManyDependenciesIsLong) {
  api::JobView view;
  EXPECT_FALSE(IsLong(view));
  view.queue.emplace().asked.depends.list.resize(100'000);
  EXPECT_TRUE(IsLong(view));
}

TEST(JobView, APercentageIsShownForTheSmallestOfItsGpus) {
  jobs::Job job;
  job.spec.Change([](auto& spec) { spec.memory = base::SizeSpec{{}, 50}; });
  EXPECT_EQ(JobViewOf(job, {}, TwoGpus(), "/l").memory.limit, GiB(2));
  job.gpus = {"GPU-a"};
  EXPECT_EQ(JobViewOf(job, {}, TwoGpus(), "/l").memory.limit, GiB(4));
  EXPECT_EQ(JobViewOf(job, {}, {}, "/l").memory.limit, std::nullopt) << "unknown, not 0";
}

TEST(JobView, UsageIsUnknownUntilMeasuredAndGoneWhenTheJobHasEnded) {
  jobs::Job job;
  job.state = spec::JobState::kRunning;
  EXPECT_EQ(JobViewOf(job, {}, {}, "/l").memory.used, std::nullopt);
  guard::JobUsage usage;
  usage.used = MiB(5);
  usage.peak = MiB(9);
  EXPECT_EQ(JobViewOf(job, usage, {}, "/l").memory.used, MiB(5));
  job.state = spec::JobState::kFailed;
  job.peak = MiB(10);
  EXPECT_EQ(JobViewOf(job, usage, {}, "/l").memory.used, std::nullopt);
  EXPECT_EQ(JobViewOf(job, usage, {}, "/l").memory.peak, MiB(10));
}

class NoProcesses final : public base::ProcessTable {
 public:
  explicit NoProcesses(std::vector<std::string> command = {}) : command_(std::move(command)) {}
  std::optional<base::ProcessInfo> Find(pid_t) const override { return std::nullopt; }
  std::vector<base::ProcessInfo> List() const override { return {}; }
  std::optional<uid_t> Owner(pid_t) const override { return std::nullopt; }
  std::vector<std::string> CommandLine(pid_t) const override { return command_; }
  std::optional<std::string> Environment(pid_t, std::string_view) const override { return std::nullopt; }

 private:
  std::vector<std::string> command_;
};

api::GpuView View(const guard::GpuStatus& status, std::vector<std::string> command = {}) {
  return GpuViewOf(
      status, NoProcesses(std::move(command)), [](uid_t uid) { return std::to_string(uid); },
      [](base::JobId) { return std::optional<std::string>("tag"); });
}

TEST(GpuView, AGpuThatWasNotSampledYetIsUnknown) {
  guard::GpuStatus status;
  const auto view = View(status);
  EXPECT_EQ(view.memory, std::nullopt);
  EXPECT_EQ(view.temperature_c, std::nullopt);
  EXPECT_EQ(view.fan_percent, std::nullopt);
  EXPECT_EQ(view.pcie_sent, std::nullopt);
  EXPECT_EQ(view.power_limit_w, std::nullopt);
  EXPECT_EQ(view.performance_state, std::nullopt);
  EXPECT_EQ(view.encoder_percent, std::nullopt);
  EXPECT_EQ(view.pcie_generation, std::nullopt);
}

TEST(GpuView, HasDetailsThatWereRead) {
  guard::GpuStatus status;
  status.sample.taken_at = base::MonoTime(std::chrono::seconds(1));
  status.sample.details.fan_percent = 30;
  status.sample.details.sm_clock_mhz = 1980;
  status.sample.details.memory_clock_mhz = 2619;
  status.sample.details.pcie_sent = 1000;
  status.sample.details.pcie_received = 2000;
  status.sample.details.power_limit_w = 700;
  status.sample.details.performance_state = 0;
  status.sample.details.encoder_percent = 5;
  status.sample.details.decoder_percent = 6;
  status.sample.details.process_percent = {{10, 75}, {11, 0}};
  status.sample.health.pcie_generation = 5;
  status.sample.health.pcie_lanes = 16;
  status.processes = {{{10, 1}}, {{11, 1}}, {{12, 1}}};
  const auto view = View(status);
  EXPECT_EQ(view.fan_percent, 30u);
  EXPECT_EQ(view.sm_clock_mhz, 1980u);
  EXPECT_EQ(view.memory_clock_mhz, 2619u);
  EXPECT_EQ(view.pcie_sent, 1000u);
  EXPECT_EQ(view.pcie_received, 2000u);
  EXPECT_EQ(view.power_limit_w, 700);
  EXPECT_EQ(view.performance_state, 0u);
  EXPECT_EQ(view.encoder_percent, 5u);
  EXPECT_EQ(view.decoder_percent, 6u);
  EXPECT_EQ(view.pcie_generation, 5u);
  EXPECT_EQ(view.pcie_lanes, 16u);
  ASSERT_EQ(view.processes.size(), 3u);
  EXPECT_EQ(view.processes[0].gpu_percent, 75u);
  EXPECT_EQ(view.processes[1].gpu_percent, 0u);
  EXPECT_EQ(view.processes[2].gpu_percent, std::nullopt) << "it came after the look at them";
}

TEST(GpuView, AnInstanceSaysWhatItIsAPartOf) {
  guard::GpuStatus status;
  status.gpu = {0, "MIG-a", "NVIDIA H200 MIG 1g.18gb", "", GiB(16)};
  status.gpu.mig = gpu::Instance{"GPU-a", 1, 7, 0, "1g.18gb"};
  const auto view = View(status);
  EXPECT_EQ(view.index, std::nullopt);
  EXPECT_EQ(view.number, "0:1");
  ASSERT_TRUE(view.mig);
  EXPECT_EQ(view.mig->parent, "GPU-a");
  EXPECT_EQ(view.mig->gpu_instance, 7u);
  EXPECT_EQ(view.mig->profile, "1g.18gb");
}

TEST(GpuView, ALostGpuShowsWhyAndNoFigures) {
  guard::GpuStatus status;
  status.sample.taken_at = base::MonoTime(std::chrono::seconds(1));
  status.sample.state = gpu::GpuReachability::kLost;
  status.sample.error = "the GPU has fallen off the bus";
  status.sample.memory = gpu::GpuMemoryInfo{GiB(8), {}, {}, {}};
  const auto view = View(status);
  EXPECT_EQ(view.memory, std::nullopt);
}

TEST(GpuView, TheCommandOfAProcessIsCut) {
  guard::GpuStatus status;
  status.sample.taken_at = base::MonoTime(std::chrono::seconds(1));
  status.processes = {{{10, 1}}};
  const auto process = View(status, {"python", std::string(1'000'000, '\x01')}).processes.at(0);
  EXPECT_TRUE(process.cut);
  EXPECT_EQ(process.command.size(), 2u);
  EXPECT_LE(process.command.back().size(), kListedCommand + 3);
  EXPECT_FALSE(View(status, {"python"}).processes.at(0).cut);
}

TEST(GpuView, ProcessesCarryTheirJobAndWhatIsUnknownStaysUnknown) {
  guard::GpuStatus status;
  status.sample.taken_at = base::MonoTime(std::chrono::seconds(1));
  status.processes = {{{10, 1}, base::JobId{7}, 1000, "python", gpu::ProcessKind::kCompute, MiB(1)},
                      {{11, 0}}};
  const auto view = View(status);
  ASSERT_EQ(view.processes.size(), 2u);
  EXPECT_EQ(view.processes[0].job, 7);
  EXPECT_EQ(view.processes[0].tag, "tag");
  EXPECT_EQ(view.processes[0].user, "1000");
  EXPECT_EQ(view.processes[1].job, std::nullopt);
  EXPECT_EQ(view.processes[1].user, std::nullopt);
  EXPECT_EQ(view.processes[1].memory, std::nullopt);
}

}  // namespace
}  // namespace gpuman::daemon
