#include "cli/history_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/plot.h"
#include "cli/queue/when.h"

namespace gpuman::cli {
namespace {

using Numbers = std::vector<std::optional<double>>;

constexpr std::size_t kUsualWidth = 80, kMinWidth = 30, kMaxWidth = 240;
constexpr std::size_t kLabel = 8;

PlotOptions FormOf(const TerminalStyle& style, const HistoryPlotOptions& form) {
  PlotOptions plot;
  plot.width = std::clamp(style.width.value_or(kUsualWidth), kMinWidth, kMaxWidth);
  plot.height = form.height;
  plot.label = kLabel;
  plot.unicode = form.unicode;
  return plot;
}

Numbers AsNumbers(const std::vector<std::optional<std::int64_t>>& values) {
  Numbers numbers;
  numbers.reserve(values.size());
  for (const auto& value : values)
    numbers.push_back(value ? std::optional(static_cast<double>(*value)) : std::nullopt);
  return numbers;
}

template <typename T>
std::optional<T> Highest(const std::vector<std::optional<T>>& values) {
  std::optional<T> highest;
  for (const auto& value : values)
    if (value) highest = std::max(highest.value_or(*value), *value);
  return highest;
}

// Returns the value of the last bucket in which it is known.
std::optional<double> Last(const Numbers& values) {
  const auto known =
      std::find_if(values.rbegin(), values.rend(), [](const auto& value) { return value.has_value(); });
  return known == values.rend() ? std::nullopt : *known;
}

std::string BytesText(double value) {
  return base::FormatBytes({static_cast<std::uint64_t>(std::max(0.0, std::round(value)))});
}

struct Figure {
  std::string name;
  Numbers mean, max;
  double top = 100;
  std::function<std::string(double)> text;
  Color color = Color::kNone;
};

Figure MemoryOf(const api::HistoryView& history) {
  Figure figure{"memory",     AsNumbers(history.memory.mean), AsNumbers(history.memory.max), 0, BytesText,
                Color::kGreen};
  const double highest = Highest(figure.max).value_or(0);
  const double limit = history.memory_limit ? static_cast<double>(history.memory_limit->count) : 0;
  figure.top = std::max({highest, limit, static_cast<double>(base::MiB(1).count)});
  return figure;
}

Figure FigureOf(std::string name, const api::HistoryFigures& figures, double least, const char* unit,
                Color color) {
  Figure figure{std::move(name), figures.mean, figures.max, 0, {}, color};
  figure.top = RoundTop(Highest(figures.max).value_or(0), least);
  figure.text = [unit](double value) { return fmt::format("{:.0f}{}", value, unit); };
  return figure;
}

std::string Plot(const Figure& figure, const PlotOptions& form, const TerminalStyle& style) {
  const auto last = Last(figure.mean), highest = Highest(figure.max);
  if (!highest) return {};
  PlotOptions own = form;
  own.top = figure.top;
  own.color = figure.color;
  std::string text = fmt::format("{}  last {}, highest {}\n", Paint(style, Color::kBold, figure.name),
                                 last ? figure.text(*last) : std::string(kUnknown), figure.text(*highest));
  for (const auto& row : PlotRows({figure.mean, figure.max}, own, figure.text, style)) text += row + "\n";
  return text;
}

double PartOf(const Numbers& parts, const std::vector<double>& recorded) {
  double part = 0, all = 0;
  for (std::size_t i = 0; i < parts.size() && i < recorded.size(); ++i) {
    if (!parts[i]) continue;
    part += *parts[i] * recorded[i];
    all += recorded[i];
  }
  return all > 0 ? part / all : 0;
}

std::string States(const api::HistoryView& history, const PlotOptions& form, const TerminalStyle& style) {
  const std::vector<StripSymbol> kinds{
      {"█", 'R', Color::kGreen}, {"░", 'w', Color::kYellow}, {"_", '_', Color::kCyan}};
  const std::vector<Numbers> parts{history.states->running, history.states->waiting,
                                   history.states->suspended};
  const std::vector<std::string> names{"running", "waiting for its turn", "suspended"};
  std::string text = PlotStrip("state", parts, kinds, form, style);
  std::size_t column = form.width;  // where the legend goes on; a new line where it does not fit
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::string mark = form.unicode ? kinds[i].unicode : std::string(1, kinds[i].ascii);
    const std::string words = fmt::format(" {} {:.0f}%", names[i], PartOf(parts[i], history.recorded) * 100);
    const std::string begin(column + 3 + Width(mark + words) > form.width ? kLabel + 2 : 3, ' ');
    if (begin.size() > 3) {
      text += "\n";
      column = 0;
    }
    text += fmt::format("{}{}{}", begin, Paint(style, kinds[i].color, mark), words);
    column += begin.size() + Width(mark + words);
  }
  return text + "\n";
}

std::string NameOf(const api::HistoryView& history) {
  if (history.gpu_number) return "GPU " + *history.gpu_number;
  if (history.gpu) return "GPU " + *history.gpu;
  const std::string id = fmt::format("job {}", history.job.value_or(0));
  return history.tag ? id + " " + Printable(*history.tag) : id;
}

bool IsEmpty(const api::HistoryView& history) {
  return std::all_of(history.recorded.begin(), history.recorded.end(), [](double part) { return part == 0; });
}

}  // namespace

