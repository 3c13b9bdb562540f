// Where the parts of a page with a list are on the screen. Pure.
//
//   title
//   problem        only if there is one
//   summary
//   GPUs           panels beside each other and below each other, each a line, details and plots; faults below
//   column titles
//   list
//   status         the question, the filter, a message, or more about the chosen row
//   keys
//
// In a small window parts are left out: first details, then plots, then panels, then keys, status and
// summary.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/top/state.h"

namespace gpuman::cli::top {

struct Layout {
  bool problem = false, summary = false, titles = false, status = false, keys = false;
  std::size_t panels_beside = 1;  // in a row of panels
  std::size_t panels = 0;         // panels that are shown; a line of its own counts the others
  bool more_panels = false;
  std::size_t panel_columns = 0;
  std::size_t details = 0;    // lines of each panel
  std::size_t plot_rows = 0;  // of each panel
  std::size_t PanelRows() const { return 1 + details + plot_rows; }
  std::size_t faults = 0;  // lines
  std::size_t list_rows = 0;
};

Layout LayoutOf(const State& state);

// The faults of GPUs, a line each.
std::vector<std::string> Faults(const State& state);

}  // namespace gpuman::cli::top
