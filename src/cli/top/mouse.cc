#include "cli/top/mouse.h"

#include <array>
#include <string_view>

#include "base/parse_number.h"

namespace gpuman::cli::top {
namespace {

constexpr unsigned kModifiers = 4 | 8 | 16;  // Shift, Meta, Control
constexpr unsigned kWheelUp = 64, kWheelDown = 65;
constexpr std::size_t kLongest = 32;

std::optional<MouseEvent> SignOf(std::string_view text, bool press) {
  std::array<unsigned, 3> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto word = text.substr(0, text.find(';'));
    const auto number = base::ParseNumber<unsigned>(word);
    if (!number) return std::nullopt;
    numbers[i] = *number;
    text.remove_prefix(word.size());
    if (text.empty() != (i + 1 == numbers.size())) return std::nullopt;
    if (!text.empty()) text.remove_prefix(1);
  }
  const auto [button, column, row] = numbers;
  if (column == 0 || row == 0) return std::nullopt;
  MouseEvent sign;
  sign.column = column - 1;
  sign.row = row - 1;
  if (!press) return sign;
  switch (button & ~kModifiers) {
    case 0:
      sign.kind = MouseEvent::Kind::kPress;
      break;
    case kWheelUp:
      sign.kind = MouseEvent::Kind::kWheelUp;
      break;
    case kWheelDown:
      sign.kind = MouseEvent::Kind::kWheelDown;
      break;
    default:
      break;
  }
  return sign;
}

}  // namespace

void MouseReader::Begin() {
  reading_ = true;
  text_.clear();
}

std::optional<MouseEvent> MouseReader::Feed(char character) {
  const bool part = (character >= '0' && character <= '9') || character == ';';
  if (part && text_.size() < kLongest) {
    text_ += character;
    return std::nullopt;
  }
  reading_ = false;
  if (character != 'M' && character != 'm') return MouseEvent{};
  return SignOf(text_, character == 'M').value_or(MouseEvent{});
}

}  // namespace gpuman::cli::top
