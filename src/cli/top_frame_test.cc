#include "cli/top_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace gpuman::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

api::ProcessView Process(int pid, const char* user, std::uint64_t mebibytes,
                         std::optional<std::int64_t> job = {}) {
  api::ProcessView process;
  process.pid = pid;
  process.user = user;
  process.memory = base::MiB(mebibytes);
  process.job = job;
  if (job) process.tag = "t" + std::to_string(*job);
  process.command = {"python", "train.py", "--pid", std::to_string(pid)};
  return process;
}

TopView Machine() {
  TopView view;
  api::GpuView gpu;
  gpu.index = 0;
  gpu.name = "NVIDIA H200";
  gpu.memory = api::MemoryView{base::GiB(140), base::GiB(70), base::GiB(70), base::Bytes{}};
  gpu.utilization_gpu = 42;
  gpu.temperature_c = 61;
  gpu.power_w = 312.4;
  gpu.processes = {Process(30, "ann", 100, 2), Process(10, "eve", 900), Process(20, "bob", 500, 1)};
  view.status.gpus.push_back(gpu);
  gpu.index = 1;
  gpu.memory.reset();
  gpu.utilization_gpu.reset();
  gpu.temperature_c.reset();
  gpu.power_w.reset();
  gpu.health = {"unhealthy", {"it is lost"}};
  gpu.processes.clear();
  view.status.gpus.push_back(gpu);
  for (const auto state : {spec::JobState::kRunning, spec::JobState::kQueued, spec::JobState::kQueued,
                           spec::JobState::kHeld, spec::JobState::kFinished}) {
    api::JobView job;
    job.id = static_cast<std::int64_t>(view.status.jobs.size()) + 1;
    job.started_at = base::WallTime(std::chrono::seconds(job.id));
    job.state = state;
    if (state == spec::JobState::kQueued) job.reason = "resources";
    view.status.jobs.push_back(job);
  }
  view.now = base::WallTime(std::chrono::seconds(3600 + 120 + 3));
  return view;
}

std::vector<std::string> Texts(const TopView& view, std::size_t columns) {
  std::vector<std::string> texts;
  for (const auto& line : TopLines(view, columns)) texts.push_back(line.text);
  return texts;
}

std::vector<std::string> Pids(TopView view, TopOrder order, std::size_t columns = 100) {
  view.order = order;
  std::vector<std::string> pids;
  for (const auto& line : TopLines(view, columns))
    if (const auto at = line.text.find("--pid "); at != line.text.npos)
      pids.push_back(line.text.substr(at + 6));
  return pids;
}

TEST(Top, ShowsGpusThenWhatWaitsThenProcesses) {
  ::setenv("TZ", "CET-1", 1);
  ::tzset();
  const auto texts = Texts(Machine(), 100);
  ASSERT_EQ(texts.size(), 10u);
  EXPECT_EQ(texts[0], "gpuman top  02:02:03  processes by memory");
  EXPECT_THAT(texts[1], StartsWith("GPU  NAME"));
  EXPECT_THAT(texts[2], AllOf(HasSubstr("[#####     ]  42%"), HasSubstr("[#####     ] 70GiB / 140GiB"),
                              HasSubstr("61C"), HasSubstr("312W"), HasSubstr("healthy")));
  EXPECT_THAT(texts[3], AllOf(HasSubstr("n/a"), HasSubstr("unhealthy"), Not(HasSubstr("0%"))));
  EXPECT_EQ(texts[4], "GPU 1: it is lost");
  EXPECT_EQ(texts[5], "Jobs: 1 running, 2 queued (2 resources), 1 held");
  EXPECT_THAT(texts[6], HasSubstr("PID"));
  EXPECT_THAT(texts[7], AllOf(HasSubstr("eve"), HasSubstr("900MiB"), HasSubstr("python train.py --pid 10")));
  EXPECT_THAT(texts[8], AllOf(HasSubstr("bob"), HasSubstr("t1")));
}

// The daemon's answer has no reason for the waiting job.
TEST(Top, MakesUpNoReasonForWhatWaits) {
  TopView view = Machine();
  for (auto& job : view.status.jobs) job.reason.reset();
  EXPECT_EQ(Texts(view, 100)[5], "Jobs: 1 running, 2 queued, 1 held");
}

