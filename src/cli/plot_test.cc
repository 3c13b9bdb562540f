#include "cli/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/units.h"

namespace gpuman::cli {
namespace {

using testing::ElementsAre;
using Values = std::vector<std::optional<double>>;

std::string Percent(double value) { return fmt::format("{:.0f}%", value); }

PlotOptions Form(std::size_t columns, std::size_t height, bool unicode) {
  PlotOptions form;
  form.label = 4;
  form.width = columns + 6;
  form.height = height;
  form.unicode = unicode;
  return form;
}

TEST(PlotRows, FillUpToTheMeanAndDotTheHighest) {
  const PlotValues values{{0, 25, 50, 100}, {0, 25, 100, 100}};
  EXPECT_THAT(PlotRows(values, Form(2, 2, true), Percent, {}), ElementsAre("100% ┤ ⢹", "  0% ┤⢠⣿"));
}

TEST(PlotRows, LeaveAGapEmptyAndShowTheSmallestValue) {
  const PlotValues values{{1, std::nullopt, std::nullopt, 1}, {}};
  EXPECT_THAT(PlotRows(values, Form(2, 1, true), Percent, {}), ElementsAre("100% ┤⡀⢀"));
}

TEST(PlotRows, HaveNothingButAsciiWhereThatIsWanted) {
  const PlotValues values{{0, 10, 20, 50, 100, std::nullopt}, {0, 10, 90, 50, 100, std::nullopt}};
  EXPECT_THAT(PlotRows(values, Form(6, 2, false), Percent, {}), ElementsAre("100% +  ' #", "  0% + ..##"));
}

TEST(PlotRows, StretchFewValuesAndMergeMany) {
  EXPECT_THAT(PlotRows({{100}, {}}, Form(3, 1, true), Percent, {}), ElementsAre("100% ┤⣿⣿⣿"));
  EXPECT_THAT(PlotRows({{100, 0, 100, 0, 0, 0, 0, 0}, {}}, Form(1, 1, true), Percent, {}),
              ElementsAre("100% ┤⡄"));
  EXPECT_THAT(PlotRows({}, Form(3, 2, true), Percent, {}), ElementsAre("100% ┤", "  0% ┤"));
}

TEST(PlotRows, CutWhatIsAboveTheTop) {
  EXPECT_THAT(PlotRows({{500}, {900}}, Form(1, 1, true), Percent, {}), ElementsAre("100% ┤⣿"));
}

TEST(PlotRows, AreNeverWiderThanTheForm) {
  for (const std::size_t width : {1u, 7u, 8u, 79u, 80u}) {
    for (const bool unicode : {true, false}) {
      PlotOptions form = Form(1, 3, unicode);
      form.width = width;
      const PlotValues values{Values(1000, 100), Values(1000, 100)};
      for (const auto& row : PlotRows(values, form, Percent, {}))
        EXPECT_LE(Width(row), std::max<std::size_t>(width, 7));
    }
  }
}

TEST(PlotStrip, ShowsOfEachMomentTheStateOfMostTime) {
  const std::vector<StripSymbol> kinds{{"█", 'R', Color::kGreen}, {"░", 'w', Color::kYellow}};
  const std::vector<Values> parts{{1, 0.6, 0.4, std::nullopt, 1}, {0, 0.4, 0.6, std::nullopt, 0}};
  EXPECT_EQ(PlotStrip("st", parts, kinds, Form(5, 1, true), {}), "  st  ██░ █");
  EXPECT_EQ(PlotStrip("st", parts, kinds, Form(5, 1, false), {}), "  st  RRw R");
  TerminalStyle style;
  style.color = true;
  EXPECT_THAT(PlotStrip("st", parts, kinds, Form(5, 1, false), style),
              testing::HasSubstr("\033[32mRR\033[0m\033[33mw\033[0m \033[32mR\033[0m"));
}

TEST(PlotTimes, StandAtTheEndsAndInTheMiddle) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  const base::WallTime since = *base::ParseIso8601("2026-11-27T10:00:00.000Z");
  const auto text = [&](base::Millis range, std::size_t columns) {
    return PlotTimes(since, since + range, Form(columns, 1, true));
  };
  EXPECT_EQ(text(std::chrono::hours(2), 30), "      10:00       11:00        12:00");
  EXPECT_EQ(text(std::chrono::minutes(5), 20), "      10:00:00    10:05:00");
  EXPECT_EQ(text(std::chrono::hours(24 * 30), 24), "      2026-11-27    2026-12-27");
  EXPECT_EQ(text(std::chrono::hours(2), 3), "");
}

TEST(RoundTop, IsTheNextRoundNumber) {
  EXPECT_EQ(RoundTop(0, 50), 50);
  EXPECT_EQ(RoundTop(51, 50), 100);
  EXPECT_EQ(RoundTop(487, 50), 500);
  EXPECT_EQ(RoundTop(1001, 50), 2000);
}

TEST(ShowsUnicode, WhereTheLocaleSaysSo) {
  const auto with = [](const char* name, const char* value) {
    return ShowsUnicode([=](const char* asked) -> std::optional<std::string> {
      if (std::string_view(asked) == name) return value;
      return std::nullopt;
    });
  };
  EXPECT_TRUE(with("LANG", "de_DE.UTF-8"));
  EXPECT_TRUE(with("LC_ALL", "C.utf8"));
  EXPECT_FALSE(with("LC_CTYPE", "POSIX"));
  EXPECT_FALSE(with("NOTHING", ""));
}

}  // namespace
}  // namespace gpuman::cli
