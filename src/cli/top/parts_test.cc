// The small parts of `gpuman top`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/text.h"
#include "cli/top/bars.h"
#include "cli/top/log_lines.h"
#include "cli/top/mouse.h"
#include "cli/top/picture.h"
#include "cli/top/plot_history.h"
#include "cli/top/process_facts.h"
#include "cli/top/test_state.h"

namespace gpuman::cli::top {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Values = std::vector<std::optional<double>>;
constexpr auto kGap = std::nullopt;
using std::chrono::seconds;

TEST(TopSeries, KeepsItsLastPointsAndGaps) {
  TimeSeries series;
  EXPECT_EQ(series.Last(2, 5), (Values{kGap, kGap}));
  series.Put(3, 1);
  series.Put(4, 2);
  series.Put(6, 3);
  EXPECT_EQ(series.Last(6, 6), (Values{kGap, kGap, 1, 2, kGap, 3}));
  EXPECT_EQ(series.Last(3, 8), (Values{3, kGap, kGap})) << "nothing came after it";
  for (Point point = 7; point <= 2 * kPointsKept; ++point) series.Put(point, static_cast<double>(point));
  const auto all = series.Last(kPointsKept + 1, 2 * kPointsKept);
  EXPECT_EQ(all.front(), kGap) << "forgotten";
  EXPECT_EQ(all[1], kPointsKept + 1);
  EXPECT_EQ(all.back(), 2 * kPointsKept);
  series.Put(9 * kPointsKept, 7);
  EXPECT_EQ(series.Last(2, 9 * kPointsKept), (Values{kGap, 7})) << "after a long gap";
}

TEST(TopSamples, HaveAGapWhereTheDaemonDidNotAnswer) {
  PlotHistory samples;
  const auto machine = TestMachine();
  samples.Add(machine.status, {}, machine.at);
  samples.AddGap();
  samples.Add(machine.status, {}, machine.at);
  EXPECT_EQ(samples.Gpu("GPU-0")->memory.Last(3, samples.now()), (Values{0.5, kGap, 0.5}));
  EXPECT_EQ(samples.Gpu("GPU-9"), nullptr);
  EXPECT_NE(samples.Job(1), nullptr);
  EXPECT_EQ(samples.Job(3), nullptr) << "it had ended before";
}

// Four buckets of 2 s, the last of which ends with the history.
api::HistoryView TestHistory() {
  api::HistoryView history;
  history.since = base::WallTime(std::chrono::seconds(1000));
  history.until = base::WallTime(std::chrono::seconds(1008));
  history.step = base::Millis(2000);
  history.memory_limit = base::Bytes{1000};
  history.memory.mean = {100, std::nullopt, 300, 400};
  history.utilization.mean = {10, 20, std::nullopt, 40};
  return history;
}

TEST(TopSamples, BeginWithWhatTheDaemonRecorded) {
  PlotHistory samples;
  const auto machine = TestMachine();
  samples.Add(machine.status, {}, machine.at);
  samples.Add(machine.status, {}, machine.at);
  auto history = TestHistory();
  history.gpu = "GPU-0";
  samples.AddBefore(history, base::Millis(1000));
  EXPECT_EQ(samples.Gpu("GPU-0")->memory.Last(11, samples.now()),
            (Values{kGap, 0.1, 0.1, kGap, kGap, 0.3, 0.3, 0.4, 0.4, 0.5, 0.5}));
  EXPECT_EQ(samples.Gpu("GPU-0")->utilization.Last(10, samples.now()),
            (Values{0.1, 0.1, 0.2, 0.2, kGap, kGap, 0.4, 0.4, 0.42, 0.42}));
  samples.AddGap();
  samples.Add(machine.status, {}, machine.at);
  EXPECT_EQ(samples.Gpu("GPU-0")->memory.Last(6, samples.now()), (Values{0.4, 0.4, 0.5, 0.5, kGap, 0.5}));
  EXPECT_EQ(samples.Gpu("GPU-1")->memory.Last(5, samples.now()), (Values{kGap, 0.5, 0.5, kGap, 0.5}));
}

TEST(TopSamples, HaveOnePointForEachIntervalAlsoOfTheTimeBefore) {
  PlotHistory samples;
  samples.Add(TestMachine().status, {}, {});
  auto history = TestHistory();
  history.gpu = "GPU-0";
  samples.AddBefore(history, base::Millis(4000));
  EXPECT_EQ(samples.Gpu("GPU-0")->memory.Last(4, samples.now()), (Values{kGap, kGap, 0.4, 0.5}));
}

TEST(TopSamples, BeginWithWhatAJobHadAndDid) {
  PlotHistory samples;
  samples.Add(TestMachine().status, {}, {});
  auto history = TestHistory();
  history.job = 1;
  history.states.emplace();
  history.states->suspended = {0.0, std::nullopt, 0.75, 0.25};
  samples.AddBefore(history, base::Millis(2000));
  const auto* const job = samples.Job(1);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->memory.Last(4, samples.now() - 1), (Values{100, kGap, 300, 400}));
  const double running = static_cast<double>(spec::JobState::kRunning),
               suspended = static_cast<double>(spec::JobState::kSuspended);
  EXPECT_EQ(job->state.Last(5, samples.now()), (Values{running, kGap, suspended, running, running}));
}

