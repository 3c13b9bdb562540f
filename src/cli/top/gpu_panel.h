// The panel of one GPU: a line with its figures and bars, up to two with its sensors in detail, and below
// them plots of memory and utilization. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/plot.h"
#include "cli/top/picture.h"
#include "cli/top/state.h"

namespace gpuman::cli::top {

// 1 + `details` + `plot_rows` lines of exactly `columns` columns. In a narrow panel the limit of the power is
// left out first, then bars, then sensors, then memory and utilization; the health is never left out.
std::vector<Line> GpuPanel(const State& state, const api::GpuView& gpu, std::size_t columns,
                           std::size_t details, std::size_t plot_rows);

// How many lines all details take in a panel of that width; 0: it is too narrow for them.
std::size_t DetailsRows(std::size_t columns);

// The form of a plot of that size, in the signs of the screen; `top`: the value at the upper edge.
PlotOptions FormOf(const State& state, std::size_t columns, std::size_t rows, double top);

// The last points that fit a plot of that form, of a series that may not be there.
std::vector<std::optional<double>> PointsOf(const State& state, const TimeSeries* series,
                                            const PlotOptions& form);

// A plot of these points: `labels` are at the left of the first and of the last row. What is known has a dot,
// also if it is 0.
struct AxisLabels {
  std::string upper, lower;
};
std::vector<Line> PlotLines(std::vector<std::optional<double>> points, const PlotOptions& form,
                            const AxisLabels& labels, Ink ink);

// The time that `points` points take, "-68s".
std::string SpanText(const State& state, std::size_t points);

}  // namespace gpuman::cli::top
