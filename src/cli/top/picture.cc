#include "cli/top/picture.h"

#include <limits>

#include "cli/text.h"

namespace gpuman::cli::top {

Ink InkOfJob(std::size_t index) {
  return static_cast<Ink>(static_cast<std::size_t>(Ink::kFirstJob) + index % kJobInks);
}

Line& Line::Add(std::string_view text, Ink ink) {
  if (text.empty()) return *this;
  std::string printable = Printable(text);
  width_ += Width(printable);
  if (!spans_.empty() && spans_.back().ink == ink)
    spans_.back().text += printable;
  else
    spans_.push_back({std::move(printable), ink});
  return *this;
}

Line& Line::Add(std::string_view text, Ink ink, const ClickTarget& target) {
  const auto before = width_;
  Add(text, ink);
  areas_.push_back({before, width_ - before, target});
  return *this;
}

Line& Line::Add(const Line& line) {
  for (const auto& area : line.areas_) areas_.push_back({width_ + area.column, area.columns, area.target});
  for (const auto& span : line.spans_) Add(span.text, span.ink);
  return *this;
}

Line& Line::PadTo(std::size_t columns) {
  if (width_ > columns) return CutTo(columns);
  return Add(std::string(columns - width_, ' '));
}

Line& Line::CutTo(std::size_t columns) {
  if (width_ <= columns) return *this;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    const auto width = Width(spans_[i].text);
    // The last column that is left tells that there is more.
    if (taken + width >= columns) {
      spans_[i].text = Cut(spans_[i].text + "…", columns - taken);
      if (Width(spans_[i].text) < columns - taken) spans_[i].text = Fit(spans_[i].text, columns - taken);
      spans_.resize(i + 1);
      break;
    }
    taken += width;
  }
  width_ = columns;
  return *this;
}

void Line::TargetAll(const ClickTarget& target) {
  areas_ = {{0, std::numeric_limits<std::size_t>::max(), target}};
}

void Line::Replace(std::string_view text, std::string_view other) {
  for (auto& span : spans_)
    for (auto at = span.text.find(text); at != span.text.npos; at = span.text.find(text, at + other.size()))
      span.text.replace(at, text.size(), other);
}

void Line::Dye(Ink ink) { spans_ = {{text(), ink}}; }

std::string Line::text() const {
  std::string text;
  for (const auto& span : spans_) text += span.text;
  return text;
}

std::optional<ClickTarget> Line::At(std::size_t column) const {
  for (const auto& area : areas_)
    if (column >= area.column && column - area.column < area.columns) return area.target;
  return std::nullopt;
}

std::optional<ClickTarget> Picture::At(std::size_t column, std::size_t row) const {
  return row < lines.size() ? lines[row].At(column) : std::nullopt;
}

}  // namespace gpuman::cli::top