TEST(TopSamples, HaveNothingBeforeOfWhatIsNotSeenOrNotRecorded) {
  PlotHistory samples;
  samples.Add(TestMachine().status, {}, {});
  auto history = TestHistory();
  history.job = 99;
  samples.AddBefore(history, base::Millis(1000));
  EXPECT_EQ(samples.Job(99), nullptr);
  api::HistoryView empty;
  empty.gpu = "GPU-0";
  empty.memory_limit = base::Bytes{0};
  samples.AddBefore(empty, base::Millis(1000));
  EXPECT_EQ(samples.Gpu("GPU-0")->memory.Last(2, samples.now()), (Values{kGap, 0.5}));
}

TEST(TopSamples, ForgetWhatIsLongGone) {
  PlotHistory samples;
  auto machine = TestMachine();
  samples.Add(machine.status, {}, machine.at);
  machine.status = {};
  for (std::size_t i = 0; i <= kPointsKept; ++i) samples.Add(machine.status, {}, machine.at);
  EXPECT_EQ(samples.Gpu("GPU-0"), nullptr);
  EXPECT_EQ(samples.Job(1), nullptr);
}

TEST(TopSamples, HaveThePartOfTheTimeThatAJobHadItsTurn) {
  PlotHistory samples;
  api::ShareView share;
  share.gpus.resize(1);
  share.gpus[0].uuid = "GPU-0";
  share.gpus[0].jobs.resize(1);
  auto& job = share.gpus[0].jobs[0];
  job.id = 1;
  job.in_run_set = true;
  const auto at = [](int millis) { return base::WallTime(base::Millis(1'000'000 + millis)); };
  const auto add = [&](int millis, int had) {
    job.had_turn = base::Millis(had);
    samples.Add({}, share, at(millis));
  };
  add(0, 5000);
  add(1000, 5250);
  add(2000, 5250);
  samples.Add({}, {}, at(3000));
  add(4000, 9000);
  add(5000, 10);  // the daemon began anew
  EXPECT_EQ(samples.Turns("GPU-0", 1)->Last(6, samples.now()), (Values{1, 0.25, 0, kGap, 1, 1}));
  EXPECT_EQ(samples.Turns("GPU-0", 2), nullptr);
}

TEST(TopBar, IsFullAndEmptyOnlyWhereItIsSo) {
  for (const bool unicode : {true, false}) {
    for (double part = 0; part <= 1; part += 1.0 / 64) EXPECT_EQ(Width(Bar(part, 9, unicode)), 9u) << part;
    EXPECT_NE(Bar(0.999, 9, unicode), Bar(1, 9, unicode));
    EXPECT_NE(Bar(1e-9, 9, unicode), Bar(0, 9, unicode));
    EXPECT_EQ(Bar(0.5, 0, unicode), "");
  }
  EXPECT_EQ(Bar(0.5, 4, true), "██░░");
  EXPECT_EQ(Bar(0.5, 4, false), "##..");
  EXPECT_EQ(Bar(7, 2, false), "##");
}

TEST(TopStrip, TellsWhatIsNotKnownFromNothing) {
  EXPECT_EQ(Strip(Values{0, 0.5, kGap, 1}, true), "▁▅ █");
  EXPECT_EQ(Strip(Values{0, 0.5, kGap, 1}, false), "_+ #");
}

TEST(TopMouse, ReadsPressesAndTheWheel) {
  const auto read = [](std::string_view text) {
    MouseReader reader;
    reader.Begin();
    std::optional<MouseEvent> sign;
    for (const char c : text) sign = reader.Feed(c);
    EXPECT_FALSE(reader.reading()) << text;
    return sign.value_or(MouseEvent{MouseEvent::Kind::kOther, 12345, 0});
  };
  using Kind = MouseEvent::Kind;
  EXPECT_EQ(read("0;5;10M"), (MouseEvent{Kind::kPress, 4, 9}));
  EXPECT_EQ(read("16;300;100M"), (MouseEvent{Kind::kPress, 299, 99})) << "with Control";
  EXPECT_EQ(read("0;5;10m"), (MouseEvent{Kind::kOther, 4, 9})) << "released";
  EXPECT_EQ(read("2;5;10M").kind, Kind::kOther) << "another button";
  EXPECT_EQ(read("32;5;10M").kind, Kind::kOther) << "moved";
  EXPECT_EQ(read("64;1;1M").kind, Kind::kWheelUp);
  EXPECT_EQ(read("65;1;1M").kind, Kind::kWheelDown);
  for (const char* bad : {"M", ";;M", "0;5M", "0;5;10;3M", "0;0;0M", "0;5;99999999999999M", "0;5;1x",
                          "00000000000000000000000000000000000000"})
    EXPECT_EQ(read(std::string_view(bad).substr(0, 33)), MouseEvent{}) << bad;
}

