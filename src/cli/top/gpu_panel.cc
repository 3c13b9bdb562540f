#include "cli/top/gpu_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cli/text.h"
#include "cli/top/bars.h"

namespace gpuman::cli::top {
namespace {

// The parts that the line of a GPU has.
struct Form {
  bool percentage = false, power_limit = false, bars = false, sensors = false, figures = false;
};
// From the widest to the narrowest.
constexpr std::array<Form, 7> kForms{{{true, true, true, true, true},
                                      {false, true, true, true, true},
                                      {false, false, true, true, true},
                                      {false, true, false, true, true},
                                      {false, false, false, true, true},
                                      {false, false, false, false, true},
                                      {}}};
constexpr std::size_t kMinBar = 5, kMaxBar = 40;
constexpr double kNearlyFull = 0.95;

std::string_view ShortName(const api::GpuView& gpu) {
  constexpr std::string_view kMaker = "NVIDIA ";
  std::string_view name = gpu.name;
  if (name.starts_with(kMaker)) name.remove_prefix(kMaker.size());
  return name;
}

// The same width for all GPUs, so that their figures are below each other.
std::size_t WidthOfNames(const State& state, std::size_t columns) {
  constexpr std::size_t kMin = 4, kMax = 24;
  std::size_t longest = kMin;
  for (const auto& gpu : state.status.gpus) longest = std::max(longest, Width(Printable(ShortName(gpu))));
  return std::min(longest, std::clamp(columns / 8, kMin, kMax));
}

Ink HealthInk(std::string_view health) {
  if (health == "healthy") return Ink::kGood;
  return health == "unhealthy" ? Ink::kBad : Ink::kWarning;
}

// A bar of a part that is not known is empty space.
Span BarOf(const State& state, const std::optional<double>& part, std::size_t width, Ink ink) {
  if (!part) return {std::string(width, ' ')};
  return {Bar(*part, width, state.unicode),
          *part >= kNearlyFull && ink == Ink::kMemory ? Ink::kWarning : ink};
}

// "487W", "487/700W"
std::string PowerText(const api::GpuView& gpu, bool limit) {
  if (!limit) return fmt::format("{:>5}", Rounded(gpu.power_w, "W"));
  return fmt::format("{:>9}", gpu.power_w && gpu.power_limit_w
                                  ? fmt::format("{:.0f}/{:.0f}W", *gpu.power_w, *gpu.power_limit_w)
                                  : Rounded(gpu.power_w, "W"));
}

// The line with bars of that width; 0: without bars.
Line GpuLine(const State& state, const api::GpuView& gpu, const Form& form, std::size_t name,
             std::size_t bar) {
  Line line;
  constexpr std::size_t kNumber = 3, kHealth = 9;
  line.Add(Fit(api::NumberOf(gpu), kNumber), Ink::kTitle).Add(" ");
  line.Add(Fit(Printable(ShortName(gpu)), name)).Add(" ");
  // Health comes before what may be cut.
  line.Add(gpu.health.state == "healthy" ? " " : "!", HealthInk(gpu.health.state));
  line.Add(Fit(gpu.health.state, kHealth), HealthInk(gpu.health.state)).Add(" ");
  if (form.figures) {
    const auto used = UsedPart(gpu);
    line.Add("MEM ", Ink::kDim);
    if (bar > 0) {
      const auto span = BarOf(state, used, bar, Ink::kMemory);
      line.Add(span.text, span.ink).Add(" ");
    }
    if (form.percentage)
      line.Add(fmt::format("{:>4} ", used ? fmt::format("{:.0f}%", *used * 100) : std::string(kUnknown)));
    line.Add(fmt::format("{:>17}", gpu.memory ? fmt::format("{}/{}", base::FormatBytes(gpu.memory->used),
                                                            base::FormatBytes(gpu.memory->total))
                                              : std::string(kUnknown)));
    line.Add("  ").Add("UTIL ", Ink::kDim);
    const auto utilization = gpu.utilization_gpu ? std::optional(*gpu.utilization_gpu / 100.0) : std::nullopt;
    if (bar > 0) {
      const auto span = BarOf(state, utilization, bar, Ink::kUtilization);
      line.Add(span.text, span.ink).Add(" ");
    }
    line.Add(fmt::format("{:>4}", Rounded(gpu.utilization_gpu, "%")));
  }
  if (form.sensors)
    line.Add(fmt::format("  {:>4} {}", Rounded(gpu.temperature_c, "C"), PowerText(gpu, form.power_limit)));
  return line;
}

Line FittingLine(const State& state, const api::GpuView& gpu, std::size_t columns) {
  const auto name = WidthOfNames(state, columns);
  for (const auto& form : kForms) {
    const auto fixed = GpuLine(state, gpu, form, name, 0).width() + (form.bars ? 2 : 0);
    if (fixed + (form.bars ? 2 * kMinBar : 0) > columns) continue;
    const auto bar = form.bars ? std::min(kMaxBar, (columns - fixed) / 2) : 0;
    return GpuLine(state, gpu, form, name, bar);
  }
  Line line;
  line.Add(api::NumberOf(gpu) + " ", Ink::kTitle).Add(gpu.health.state, HealthInk(gpu.health.state));
  return line;
}

std::string PerSecond(const std::optional<std::uint64_t>& bytes) {
  return bytes ? base::FormatBytes({*bytes}) + "/s" : std::string(kUnknown);
}

std::string LinkText(const api::GpuView& gpu) {
  if (!gpu.pcie_generation || !gpu.pcie_lanes) return std::string(kUnknown);
  return fmt::format("gen {} x{}", *gpu.pcie_generation, *gpu.pcie_lanes);
}

void AddFigure(Line& line, std::string_view title, const std::string& value) {
  line.Add(title, Ink::kDim).Add(value);
}

// Where the lines of details begin.
constexpr std::string_view kDetailsIndent = "    ";

// Returns the figures that nobody needs in order to judge the GPU's state. They have the same width for all
// GPUs.
Line SpeedsOf(const api::GpuView& gpu) {
  Line line;
  AddFigure(line, "FAN ", fmt::format("{:>4}", Rounded(gpu.fan_percent, "%")));
  AddFigure(line, "  SM ", fmt::format("{:>7}", Rounded(gpu.sm_clock_mhz, "MHz")));
  AddFigure(line, "  MEM ", fmt::format("{:>7}", Rounded(gpu.memory_clock_mhz, "MHz")));
  AddFigure(line, "  PCIE TX ", fmt::format("{:>11}", PerSecond(gpu.pcie_sent)));
  AddFigure(line, " RX ", fmt::format("{:>11}", PerSecond(gpu.pcie_received)));
  return line;
}

Line UnitsOf(const api::GpuView& gpu) {
  Line line;
  AddFigure(line, "PERF ",
            fmt::format("{:>3}", gpu.performance_state ? fmt::format("P{}", *gpu.performance_state)
                                                       : std::string(kUnknown)));
  AddFigure(line, "  MBW ", fmt::format("{:>4}", Rounded(gpu.utilization_memory, "%")));
  AddFigure(line, "  ENC ", fmt::format("{:>4}", Rounded(gpu.encoder_percent, "%")));
  AddFigure(line, "  DEC ", fmt::format("{:>4}", Rounded(gpu.decoder_percent, "%")));
  AddFigure(line, "  LINK ", fmt::format("{:>9}", LinkText(gpu)));
  return line;
}

// The first `rows` lines of details.
std::vector<Line> DetailsLines(const api::GpuView& gpu, std::size_t columns, std::size_t rows) {
  std::vector<Line> lines;
  if (rows == 0) return lines;
  lines.push_back(Line().Add(kDetailsIndent).Add(SpeedsOf(gpu)));
  if (DetailsRows(columns) == 1)
    lines.back().Add("  ").Add(UnitsOf(gpu));
  else if (rows > 1)
    lines.push_back(Line().Add(kDetailsIndent).Add(UnitsOf(gpu)));
  return lines;
}

// One of the two plots of a panel.
std::vector<Line> Half(const State& state, const TimeSeries* series, std::size_t columns, std::size_t rows,
                       const std::string& title, Ink ink) {
  const auto form = FormOf(state, columns, rows, 1);
  const auto points = PointsOf(state, series, form);
  return PlotLines(points, form, {title, SpanText(state, points.size())}, ink);
}

// Where the area of a plot's row begins, in bytes. Labels have no such signs.
std::size_t EndOfAxis(const std::string& row, const PlotOptions& form) {
  constexpr std::string_view kTick = "┤", kAxisLine = "│";
  if (!form.unicode) return std::min(row.find_first_of("+|"), row.size() - 1) + 1;
  return std::min(std::min(row.find(kTick), row.find(kAxisLine)) + kTick.size(), row.size());
}

}  // namespace

std::size_t DetailsRows(std::size_t columns) {
  const std::size_t speeds = kDetailsIndent.size() + SpeedsOf({}).width(), units = UnitsOf({}).width();
  if (columns < speeds) return 0;
  return columns >= speeds + 2 + units ? 1 : 2;
}

std::string SpanText(const State& state, std::size_t points) {
  return "-" + base::FormatDuration(state.interval * static_cast<std::int64_t>(points));
}

PlotOptions FormOf(const State& state, std::size_t columns, std::size_t rows, double top) {
  PlotOptions form;
  form.width = columns;
  form.height = rows;
  form.top = top;
  form.label = 8;
  form.unicode = state.unicode;
  return form;
}

std::vector<std::optional<double>> PointsOf(const State& state, const TimeSeries* series,
                                            const PlotOptions& form) {
  const auto points = PlotPoints(form);
  return series ? series->Last(points, state.samples.now()) : std::vector<std::optional<double>>(points);
}

std::vector<Line> PlotLines(std::vector<std::optional<double>> points, const PlotOptions& form,
                            const AxisLabels& labels, Ink ink) {
  // A plot shows the smallest value, and nothing of 0.
  for (auto& point : points)
    if (point) *point = std::max(*point, form.top * 1e-9);
  const auto text = [&](double value) { return value > 0 ? labels.upper : labels.lower; };
  std::vector<Line> lines;
  for (const std::string& row : PlotRows({std::move(points), {}}, form, text, {})) {
    const auto area = EndOfAxis(row, form);
    lines.push_back(Line().Add(row.substr(0, area), Ink::kDim).Add(row.substr(area), ink));
  }
  return lines;
}

std::vector<Line> GpuPanel(const State& state, const api::GpuView& gpu, std::size_t columns,
                           std::size_t details, std::size_t plot_rows) {
  std::vector<Line> lines{FittingLine(state, gpu, columns)};
  for (auto& line : DetailsLines(gpu, columns, details)) lines.push_back(std::move(line));
  if (plot_rows > 0) {
    const auto* const series = state.samples.Gpu(gpu.uuid);
    const std::size_t half = columns / 2;
    const auto memory = Half(state, series ? &series->memory : nullptr, half, plot_rows, "mem", Ink::kMemory);
    const auto utilization = Half(state, series ? &series->utilization : nullptr, columns - half, plot_rows,
                                  "util", Ink::kUtilization);
    for (std::size_t i = 0; i < plot_rows; ++i)
      lines.push_back(Line(memory[i]).PadTo(half).Add(utilization[i]));
  }
  for (auto& line : lines) line.PadTo(columns);
  return lines;
}

}  // namespace gpuman::cli::top
