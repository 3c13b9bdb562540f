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
    job.state = state;
    if (state == spec::JobState::kQueued) job.reason = "resources";
    view.status.jobs.push_back(job);
  }
  view.now = base::WallTime(std::chrono::seconds(3600 + 120 + 3));
  return view;
}

std::vector<std::string> Texts(const TopView& view, const TopSize& size) {
  std::vector<std::string> texts;
  for (const auto& line : TopLines(view, size)) texts.push_back(line.text);
  return texts;
}

std::vector<std::string> Pids(TopView view, TopOrder order, const TopSize& size = {100, {}}) {
  view.order = order;
  std::vector<std::string> pids;
  for (const auto& line : TopLines(view, size))
    if (const auto at = line.text.find("--pid "); at != line.text.npos)
      pids.push_back(line.text.substr(at + 6));
  return pids;
}

TEST(Top, ShowsGpusThenWhatWaitsThenProcesses) {
  ::setenv("TZ", "CET-1", 1);
  ::tzset();
  const auto texts = Texts(Machine(), {100, {}});
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
  EXPECT_EQ(Texts(view, {100, {}})[5], "Jobs: 1 running, 2 queued, 1 held");
}

TEST(Top, ColorsAGpuByItsHealth) {
  const auto lines = TopLines(Machine(), {100, {}});
  EXPECT_EQ(lines[0].color, Color::kBold);
  EXPECT_EQ(lines[3].color, Color::kRed);
  EXPECT_EQ(lines[4].color, Color::kRed);
  EXPECT_NE(lines[2].color, Color::kRed);
}

TEST(Top, SortsProcessesInFourWays) {
  using ::testing::ElementsAre;
  EXPECT_THAT(Pids(Machine(), TopOrder::kMemory), ElementsAre("10", "20", "30"));
  EXPECT_THAT(Pids(Machine(), TopOrder::kUser), ElementsAre("30", "20", "10"));
  EXPECT_THAT(Pids(Machine(), TopOrder::kJob), ElementsAre("20", "30", "10"));
  EXPECT_THAT(Pids(Machine(), TopOrder::kPid), ElementsAre("10", "20", "30"));
}

TEST(Top, ScrollsNoFurtherThanTheLastPage) {
  using ::testing::ElementsAre;
  auto view = Machine();
  const TopSize size{100, 10};  // room for two of three processes
  EXPECT_THAT(Pids(view, TopOrder::kPid, size), ElementsAre("10", "20"));
  view.skip = 1;
  EXPECT_THAT(Pids(view, TopOrder::kPid, size), ElementsAre("20", "30"));
  EXPECT_EQ(LastPage(view, size), 1u);
  EXPECT_EQ(LastPage(view, {100, {}}), 0u);
  EXPECT_EQ(LastPage(view, {100, 3}), 3u) << "no room at all";
  view.skip = 1000;
  EXPECT_THAT(Pids(view, TopOrder::kPid, size), ElementsAre("20", "30"));
}

TEST(Top, FitsAnySizeOfTheWindow) {
  auto view = Machine();
  view.problem = "the daemon cannot be reached; this is what was seen last";
  view.skip = 1;
  for (std::size_t columns = 1; columns < 130; columns += 3) {
    for (std::size_t rows = 1; rows < 16; ++rows) {
      const auto lines = TopLines(view, {columns, rows});
      EXPECT_LE(lines.size(), rows);
      for (const auto& line : lines) EXPECT_LE(Width(line.text), columns) << line.text;
    }
  }
}

TEST(Top, ShowsItsKeysOnTheLastRowOfAWindow) {
  const auto lines = TopLines(Machine(), {80, 24});
  ASSERT_EQ(lines.size(), 24u);
  EXPECT_THAT(lines.back().text, AllOf(StartsWith("Keys: q quit, h help"), HasSubstr("space refresh")));
  EXPECT_THAT(lines.back().text, Not(HasSubstr("…")));
  EXPECT_THAT(Texts(Machine(), {80, {}}).back(), Not(HasSubstr("Keys"))) << "of a pipe";
  EXPECT_THAT(Texts(Machine(), {80, 5}).back(), Not(HasSubstr("Keys"))) << "no room";
}

TEST(Top, ExplainsItsKeys) {
  auto view = Machine();
  view.help = true;
  const auto texts = Texts(view, {80, 24});
  EXPECT_EQ(texts.size(), 24u);
  EXPECT_EQ(texts[0], "gpuman top: keys");
  EXPECT_THAT(texts, ::testing::Contains("  h, ?               this help; any key leaves it"));
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
    const auto texts = Texts(view, {columns, 24});
    EXPECT_THAT(texts[1], ::testing::EndsWith("HEALTH")) << columns;
    EXPECT_THAT(texts[2], ::testing::EndsWith("healthy")) << columns;
    EXPECT_THAT(texts[3], ::testing::EndsWith("unhealthy")) << columns;
    std::string all;
    for (const auto& text : texts) all += text + " ";
    EXPECT_THAT(all, HasSubstr("times)")) << columns;
  }
  EXPECT_THAT(Texts(view, {80, 24})[2], AllOf(HasSubstr("42%"), HasSubstr("/ 140.4GiB"), HasSubstr("312W")));
  EXPECT_THAT(Texts(view, {120, 24})[2], HasSubstr("[#####     ]  42%"));
}

TEST(Top, SaysThatItIsOld) {
  auto view = Machine();
  view.problem = "the daemon cannot be reached";
  const auto lines = TopLines(view, {100, {}});
  EXPECT_EQ(lines[1], (TopLine{"the daemon cannot be reached", Color::kRed}));
}

TEST(Top, PassesNothingOnThatATerminalWouldObey) {
  auto view = Machine();
  view.status.gpus[0].processes[0].command = {"evil\x1b]0;owned\x07", "ü\xff"};
  for (const auto& text : Texts(view, {100, {}})) {
    EXPECT_EQ(text.find('\x1b'), text.npos);
    EXPECT_EQ(text.find('\x07'), text.npos);
    EXPECT_EQ(text.find('\xff'), text.npos);
  }
}

TEST(Top, SaysWhyThereAreNoGpus) {
  TopView view;
  view.status.driver_error = "no NVIDIA driver";
  const auto texts = Texts(view, {80, {}});
  EXPECT_EQ(texts[1], "No GPUs: no NVIDIA driver");
  EXPECT_EQ(texts[2], "Jobs: 0 running, 0 queued");
}

TEST(TopOrders, HaveWords) {
  for (const auto order : {TopOrder::kMemory, TopOrder::kUser, TopOrder::kJob, TopOrder::kPid})
    EXPECT_EQ(TopOrderFromString(ToString(order)), order);
  EXPECT_FALSE(TopOrderFromString("size"));
}

}  // namespace
}  // namespace gpuman::cli
