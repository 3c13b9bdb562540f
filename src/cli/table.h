// A table of text, aligned and fitted to a width.
//
//   GPU  NAME         MEMORY
//   0    NVIDIA H200  10GiB
#pragma once

#include <string>
#include <vector>

#include "cli/text.h"

namespace gpuman::cli {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
  // If the table is too wide, columns that may shrink do so, the last of them first, down to this width. 0:
  // the column never shrinks.
  std::size_t least = 0;
};

struct Cell {
  std::string text;
  Color color = Color::kNone;

  Cell(std::string t, Color c = Color::kNone) : text(std::move(t)), color(c) {}  // NOLINT: a cell is its text
  Cell(const char* t) : text(t) {}                                               // NOLINT
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // `row` has as many cells as there are columns. Add makes the texts printable.
  void Add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }
  // The title line and the rows, each with a line end; no trailing spaces.
  std::string Render(const TerminalStyle& style) const;

 private:
  std::vector<std::size_t> Fit(const TerminalStyle& style) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace gpuman::cli
