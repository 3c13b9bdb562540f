// Reads what a terminal says about its mouse: the form of xterm's mode 1006, "\033[<BUTTON;COLUMN;ROWM", of
// which the reader gets what follows "\033[<". Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace gpuman::cli::top {

struct MouseEvent {
  enum class Kind { kPress, kWheelUp, kWheelDown, kOther };
  Kind kind = Kind::kOther;         // kPress: of the first button
  std::size_t column = 0, row = 0;  // from 0
  friend bool operator==(const MouseEvent&, const MouseEvent&) = default;
};

class MouseReader {
 public:
  bool reading() const { return reading_; }
  void Begin();
  // The next character; a sign where it is the last one. A character that cannot be there ends the reading
  // with kOther.
  std::optional<MouseEvent> Feed(char character);

 private:
  bool reading_ = false;
  std::string text_;
};

}  // namespace gpuman::cli::top
