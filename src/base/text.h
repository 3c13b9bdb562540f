// For parsers that go through a text piece by piece. Pure.
#pragma once

#include <algorithm>
#include <string_view>

namespace gpuman::base {

// Removes the part before the next `end`, and this `end`, from the front of `text`; returns the part. If
// `text` has no `end`, the part is the whole text.
inline std::string_view TakeUntil(std::string_view& text, char end) {
  const auto part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

// The value of a hexadecimal digit, in either case; below 0: it is none.
constexpr int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace gpuman::base
