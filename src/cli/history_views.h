// Renders the history of a GPU or a job: as plots for people, as CSV for programs. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "api/history_types.h"
#include "cli/text.h"

namespace gpuman::cli {

struct HistoryPlotOptions {
  bool unicode = true;
  std::size_t height = 4;  // rows of a plot
};

// How many points a picture of this style takes.
std::int64_t HistoryPoints(const TerminalStyle& style, const HistoryPlotOptions& form);

// A title, a plot for each figure that is known at all, the states of a job below its memory, the times.
std::string RenderHistory(const api::HistoryView& history, const TerminalStyle& style,
                          const HistoryPlotOptions& form);

// The row of names, then one a bucket. All histories have the same columns; what is not known is empty.
std::string HistoryCsvHead();
std::string RenderHistoryCsv(const api::HistoryView& history);

}  // namespace gpuman::cli