TEST(TopLogLines, AreWhatATerminalWouldShow) {
  EXPECT_THAT(LogLines("a\nb"), ElementsAre("a", "b"));
  EXPECT_THAT(LogLines("a\n\n"), ElementsAre("a", ""));
  EXPECT_THAT(LogLines(""), IsEmpty());
  EXPECT_THAT(LogLines(" 10%\r 50%\r100%\r\n"), ElementsAre("100%")) << "a progress bar";
  EXPECT_THAT(LogLines("\033[31mred\033[0m\ttab\n\033]0;title\007x\033]8;;u\033\\y"),
              ElementsAre("red    tab", "xy"));
  EXPECT_THAT(LogLines("\033[31"), ElementsAre("")) << "a sequence that is cut";
  EXPECT_THAT(LogLines("\033"), ElementsAre(""));
  EXPECT_THAT(LogLines("a\x01\xff"), ElementsAre("a??"));
}

TEST(TopProcessFacts, AreReadFromStat) {
  const auto facts = ParseFacts("42 (a) b) S 1 42 42 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 1000 9999 256 0",
                                seconds(60), {100, 4096});
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->id, (base::ProcessId{42, 1000}));
  EXPECT_EQ(facts->used, base::Millis(2000));
  EXPECT_EQ(facts->resident, base::MiB(1));
  EXPECT_EQ(facts->age, base::Millis(50'000));
  EXPECT_FALSE(facts->cpu);
  for (const char* bad :
       {"", "42", "42 (a) S 1 42", "42 (a) S 1 42 42 0 -1 0 0 0 0 0 x 50 0 0 20 0 1 0 1000 9999 256"})
    EXPECT_FALSE(ParseFacts(bad, seconds(60), {})) << bad;
}

TEST(TopHostFacts, AreReadFromProc) {
  const std::string memory = "MemTotal:       2048 kB\nMemFree:  1 kB\nMemAvailable:    512 kB\n";
  const auto host = ParseHost("1.50 1.00 0.50 1/100 4711\n", memory, 8);
  ASSERT_TRUE(host);
  EXPECT_EQ(host->load, 1.5);
  EXPECT_EQ(host->used, base::KiB(1536));
  EXPECT_EQ(host->total, base::MiB(2));
  EXPECT_FALSE(ParseHost("", memory, 8));
  EXPECT_FALSE(ParseHost("1.5", "MemTotal: 5 kB\n", 8));
  EXPECT_TRUE(ReadHostFacts());
}

TEST(TopProcessFacts, OfThisProcessAreThere) {
  ProcessReader reader;
  EXPECT_FALSE(reader.Read({::getpid()}).at(::getpid()).cpu) << "one look tells nothing about use";
  const auto facts = reader.Read({::getpid(), -5});
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_TRUE(facts.at(::getpid()).cpu);
  EXPECT_GT(facts.at(::getpid()).resident.count, 0u);
}

TEST(TopLine, CutsAndPadsToColumns) {
  Line line;
  line.Add("ab", Ink::kBad).Add("模型", Ink::kGood);
  EXPECT_EQ(line.width(), 6u);
  EXPECT_EQ(Line(line).PadTo(8).text(), "ab模型  ");
  EXPECT_EQ(Line(line).CutTo(5).text(), "ab模…");
  EXPECT_EQ(Line(line).CutTo(4).text(), "ab… ") << "half of a character is none";
  EXPECT_EQ(Line(line).CutTo(2).text(), "a…");
  EXPECT_EQ(Line(line).CutTo(0).text(), "");
  EXPECT_EQ(Line(line).CutTo(5).width(), 5u);
}

TEST(TopWrapped, BreaksAtBlanks) {
  EXPECT_THAT(Wrapped("one two three", 8), ElementsAre("one two", "three"));
  EXPECT_THAT(Wrapped("an endless one", 4), ElementsAre("an", "endl", "ess", "one"))
      << "a longer word is broken";
  EXPECT_THAT(Wrapped("", 4), ElementsAre(""));
}

}  // namespace
}  // namespace gpuman::cli::top
