#include "cli/table.h"

#include <algorithm>
#include <numeric>

namespace gpuman::cli {
namespace {

constexpr std::size_t kGap = 2;

// Appends in place where the cell needs no cutting and no colour: lists of jobs have a hundred thousand
// cells.
void AddCell(std::string& line, const TerminalStyle& style, const Column& column, const Cell& cell,
             std::size_t width) {
  const std::size_t whole = Width(cell.text);
  const std::size_t padding = whole < width ? width - whole : 0;
  if (column.align == Align::kRight) line.append(padding, ' ');
  if (whole <= width && (!style.color || cell.color == Color::kNone))
    line += cell.text;
  else
    line += Paint(style, cell.color, Cut(cell.text, width));
  if (column.align == Align::kLeft) line.append(padding, ' ');
}

void EndLine(std::string& out, std::string& line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line;
  out += '\n';
}

}  // namespace

void Table::Add(std::vector<Cell> row) {
  row.resize(columns_.size(), Cell(""));
  for (auto& cell : row) cell.text = Printable(cell.text);
  rows_.push_back(std::move(row));
}

std::vector<std::size_t> Table::Fit(const TerminalStyle& style) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = Width(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, Width(row[i].text));
    widths.push_back(width);
  }
  if (!style.width) return widths;
  std::size_t total =
      std::accumulate(widths.begin(), widths.end(), std::size_t{0}) + kGap * (columns_.size() - 1);
  for (std::size_t i = columns_.size(); i-- > 0 && total > *style.width;) {
    const std::size_t least = std::max(columns_[i].least, Width(columns_[i].title));
    if (columns_[i].least == 0 || widths[i] <= least) continue;
    const std::size_t cut = std::min(total - *style.width, widths[i] - least);
    widths[i] -= cut;
    total -= cut;
  }
  return widths;
}

std::string Table::Render(const TerminalStyle& style) const {
  const auto widths = Fit(style);
  std::string out;
  std::string line;
  const auto render = [&](const auto& cell_of) {
    line.clear();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) line.append(kGap, ' ');
      AddCell(line, style, columns_[i], cell_of(i), widths[i]);
    }
    EndLine(out, line);
  };
  render([&](std::size_t i) { return Cell(columns_[i].title, Color::kBold); });
  for (const auto& row : rows_) render([&](std::size_t i) -> const Cell& { return row[i]; });
  return out;
}

}  // namespace gpuman::cli
