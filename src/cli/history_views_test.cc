#include "cli/history_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

api::HistoryView Job() {
  api::HistoryView history;
  history.job = 7;
  history.tag = "train";
  history.since = *base::ParseIso8601("2026-11-27T10:00:00.000Z");
  history.step = base::Millis(10'000);
  history.resolution = base::Millis(10'000);
  history.until = history.since + 4 * history.step;
  history.memory_limit = base::GiB(8);
  history.recorded = {1, 0.5, 0, 1};
  constexpr std::int64_t kGiB = 1 << 30;
  history.memory = {
      {kGiB, 2 * kGiB, std::nullopt, 0}, {kGiB, kGiB, std::nullopt, 0}, {kGiB, 3 * kGiB, std::nullopt, 0}};
  const std::vector<std::optional<double>> unknown(4);
  history.utilization = {{50, 97.25, std::nullopt, std::nullopt},
                         {50, 90, std::nullopt, std::nullopt},
                         {50, 100, std::nullopt, std::nullopt}};
  history.power_w = history.temperature_c = {unknown, unknown, unknown};
  history.states = {{1, 0.5, std::nullopt, 0}, {0, 0.5, std::nullopt, 0}, {0, 0, std::nullopt, 1}};
  return history;
}

TerminalStyle Wide(std::size_t width, bool color = false) {
  TerminalStyle style;
  style.width = width;
  style.color = color;
  return style;
}

TEST(RenderHistory, PlotsWhatIsKnownOfAJobWithItsStates) {
  const auto text = RenderHistory(Job(), Wide(90), {});
  EXPECT_THAT(text, HasSubstr("job 7 train  2026-11-27"));
  EXPECT_THAT(text, HasSubstr(", 10s a point\nmemory  last 0B, highest 3GiB\n    8GiB ┤\n"));
  EXPECT_THAT(text, HasSubstr("utilization  last 97%, highest 100%\n    100% ┤"));
  EXPECT_THAT(text, Not(HasSubstr("power")));
  EXPECT_THAT(text, HasSubstr("   state  ██████████"));
  EXPECT_THAT(text, HasSubstr("█ running 50%   ░ waiting for its turn 10%   _ suspended 40%\n"));
}

TEST(RenderHistory, CanBeReadWithoutUnicodeAndWithoutColour) {
  const auto text = RenderHistory(Job(), Wide(90), {false, 3});
  for (const char c : text) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(text, HasSubstr("R running 50%   w waiting for its turn 10%   _ suspended 40%\n"));
}

TEST(RenderHistory, IsColouredWhereTheTerminalIs) {
  EXPECT_THAT(RenderHistory(Job(), Wide(50, true), {}), HasSubstr("\033[32m"));
}

TEST(RenderHistory, IsNoWiderThanTheTerminal) {
  for (const std::size_t width : {30u, 50u, 80u, 120u}) {
    const auto text = RenderHistory(Job(), Wide(width), {});
    std::size_t begin = text.find('\n') + 1;  // the title may be longer
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const auto row = text.substr(begin, end - begin);
      EXPECT_LE(Width(row), std::max<std::size_t>(width, 36)) << row;
    }
  }
}

TEST(RenderHistory, SaysThatNothingWasRecorded) {
  auto history = Job();
  history.recorded = {0, 0, 0, 0};
  EXPECT_THAT(RenderHistory(history, Wide(80), {}), HasSubstr("Nothing was recorded in this time.\n"));
}

TEST(RenderHistory, NamesAGpuByItsNumberOrElseItsUuid) {
  auto history = Job();
  history.job.reset();
  history.tag.reset();
  history.states.reset();
  history.gpu = "GPU-1234";
  EXPECT_THAT(RenderHistory(history, Wide(80), {}), testing::StartsWith("GPU GPU-1234  "));
  history.gpu_number = "0:1";
  EXPECT_THAT(RenderHistory(history, Wide(80), {}), testing::StartsWith("GPU 0:1  "));
}

TEST(HistoryPoints, FillTheWidth) {
  EXPECT_EQ(HistoryPoints(Wide(80), {}), 140);
  EXPECT_EQ(HistoryPoints(Wide(80), {false, 4}), 70);
  EXPECT_EQ(HistoryPoints({}, {}), 140);
  EXPECT_LE(HistoryPoints(Wide(10'000), {}), api::kMaxHistoryPoints);
}

TEST(RenderHistoryCsv, HasARowForEachBucketWithNothingWhereNothingIsKnown) {
  EXPECT_EQ(HistoryCsvHead(),
            "gpu,job,tag,time,recorded,memory_mean,memory_min,memory_max,utilization_mean,utilization_min,"
            "utilization_max,power_w_mean,power_w_min,power_w_max,temperature_c_mean,temperature_c_min,"
            "temperature_c_max,"
            "running,waiting,suspended\n");
  EXPECT_EQ(
      RenderHistoryCsv(Job()),
      ",7,train,2026-11-27T10:00:00.000Z,1,1073741824,1073741824,1073741824,50,50,50,,,,,,,1,0,0\n"
      ",7,train,2026-11-27T10:00:10.000Z,0.5,2147483648,1073741824,3221225472,97.25,90,100,,,,,,,0.5,0.5,0\n"
      ",7,train,2026-11-27T10:00:20.000Z,0,,,,,,,,,,,,,,,\n"
      ",7,train,2026-11-27T10:00:30.000Z,1,0,0,0,,,,,,,,,,0,0,1\n");
}

}  // namespace
}  // namespace gpuman::cli
