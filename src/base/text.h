// Small operations on text. Letters and digits are those of ASCII. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace gpuman::base {

// Removes the part before the next `end`, and this `end`, from the front of `text`; returns the part. If
// `text` has no `end`, the part is the whole text.
inline std::string_view TakeUntil(std::string_view& text, char end) {
  const auto part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

// Removes `prefix` from the front of `text`; false: `text` does not begin with it.
inline bool DropPrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// The text without the blanks at its ends.
inline std::string_view Trimmed(std::string_view text, std::string_view blanks = " \t\r\n") {
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

constexpr char LowerCase(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = LowerCase(c);
  return lower;
}

inline std::string UpperCase(std::string_view text) {
  std::string upper(text);
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return upper;
}

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Whether the text has digits and nothing else; an empty one has none.
inline bool AreDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit);
}

// The value of a hexadecimal digit, in either case; below 0: it is none.
constexpr int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace gpuman::base