std::int64_t HistoryPoints(const TerminalStyle& style, const HistoryPlotOptions& form) {
  return static_cast<std::int64_t>(PlotPoints(FormOf(style, form)));
}

std::string RenderHistory(const api::HistoryView& history, const TerminalStyle& style,
                          const HistoryPlotOptions& form) {
  std::string text = fmt::format("{}  {} to {}, {} a point\n", Paint(style, Color::kBold, NameOf(history)),
                                 queue::FormatLocal(history.since), queue::FormatLocal(history.until),
                                 base::FormatDuration(history.step));
  if (IsEmpty(history)) return text + "Nothing was recorded in this time.\n";
  const PlotOptions plot = FormOf(style, form);
  text += Plot(MemoryOf(history), plot, style);
  if (history.states) text += States(history, plot, style);
  text += Plot(FigureOf("utilization", history.utilization, 100, "%", Color::kCyan), plot, style);
  text += Plot(FigureOf("power", history.power_w, 50, "W", Color::kYellow), plot, style);
  text += Plot(FigureOf("temperature", history.temperature_c, 100, "C", Color::kRed), plot, style);
  return text + PlotTimes(history.since, history.until, plot) + "\n";
}

std::string HistoryCsvHead() {
  std::string head = "gpu,job,tag,time,recorded";
  for (const char* figure : {"memory", "utilization", "power_w", "temperature_c"})
    head += fmt::format(",{0}_mean,{0}_min,{0}_max", figure);
  return head + ",running,waiting,suspended\n";
}

std::string RenderHistoryCsv(const api::HistoryView& history) {
  std::string text;
  const auto add = [&text](const auto& value) {
    text += ',';
    if (value) text += fmt::format("{}", *value);
  };
  for (std::size_t i = 0; i < history.recorded.size(); ++i) {
    text += history.gpu.value_or("");
    add(history.job);
    add(history.tag);
    text += fmt::format(",{},{}",
                        base::FormatIso8601(history.since + static_cast<std::int64_t>(i) * history.step),
                        history.recorded[i]);
    const auto figures = [&](const auto& numbers) {
      add(numbers.mean[i]);
      add(numbers.min[i]);
      add(numbers.max[i]);
    };
    figures(history.memory);
    figures(history.utilization);
    figures(history.power_w);
    figures(history.temperature_c);
    const api::HistoryStateFractions none{Numbers(i + 1), Numbers(i + 1), Numbers(i + 1)};
    const auto& states = history.states ? *history.states : none;
    add(states.running[i]);
    add(states.waiting[i]);
    add(states.suspended[i]);
    text += '\n';
  }
  return text;
}

}  // namespace gpuman::cli
