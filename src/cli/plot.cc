#include "cli/plot.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>

#include "base/text.h"
#include "base/units.h"
#include "cli/local_time.h"

namespace gpuman::cli {
namespace {

constexpr std::size_t kAxis = 2;  // a space and the axis itself
constexpr std::size_t kBrailleColumns = 2, kBrailleLevels = 4;
constexpr std::string_view kAsciiLevels = " .:#";
constexpr std::size_t kAsciiSteps = kAsciiLevels.size() - 1;
// The dots of a braille character, column by column from the top.
constexpr std::array<std::array<std::uint32_t, kBrailleLevels>, kBrailleColumns> kDots{
    {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};

std::size_t ColumnsPerCell(const PlotOptions& form) { return form.unicode ? kBrailleColumns : 1; }
std::size_t LevelsOf(const PlotOptions& form) { return form.unicode ? kBrailleLevels : kAsciiSteps; }

// The values that a column has: more than one, or the one that it shares with its neighbours.
struct Span {
  std::size_t begin, end;
};
Span SpanOf(std::size_t column, std::size_t columns, std::size_t values) {
  const std::size_t begin = column * values / columns;
  return {begin, std::max(begin + 1, (column + 1) * values / columns)};
}

// How high a value is, in levels from the bottom; 0: the value is unknown, or 0.
std::size_t LevelOf(std::optional<double> value, const PlotOptions& form) {
  if (!value || !(*value > 0) || !(form.top > 0)) return 0;
  const auto most = static_cast<double>(form.height * LevelsOf(form));
  return static_cast<std::size_t>(std::clamp(std::round(*value / form.top * most), 1.0, most));
}

struct ColumnLevels {
  std::size_t filled = 0;  // levels up to the mean
  std::size_t dot = 0;     // level of the highest value; 0: none
};

ColumnLevels LevelsAt(const PlotValues& values, const Span& span, const PlotOptions& form) {
  double sum = 0;
  std::size_t known = 0;
  std::optional<double> highest;
  for (std::size_t i = span.begin; i < span.end && i < values.mean.size(); ++i) {
    if (values.mean[i]) {
      sum += *values.mean[i];
      ++known;
    }
    if (i < values.max.size() && values.max[i]) highest = std::max(highest.value_or(0), *values.max[i]);
  }
  if (known == 0) return {};
  return {LevelOf(sum / static_cast<double>(known), form), LevelOf(highest, form)};
}

void AddUtf8(std::string& out, std::uint32_t code) {  // of three bytes
  out += static_cast<char>(0xE0 | code >> 12);
  out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
  out += static_cast<char>(0x80 | (code & 0x3F));
}

// A cell whose lowest level is `base` + 1.
void AddBraille(std::string& out, const std::array<ColumnLevels, kBrailleColumns>& columns,
                std::size_t base) {
  std::uint32_t dots = 0;
  for (std::size_t x = 0; x < kBrailleColumns; ++x) {
    for (std::size_t y = 0; y < kBrailleLevels; ++y) {
      const std::size_t level = base + kBrailleLevels - y;
      if (level <= columns[x].filled || level == columns[x].dot) dots |= kDots[x][y];
    }
  }
  if (dots == 0)
    out += ' ';
  else
    AddUtf8(out, 0x2800 + dots);
}

void AddAscii(std::string& out, const ColumnLevels& column, std::size_t base) {
  const std::size_t filled = column.filled > base ? std::min(column.filled - base, kAsciiSteps) : 0;
  const bool dot = column.dot > base && column.dot <= base + kAsciiSteps;
  out += filled == 0 && dot ? '\'' : kAsciiLevels[filled];
}

std::string Area(const std::vector<ColumnLevels>& columns, const PlotOptions& form, std::size_t row) {
  const std::size_t base = (form.height - 1 - row) * LevelsOf(form);
  std::string text;
  for (std::size_t column = 0; column < PlotColumns(form); ++column) {
    if (form.unicode)
      AddBraille(text, {columns[2 * column], columns[2 * column + 1]}, base);
    else
      AddAscii(text, columns[column], base);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string Right(const std::string& text, std::size_t width) {
  const auto cut = Cut(text, width);
  return std::string(width - Width(cut), ' ') + cut;
}

std::string TimeText(base::WallTime time, base::Millis range) {
  const std::tm local = LocalTime(time);
  if (range <= std::chrono::minutes(30)) return fmt::format("{:%H:%M:%S}", local);
  if (range <= std::chrono::hours(24)) return fmt::format("{:%H:%M}", local);
  if (range <= std::chrono::hours(24 * 7)) return fmt::format("{:%m-%d %H:%M}", local);
  return fmt::format("{:%Y-%m-%d}", local);
}

}  // namespace

std::size_t PlotColumns(const PlotOptions& form) {
  const std::size_t axis = form.label + kAxis;
  return form.width > axis ? form.width - axis : 1;
}

std::size_t PlotPoints(const PlotOptions& form) { return PlotColumns(form) * ColumnsPerCell(form); }

std::vector<std::string> PlotRows(const PlotValues& values, const PlotOptions& form,
                                  const std::function<std::string(double)>& text,
                                  const TerminalStyle& style) {
  std::vector<ColumnLevels> columns(PlotPoints(form));
  for (std::size_t i = 0; i < columns.size() && !values.mean.empty(); ++i)
    columns[i] = LevelsAt(values, SpanOf(i, columns.size(), values.mean.size()), form);
  std::vector<std::string> rows;
  for (std::size_t row = 0; row < form.height; ++row) {
    const bool last = row + 1 == form.height;
    const bool labelled = row == 0 || last;
    const std::string label = labelled ? text(last && form.height > 1 ? 0 : form.top) : "";
    const char* const axis = form.unicode ? (labelled ? "┤" : "│") : (labelled ? "+" : "|");
    rows.push_back(fmt::format("{} {}{}", Paint(style, Color::kDim, Right(label, form.label)), axis,
                               Paint(style, form.color, Area(columns, form, row))));
  }
  return rows;
}

std::string PlotTimes(base::WallTime since, base::WallTime until, const PlotOptions& form) {
  const auto range = until - since;
  const std::size_t columns = PlotColumns(form);
  std::string line(columns, ' ');
  const auto put = [&](const std::string& label, std::size_t at) {
    if (label.size() <= columns) line.replace(std::min(at, columns - label.size()), label.size(), label);
  };
  const std::string first = TimeText(since, range), last = TimeText(until, range);
  const std::string middle = TimeText(since + range / 2, range);
  put(first, 0);
  if (columns >= first.size() + last.size() + 1) put(last, columns - last.size());
  if (columns >= first.size() + middle.size() + last.size() + 8) put(middle, (columns - middle.size()) / 2);
  line.erase(line.find_last_not_of(' ') + 1);
  return line.empty() ? line : std::string(form.label + kAxis, ' ') + line;
}

std::string PlotStrip(const std::string& label, const std::vector<std::vector<std::optional<double>>>& parts,
                      const std::vector<StripSymbol>& kinds, const PlotOptions& form,
                      const TerminalStyle& style) {
  const std::size_t columns = PlotColumns(form);
  const std::size_t moments = parts.empty() ? 0 : parts.front().size();
  std::string line, run;
  std::optional<std::size_t> run_kind;
  const auto end_run = [&] {
    line += run_kind ? Paint(style, kinds[*run_kind].color, run) : run;
    run.clear();
  };
  for (std::size_t column = 0; column < columns && moments > 0; ++column) {
    const Span span = SpanOf(column, columns, moments);
    std::optional<std::size_t> kind;
    double most = 0;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      double sum = 0;
      for (std::size_t i = span.begin; i < span.end && i < moments; ++i) sum += parts[k][i].value_or(0);
      if (sum > most) kind = k;
      most = std::max(most, sum);
    }
    if (kind != run_kind) end_run();
    run_kind = kind;
    run += !kind          ? std::string(" ")
           : form.unicode ? kinds[*kind].unicode
                          : std::string(1, kinds[*kind].ascii);
  }
  if (run_kind) end_run();  // nothing but a gap is at the end otherwise
  return fmt::format("{}  {}", Paint(style, Color::kDim, Right(label, form.label)), line);
}

double RoundTop(double value, double least) {
  if (!(value > least)) return least;
  double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0})
    if (factor * power >= value) return factor * power;
  return value;
}

bool ShowsUnicode(const base::EnvironmentLookup& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const auto value = base::LowerCase(environment(name).value_or(""));
    if (value.empty()) continue;
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace gpuman::cli
