#include "cli/top/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/text.h"
#include "cli/top/columns.h"
#include "cli/top/layout.h"
#include "cli/top/test_state.h"

namespace gpuman::cli::top {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Snapshot Machine(int gpus, int jobs) {
  Snapshot machine = TestMachine();
  machine.status.gpus.clear();
  machine.status.jobs.clear();
  machine.queue.emplace();
  for (int i = 0; i < gpus; ++i) machine.status.gpus.push_back(TestGpu(i));
  for (int i = 1; i <= jobs; ++i) {
    const auto state = i % 3 == 0 ? spec::JobState::kSuspended : spec::JobState::kRunning;
    machine.status.jobs.push_back(TestJob(i, fmt::format("job-{}", i), "ann", state, i % std::max(gpus, 1)));
    if (gpus > 0 && i <= 100)
      machine.status.gpus[static_cast<std::size_t>(i % gpus)].processes.push_back(
          TestProcess(i, "ann", 10, i));
    api::QueueRow row;
    row.id = 100'000 + i;
    row.tag = "waits";
    machine.queue->push_back(row);
  }
  return machine;
}

void ExpectToFit(const State& state) {
  const auto picture = Draw(state);
  EXPECT_EQ(picture.lines.size(), state.size.rows);
  for (const auto& line : picture.lines) {
    EXPECT_LE(line.width(), state.size.columns) << line.text();
    EXPECT_EQ(line.width(), Width(line.text())) << line.text();
  }
}

TEST(TopFrame, FitsEachSizeWithAnyNumberOfGpusAndJobs) {
  for (const Size size : {Size{80, 24}, Size{100, 30}, Size{300, 100}}) {
    for (const int gpus : {0, 1, 2, 8, 100}) {
      for (const int jobs : {0, 1, 40, 10'000}) {
        auto state = TestState(size, Machine(gpus, jobs));
        for (const char* page : {"1", "2", "3", "4"}) {
          Press(state, page);
          ExpectToFit(state);
          const auto layout = LayoutOf(state);
          EXPECT_GE(layout.list_rows, 4u) << size.rows << " " << gpus;
          EXPECT_TRUE(layout.titles && layout.status && layout.keys && layout.summary);
        }
        Press(state, "1");
        Press(state, Key::Code::kEnd);
        EXPECT_EQ(Screenful(state).find("\n> ") != std::string::npos, jobs > 0);
        Press(state, Key::Code::kEnter);
        ExpectToFit(state);
      }
    }
  }
}

TEST(TopFrame, DrawsWhatItCanInAnyWindow) {
  auto state = TestState({80, 24});
  state.problem = "these are old figures: the daemon cannot be reached";
  state.status.gpus[1].health = {"unhealthy", {"it is lost"}};
  for (std::size_t columns = 1; columns < 130; columns += 3) {
    for (std::size_t rows = 1; rows < 26; ++rows) {
      Update(state, Resized{{columns, rows}});
      ExpectToFit(state);
      Press(state, "s");
      ExpectToFit(state);
      EXPECT_TRUE(rows == 1 || columns < 12 || Screenful(state).find("suspend job") != std::string::npos);
      Press(state, "nh");
      ExpectToFit(state);
      Press(state, "x");
      Press(state, Key::Code::kEnter);
      ExpectToFit(state);
      Press(state, Key::Code::kEscape);
    }
  }
}

TEST(TopFrame, HasAPanelWithFiguresForEachGpu) {
  const auto texts = Texts(TestState({80, 24}));
  EXPECT_THAT(texts[0], StartsWith("gpuman top  [1 Jobs]  2 Queue   3 Sharing   4 Processes "));
  EXPECT_THAT(texts[1], StartsWith("Jobs: 2 running, 0 queued"));
  EXPECT_THAT(texts[2], AllOf(StartsWith("0   H200  healthy"), HasSubstr("70GiB/140GiB"), HasSubstr("UTIL "),
                              HasSubstr(" 42%"), HasSubstr("61C  312/700W")));
  EXPECT_THAT(texts[3],
              StartsWith("    FAN  n/a  SM     n/a  MEM     n/a  PCIE TX         n/a RX         n/a"));
  EXPECT_THAT(texts[4], AllOf(HasSubstr("mem "), HasSubstr("util "))) << "plots";
  EXPECT_THAT(texts, Contains(StartsWith("1   H200  healthy")));
}

TEST(TopFrame, HasTheLimitOfThePowerWhereThereIsRoom) {
  auto state = TestState({80, 24});
  state.status.gpus[1].power_limit_w.reset();
  EXPECT_THAT(Texts(state), Contains(AllOf(StartsWith("1   H200"), HasSubstr("61C      312W"))));
  for (auto& gpu : state.status.gpus) gpu.power_limit_w = 700;
  state.size = {78, 24};
  EXPECT_THAT(Texts(state)[2], AllOf(HasSubstr("MEM ███░░░ "), HasSubstr("61C  312W"))) << "bars come first";
  for (auto& gpu : state.status.gpus) gpu.name = "NVIDIA A100-SXM4-80GB";
  state.size = {80, 24};
  EXPECT_THAT(Texts(state)[2], AllOf(StartsWith("0   A100-SXM4… "), HasSubstr("61C  312/700W")));
}

TEST(TopFrame, HasTheUnitsOfAGpuWhereThereIsMoreRoom) {
  auto state = TestState({80, 24});
  state.status.gpus.pop_back();
  auto& gpu = state.status.gpus[0];
  EXPECT_THAT(Texts(state)[4], StartsWith("    PERF n/a  MBW  n/a  ENC  n/a  DEC  n/a  LINK       n/a"));
  gpu.performance_state = 0;
  gpu.utilization_memory = 40;
  gpu.encoder_percent = 0;
  gpu.decoder_percent = 100;
  gpu.pcie_generation = 5;
  gpu.pcie_lanes = 16;
  const std::string units = "PERF  P0  MBW  40%  ENC   0%  DEC 100%  LINK gen 5 x16";
  EXPECT_THAT(Texts(state)[3], StartsWith("    FAN  n/a"));
  EXPECT_THAT(Texts(state)[4], StartsWith("    " + units));
  EXPECT_THAT(Texts(state)[5], HasSubstr("mem "));
  state.size = {80, 16};
  EXPECT_THAT(Texts(state), Not(Contains(HasSubstr("MBW")))) << "plots come first";
  state.plots = false;
  EXPECT_THAT(Texts(state), Contains(HasSubstr(units)));
  state.size = {140, 16};
  EXPECT_THAT(Texts(state)[3], AllOf(StartsWith("    FAN  n/a"), HasSubstr("n/a  " + units)))
      << "beside each other";
}

TEST(TopFrame, HasTheVersionsOfDriverAndCudaWhereThereIsRoom) {
  auto state = TestState({120, 24});
  EXPECT_THAT(Texts(state)[0], Not(HasSubstr("CUDA"))) << "not known";
  state.status.driver_version = "580.159.04";
  state.status.cuda_version = "13.0";
  EXPECT_THAT(Texts(state)[0], AllOf(StartsWith("gpuman top "), HasSubstr("driver 580.159.04, CUDA 13.0")));
  state.filter = "a-filter-that-is-rather-long-for-a-line";
  EXPECT_THAT(Texts(state)[0], AllOf(HasSubstr("/a-filter-that"), Not(HasSubstr("CUDA"))));
  state.size = {80, 24};
  Press(state, "h");
  EXPECT_THAT(Texts(state)[0], HasSubstr("driver 580.159.04, CUDA 13.0")) << "help has room in any window";
}

TEST(TopFrame, HasTheUseOfTheGpuByEachProcessAndJob) {
  auto state = TestState({100, 30});
  EXPECT_THAT(Texts(state), Contains(AllOf(HasSubstr(" train "), HasSubstr(" n/a"))));
  state.status.gpus[0].processes[0].gpu_percent = 35;
  state.status.gpus[0].processes[1].gpu_percent = 0;
  const auto texts = Texts(state);
  EXPECT_THAT(texts, Contains(AllOf(HasSubstr(" train "), HasSubstr(" running   0     35% "))));
  EXPECT_THAT(texts, Contains(AllOf(HasSubstr("─ 11 "), HasSubstr(" 0     35% "))));
  EXPECT_THAT(texts, Contains(AllOf(HasSubstr("─ 12 "), HasSubstr(" 0      0% "))));
  Press(state, "4");
  EXPECT_THAT(Texts(state), Contains(AllOf(HasSubstr(" 11 "), HasSubstr(" 35% "))));
}

TEST(TopFrame, HasFanClocksAndPcieOfAGpuWhereThereIsRoom) {
  auto state = TestState({80, 24});
  auto& gpu = state.status.gpus[1];
  gpu.fan_percent = 45;
  gpu.sm_clock_mhz = 1980;
  gpu.memory_clock_mhz = 2619;
  gpu.pcie_sent = std::uint64_t{11} << 30;
  gpu.pcie_received = 0;
  const auto* const details = "    FAN  45%  SM 1980MHz  MEM 2619MHz  PCIE TX     11GiB/s RX        0B/s";
  EXPECT_THAT(Texts(state), Contains(StartsWith(details)));
  state.plots = false;
  EXPECT_THAT(Texts(state), Contains(StartsWith(details)));
  state.size = {60, 24};
  EXPECT_THAT(Texts(state), Not(Contains(HasSubstr("FAN")))) << "too narrow";
  state.plots = true;
  state.size = {80, 16};
  EXPECT_THAT(Texts(state), Not(Contains(HasSubstr("FAN")))) << "jobs come first";
}

TEST(TopFrame, HasPlotsBelowEachOtherAndBesideEachOther) {
  for (const std::size_t columns : {std::size_t{80}, std::size_t{200}}) {
    const auto state = TestState({columns, 40});
    const auto layout = LayoutOf(state);
    ASSERT_GT(layout.plot_rows, 1u);
    ASSERT_GT(layout.details, 0u);
    const auto texts = Texts(state);
    const auto column = [&](std::size_t row, std::size_t from) {
      const auto at = std::min(texts[row].find("┤", from), texts[row].find("│", from));
      return std::pair(at, Width(texts[row].substr(0, at)));
    };
    const std::size_t first = 3 + layout.details;
    const auto memory = column(first, 0);
    const auto utilization = column(first, memory.first + 1);
    for (std::size_t row = first + 1; row < first + layout.plot_rows; ++row) {
      EXPECT_EQ(column(row, 0).second, memory.second);
      EXPECT_EQ(column(row, column(row, 0).first + 1).second, utilization.second) << texts[row];
    }
  }
}

TEST(TopFrame, HasKeysAndHelpThatFit80Columns) {
  auto state = TestState({80, 24});
  state.host = HostFacts{10.5, 128, base::GiB(900), base::GiB(1000)};
  EXPECT_THAT(Screenful(state),
              AllOf(HasSubstr("e end\n"), HasSubstr("load 10.5 (128 CPUs), memory 900GiB/1000GiB\n")));
  Press(state, "h");
  const auto texts = Texts(state);
  for (const auto& text : texts) EXPECT_THAT(text, Not(HasSubstr("…")));
  EXPECT_THAT(texts, Contains(HasSubstr("gpuman health says what to do.")));
  Press(state, "x");
  Press(state, Key::Code::kEnter);
  EXPECT_THAT(Texts(state).back(), HasSubstr("e end"));
}

TEST(TopFrame, PlotsWhatItHasSeen) {
  auto state = TestState({80, 24});
  for (int i = 0; i < 20; ++i) Update(state, StatusCame{TestMachine()});
  EXPECT_THAT(Screenful(state), HasSubstr("⣿⣿⣿⣿⣿"));
  state.unicode = false;
  EXPECT_THAT(Screenful(state), AllOf(HasSubstr("#####"), Not(HasSubstr("⣿")), Not(HasSubstr("█"))));
  Press(state, "v");
  EXPECT_THAT(Screenful(state), Not(HasSubstr("util "))) << "plots are switched off";
}

TEST(TopFrame, SaysUnknownAndNotZero) {
  auto machine = TestMachine();
  auto& gpu = machine.status.gpus[1];
  gpu.memory.reset();
  gpu.utilization_gpu.reset();
  gpu.temperature_c.reset();
  gpu.power_w.reset();
  gpu.health = {"unhealthy", {"it is lost"}};
  machine.status.jobs[1].memory = {};
  const auto state = TestState({80, 24}, machine);
  const auto all = Screenful(state);
  EXPECT_THAT(all, HasSubstr("! GPU 1: it is lost"));
  const auto at = all.find("1   H200 !unhealthy");
  ASSERT_NE(at, all.npos) << all;
  const auto line = all.substr(at, all.find('\n', at) - at);
  EXPECT_THAT(line, AllOf(HasSubstr("n/a"), Not(HasSubstr("0%")), Not(HasSubstr("0C"))));
  for (const auto& text : Texts(state))
    EXPECT_TRUE(text.find(" bert ") == text.npos || text.find("n/a") != text.npos) << text;
}

TEST(TopFrame, NeverCutsHealth) {
  auto machine = TestMachine();
  for (auto& gpu : machine.status.gpus) {
    gpu.name = "NVIDIA RTX 6000 Ada Generation";
    gpu.health = {"unhealthy", {"Xid 79"}};
  }
  for (const std::size_t columns :
       {std::size_t{300}, std::size_t{100}, std::size_t{80}, std::size_t{40}, std::size_t{20}})
    EXPECT_THAT(Texts(TestState({columns, 24}, machine))[2], HasSubstr("unhealthy")) << columns;
}

TEST(TopFrame, PutsPanelsBesideEachOtherInAWideWindow) {
  const auto texts = Texts(TestState({300, 100}, Machine(8, 3)));
  EXPECT_THAT(texts[2], AllOf(StartsWith("0 "), HasSubstr("  1   H200"), HasSubstr("  3   H200")));
  const auto many = Texts(TestState({80, 24}, Machine(100, 3)));
  EXPECT_THAT(many, Contains(HasSubstr("more GPUs: a larger window")));
}

TEST(TopFrame, KeepsColumnsOfWideNames) {
  auto machine = TestMachine();
  machine.status.jobs[0].tag = "模型训练";
  machine.status.jobs[0].user = "Zoë";
  const auto state = TestState({100, 30}, machine);
  std::size_t wide = 0, narrow = 0;
  for (const auto& text : Texts(state)) {
    const auto column = [&] { return Width(text.substr(0, text.find("running"))); };
    if (text.find("模型训练") != text.npos) wide = column();
    if (text.find(" bert ") != text.npos && text.starts_with("> ")) narrow = column();
  }
  EXPECT_EQ(wide, narrow);
  EXPECT_GT(wide, 0u);
}

TEST(TopFrame, PassesNothingOnThatATerminalWouldObey) {
  auto machine = TestMachine();
  machine.status.jobs[0].tag = "evil\x1b]0;owned\x07";
  machine.status.jobs[1].command = {"\x1b[2J", "\xC2\x9B", "\xff"};
  machine.status.gpus[0].processes[0].command = {"\x1b[8m"};
  machine.status.gpus[0].health = {"unhealthy", {"\x1b[31m"}};
  auto state = TestState({300, 50}, machine);
  state.filter = "";
  for (const char* keys : {"1", "4", "1s"}) {
    Press(state, keys);
    EXPECT_THAT(Screenful(state),
                AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x07")), Not(HasSubstr("\xff"))));
  }
  Press(state, "n");
  Press(state, Key::Code::kEnter);
  Update(state, JobCame{state.job_page->job, TestJob(2, "\x1b[2J", "bob"), api::JobStory{},
                        std::string("\x1b]0;x\x07 \x1b[1mbold\x1b[0m")});
  EXPECT_THAT(Screenful(state), AllOf(Not(HasSubstr("\x1b")), HasSubstr("bold")));
}

TEST(TopFrame, TellsTheChosenRowWithoutColours) {
  auto state = TestState();
  EXPECT_THAT(Texts(state), Contains(StartsWith(">      2 bert")));
  Press(state, Key::Code::kDown);
  EXPECT_THAT(Texts(state), Contains(StartsWith("         └─ 21")).Times(0));
  EXPECT_THAT(Texts(state), Contains(StartsWith(">        └─ 21")));
}

TEST(TopFrame, SaysWhyThereAreNoGpus) {
  Snapshot machine;
  machine.status.driver_error = "no NVIDIA driver";
  EXPECT_THAT(Screenful(TestState({80, 24}, machine)), HasSubstr("No GPUs: no NVIDIA driver"));
}

TEST(TopColumns, LeaveOutTheLeastImportantFirst) {
  const auto has = [](std::size_t columns, ColumnKind field) {
    for (const auto& column : ColumnsOf(Page::kJobs, columns))
      if (column.field == field) return true;
    return false;
  };
  for (const auto field : {ColumnKind::kId, ColumnKind::kName, ColumnKind::kMemory})
    EXPECT_TRUE(has(10, field));
  EXPECT_TRUE(has(80, ColumnKind::kLimit) && has(80, ColumnKind::kUser) && has(80, ColumnKind::kState));
  EXPECT_FALSE(has(80, ColumnKind::kHostMemory));
  EXPECT_TRUE(has(150, ColumnKind::kHostMemory) && has(150, ColumnKind::kPeak) &&
              has(150, ColumnKind::kCommand));
  for (const auto page : kPages) {
    for (const std::size_t columns : {std::size_t{80}, std::size_t{100}, std::size_t{300}}) {
      std::size_t width = 1;
      for (const auto& column : ColumnsOf(page, columns)) width += column.width + 1;
      EXPECT_EQ(width, columns) << "all of the window is used";
    }
  }
}

}  // namespace
}  // namespace gpuman::cli::top