TEST(Top, ColorsAGpuByItsHealth) {
  const auto lines = TopLines(Machine(), 100);
  EXPECT_EQ(lines[0].color, Color::kBold);
  EXPECT_EQ(lines[3].color, Color::kRed);
  EXPECT_EQ(lines[4].color, Color::kRed);
  EXPECT_NE(lines[2].color, Color::kRed);
}

TEST(Top, SortsProcesses) {
  using ::testing::ElementsAre;
  EXPECT_THAT(Pids(Machine(), TopOrder::kMemory), ElementsAre("10", "20", "30"));
  EXPECT_THAT(Pids(Machine(), TopOrder::kUser), ElementsAre("30", "20", "10"));
  EXPECT_THAT(Pids(Machine(), TopOrder::kJob), ElementsAre("20", "30", "10"));
  EXPECT_THAT(Pids(Machine(), TopOrder::kPid), ElementsAre("10", "20", "30"));
  EXPECT_THAT(Pids(Machine(), TopOrder::kAge), ElementsAre("20", "30", "10")) << "of no job: the last";
  auto machine = Machine();
  machine.status.gpus[1].utilization_gpu = 43;
  machine.status.gpus[1].processes = {Process(40, "ann", 1)};
  EXPECT_THAT(Pids(machine, TopOrder::kUtilization), ElementsAre("40", "30", "10", "20"));
}

TEST(Top, FitsAnyWidth) {
  for (std::size_t columns = 1; columns < 130; columns += 3)
    for (const auto& line : TopLines(Machine(), columns)) EXPECT_LE(Width(line.text), columns) << line.text;
}

TEST(Top, NeverCutsHealth) {
  auto view = Machine();
  view.status.gpus[0].name = "NVIDIA RTX 6000 Ada Generation";
  view.status.gpus[0].memory = api::MemoryView{base::Bytes{150'754'820'096}, base::Bytes{132'554'820'096},
                                               base::GiB(17), base::Bytes{}};
  view.status.gpus[1].health = {"unhealthy",
                                {"Xid 79: the GPU has fallen off the bus, and nothing can use it until "
                                 "the machine has been started again (reported 3 times)"}};
  for (const std::size_t columns :
       {std::size_t{120}, std::size_t{80}, std::size_t{60}, std::size_t{40}, std::size_t{30}}) {
    const auto texts = Texts(view, columns);
    EXPECT_THAT(texts[1], ::testing::EndsWith("HEALTH")) << columns;
    EXPECT_THAT(texts[2], ::testing::EndsWith("healthy")) << columns;
    EXPECT_THAT(texts[3], ::testing::EndsWith("unhealthy")) << columns;
    std::string all;
    for (const auto& text : texts) all += text + " ";
    EXPECT_THAT(all, HasSubstr("times)")) << columns;
  }
  EXPECT_THAT(Texts(view, 80)[2], AllOf(HasSubstr("42%"), HasSubstr("/ 140.4GiB"), HasSubstr("312W")));
  EXPECT_THAT(Texts(view, 120)[2], HasSubstr("[#####     ]  42%"));
}

TEST(Top, PassesNothingOnThatATerminalWouldObey) {
  auto view = Machine();
  view.status.gpus[0].processes[0].command = {"evil\x1b]0;owned\x07", "ü\xff"};
  for (const auto& text : Texts(view, 100)) {
    EXPECT_EQ(text.find('\x1b'), text.npos);
    EXPECT_EQ(text.find('\x07'), text.npos);
    EXPECT_EQ(text.find('\xff'), text.npos);
  }
}

TEST(Top, SaysWhyThereAreNoGpus) {
  TopView view;
  view.status.driver_error = "no NVIDIA driver";
  const auto texts = Texts(view, 80);
  EXPECT_EQ(texts[1], "No GPUs: no NVIDIA driver");
  EXPECT_EQ(texts[2], "Jobs: 0 running, 0 queued");
}

TEST(TopOrders, EveryOrderReadsBackFromItsWord) {
  for (const auto order : {TopOrder::kMemory, TopOrder::kUtilization, TopOrder::kAge, TopOrder::kUser,
                           TopOrder::kJob, TopOrder::kPid})
    EXPECT_EQ(TopOrderFromString(ToString(order)), order);
  EXPECT_FALSE(TopOrderFromString("size"));
}

}  // namespace
}  // namespace gpuman::cli
