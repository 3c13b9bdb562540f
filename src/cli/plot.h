// Plots numbers over time as text: an area of braille characters, or of ASCII, with its axes. Pure.
//
//   80GiB ┤⠀⠀⣀⣤⣶⣿
//         │⣀⣴⣿⣿⣿⣿
//      0B ┤⣿⣿⣿⣿⣿⣿
//
// The area reaches up to the mean of each moment; a dot above it is the highest value of that moment. A gap
// is empty.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/paths.h"
#include "cli/text.h"

namespace gpuman::cli {

struct PlotValues {
  std::vector<std::optional<double>> mean;  // the oldest first
  std::vector<std::optional<double>> max;   // as many, or none
};

struct PlotOptions {
  std::size_t width = 80;  // columns, the axis included
  std::size_t height = 4;  // rows
  double top = 100;        // the value at the upper edge, above 0; the lower edge is 0
  std::size_t label = 8;   // columns for labels
  bool unicode = true;
  Color color = Color::kNone;
};

// Columns of the area within the width, and how many values fill it: with more, several share a place; with
// fewer, one has several.
std::size_t PlotColumns(const PlotOptions& form);
std::size_t PlotPoints(const PlotOptions& form);

// The rows from the top, without line ends. `text` writes a value for a label.
std::vector<std::string> PlotRows(const PlotValues& values, const PlotOptions& form,
                                  const std::function<std::string(double)>& text, const TerminalStyle& style);

// The axis below plots of this form: local times at its ends and in its middle.
std::string PlotTimes(base::WallTime since, base::WallTime until, const PlotOptions& form);

// A word of a strip: how it looks, with and without Unicode, and its colour.
struct StripSymbol {
  std::string unicode;  // one column
  char ascii = ' ';
  Color color = Color::kNone;
};
// A row below plots of this form that shows of each moment the kind with the largest part; `parts`: by kind,
// then by moment. A moment without any part is empty.
std::string PlotStrip(const std::string& label, const std::vector<std::vector<std::optional<double>>>& parts,
                      const std::vector<StripSymbol>& kinds, const PlotOptions& form,
                      const TerminalStyle& style);

// The next round number from `value` on, for the top of an axis: 1, 2 or 5 times a power of ten; at least
// `least`.
double RoundTop(double value, double least);
// Whether the terminal of this environment shows Unicode (LC_ALL, LC_CTYPE, LANG).
bool ShowsUnicode(const base::EnvironmentLookup& environment);

}  // namespace gpuman::cli
