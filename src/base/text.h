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

}  // namespace gpuman::base
