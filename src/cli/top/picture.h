// The picture that the screen of `gpuman top` shows: lines of text in inks, and what a click means there.
// Values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/top/state.h"

namespace gpuman::cli::top {

// Colours, named by their meaning; the screen knows how they look. An ink says nothing that the text does not
// say.
enum class Ink {
  kPlain,
  kTitle,
  kDim,
  kChosen,  // of the chosen row and page
  kGood,
  kWarning,
  kBad,
  kMemory,
  kUtilization,
  kFirstJob,  // kJobInks inks that tell jobs apart in strips
  kSecondJob,
  kThirdJob,
  kFourthJob,
};
inline constexpr std::size_t kJobInks = 4;
Ink InkOfJob(std::size_t index);

struct Span {
  std::string text;  // printable
  Ink ink = Ink::kPlain;
  friend bool operator==(const Span&, const Span&) = default;
};

// What a click means.
struct ClickTarget {
  enum class Kind { kRow, kPage, kOrder };
  Kind kind = Kind::kRow;
  std::size_t index = 0;  // of the row in the list; the number of the Page; of the TopOrder
  friend bool operator==(const ClickTarget&, const ClickTarget&) = default;
};

// The part of a line where a click means `target`: `columns` columns from `column` on.
struct ClickArea {
  std::size_t column = 0, columns = 0;
  ClickTarget target;
};

class Line {
 public:
  // Makes the text printable.
  Line& Add(std::string_view text, Ink ink = Ink::kPlain);
  // The same, and a click there means `target`.
  Line& Add(std::string_view text, Ink ink, const ClickTarget& target);
  Line& Add(const Line& line);
  // Adds blanks up to the column, or cuts there.
  Line& PadTo(std::size_t columns);
  // Cuts the text behind that column.
  Line& CutTo(std::size_t columns);
  // A click anywhere on the line means `target`, also beyond its text.
  void TargetAll(const ClickTarget& target);
  // Puts `other`, which has as many columns, in place of `text` wherever the line has it.
  void Replace(std::string_view text, std::string_view other);
  // Gives the whole line one ink.
  void Dye(Ink ink);

  const std::vector<Span>& spans() const { return spans_; }
  std::string text() const;
  std::size_t width() const { return width_; }
  std::optional<ClickTarget> At(std::size_t column) const;

 private:
  std::vector<Span> spans_;
  std::vector<ClickArea> areas_;
  std::size_t width_ = 0;
};

struct Picture {
  std::vector<Line> lines;  // no more than the rows of the screen, none wider than its columns
  std::optional<ClickTarget> At(std::size_t column, std::size_t row) const;
};

}  // namespace gpuman::cli::top
