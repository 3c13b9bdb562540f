#include "cli/top/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/top/gpu_panel.h"
#include "cli/top/rows.h"

namespace gpuman::cli::top {
namespace {

constexpr std::size_t kPanelColumns = 74;  // of the narrowest panel beside another
constexpr std::size_t kPanelGap = 2;
constexpr std::size_t kMaxPlotRows = 12, kMinPlotRows = 2;
constexpr std::size_t kMaxFaults = 4;

// Rows of the screen that are still free.
class Room {
 public:
  explicit Room(std::size_t rows) : left_(rows) {}
  std::size_t left() const { return left_; }
  std::size_t Take(std::size_t wanted) {
    const auto taken = std::min(wanted, left_);
    left_ -= taken;
    return taken;
  }
  // A row, if `besides` rows are left after it.
  bool TakeOne(std::size_t besides) {
    if (left_ <= besides) return false;
    --left_;
    return true;
  }

 private:
  std::size_t left_;
};

std::size_t RowsOfPanels(std::size_t panels, std::size_t beside) { return (panels + beside - 1) / beside; }

// As many panels as fit beside a list of `list` rows.
void PlacePanels(const State& state, Room& room, std::size_t list, Layout& layout) {
  const auto columns = state.size.columns;
  const auto gpus = GpusShown(state).size();
  if (state.status.gpus.empty()) {
    layout.faults = room.Take(std::min<std::size_t>(1, room.left() > list ? 1 : 0));
    return;
  }
  if (gpus == 0) return;  // the filter leaves none
  layout.panels_beside = std::clamp<std::size_t>(columns / kPanelColumns, 1, gpus);
  layout.panel_columns =
      (columns - std::min(columns, (layout.panels_beside - 1) * kPanelGap)) / layout.panels_beside;
  const auto free = room.left() - std::min(room.left(), list);
  const auto wanted = RowsOfPanels(gpus, layout.panels_beside);
  layout.more_panels = wanted > free && free > 1;
  const auto rows = std::min(wanted, layout.more_panels ? free - 1 : free);
  layout.panels = std::min(gpus, rows * layout.panels_beside);
  room.Take(rows + (layout.more_panels ? 1 : 0));
}

std::size_t HighPlotRows(const State& state) {
  return std::min(kMaxPlotRows, std::max<std::size_t>(4, state.size.rows / 8));
}

// Details and plots.
void PlacePlots(const State& state, Room& room, std::size_t list, Layout& layout) {
  const bool has_plots = state.page == Page::kJobs || state.page == Page::kProcesses;
  if (!has_plots || layout.panels == 0 || layout.more_panels) return;
  const auto rows = RowsOfPanels(layout.panels, layout.panels_beside);
  auto each = (room.left() - std::min(room.left(), list)) / rows;
  // Without plots there is room for all details, and with plots for the second line where these are as high
  // as in a large window.
  const auto wanted = DetailsRows(layout.panel_columns);
  const auto plots = state.plots ? kMinPlotRows : 0, high = state.plots ? HighPlotRows(state) : 0;
  if (wanted > 0 && each > plots) layout.details = each >= wanted + high ? wanted : 1;
  each -= layout.details;
  if (state.plots && each >= kMinPlotRows) layout.plot_rows = std::min(each, HighPlotRows(state));
  room.Take((layout.PanelRows() - 1) * rows);
}

}  // namespace

std::vector<std::string> Faults(const State& state) {
  std::vector<std::string> lines;
  for (const auto& gpu : state.status.gpus)
    for (const auto& reason : gpu.health.reasons)
      lines.push_back(fmt::format("! GPU {}: {}", api::NumberOf(gpu), reason));
  return lines;
}

Layout LayoutOf(const State& state) {
  Layout layout;
  Room room(state.size.rows);
  room.Take(1);  // the title
  // A question must be seen in any window.
  layout.status = room.TakeOne(state.question || state.filtering ? 0 : 2);
  layout.problem = !state.problem.empty() && room.TakeOne(0);
  layout.keys = room.TakeOne(6);
  layout.summary = room.TakeOne(5);
  layout.titles = room.TakeOne(2);
  // The list has a third of a large window, and more where the GPUs need less.
  const std::size_t list = std::max<std::size_t>(4, state.size.rows / 3);
  PlacePanels(state, room, std::min(list, room.left() / 2), layout);
  const auto faults = Faults(state).size();
  if (!state.status.gpus.empty() && room.left() > list / 2)
    layout.faults = room.Take(std::min({faults, kMaxFaults, room.left() - list / 2}));
  PlacePlots(state, room, list, layout);
  layout.list_rows = room.left();
  return layout;
}

}  // namespace gpuman::cli::top
