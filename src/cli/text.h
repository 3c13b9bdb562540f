// Text for terminals: width, cutting, colour, and protection of the terminal from characters in names.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuman::cli {

// The text in place of a value that is not known.
inline constexpr std::string_view kUnknown = "n/a";

// How output may look. It is made once from the descriptors and the environment; renderers get it as an
// argument.
struct TerminalStyle {
  bool terminal = false;
  bool color = false;
  // In columns; nullopt: no limit (files and pipes).
  std::optional<std::size_t> width;
};
TerminalStyle TerminalStyleOf(int fd);

enum class Color { kNone, kBold, kDim, kRed, kGreen, kYellow, kCyan };
std::string Paint(const TerminalStyle& style, Color color, std::string_view text);

// Replaces by '?' every byte that is not UTF-8, every control character, and every invisible character that
// changes how others are shown: direction of writing, ends of lines and paragraphs. Names of processes,
// commands and output of other users may contain them.
std::string Printable(std::string_view text);
// The same for a rendered text: line ends and tabs stay, and with colour so do the sequences of Paint.
std::string PrintableLines(const TerminalStyle& style, std::string_view text);
// The same for JSON, with the same value: such characters become JSON escapes.
std::string PrintableJson(std::string_view json);

// The columns that printable text takes on a terminal: none for a combining character, two for a wide one.
std::size_t Width(std::string_view text);
// At most `width` columns; a text that is cut ends with "…".
std::string Cut(std::string_view text, std::size_t width);
// Exactly `width` columns: cut, or with blanks behind it (`right`: before it).
std::string Fit(std::string_view text, std::size_t width, bool right = false);

// As many lines as the text needs, printable and broken at blanks; a word that is longer than a line is
// broken. At least one.
std::vector<std::string> Wrapped(std::string_view text, std::size_t columns);

// The number as it is and its unit, "45C"; kUnknown where there is none.
template <typename T>
std::string NumberText(const std::optional<T>& value, std::string_view unit) {
  return value ? fmt::format("{}{}", *value, unit) : std::string(kUnknown);
}
// The number without decimals and its unit, "45C"; kUnknown where there is none.
std::string Rounded(const std::optional<double>& value, std::string_view unit);

// Ids of jobs as commands take them, "2-4,7"; they rise.
std::string JoinIds(const std::vector<std::int64_t>& ids);

}  // namespace gpuman::cli
