// Text for terminals: width, cutting, colour, and nothing that a name could do to the terminal.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuman::cli {

// What stands where a value is not known.
inline constexpr std::string_view kUnknown = "n/a";

// How output may look. Made once from the descriptors and the environment; renderers take it as an argument.
struct TerminalStyle {
  bool terminal = false;
  bool color = false;
  // Columns; absent: as wide as it takes (files and pipes).
  std::optional<std::size_t> width;
};
TerminalStyle TerminalStyleOf(int fd);

enum class Color { kNone, kBold, kDim, kRed, kGreen, kYellow, kCyan };
std::string Paint(const TerminalStyle& style, Color color, std::string_view text);

// With a '?' for every byte that is not UTF-8, every control character, and every character that shows
// nothing itself and changes how others are shown: direction of writing, invisible ones, ends of lines and
// paragraphs. Names of processes, commands and output of others may hold them.
std::string Printable(std::string_view text);
// The same of a rendered text: line ends and tabs stay, and where there is colour what Paint makes of it.
std::string PrintableLines(const TerminalStyle& style, std::string_view text);
// The same of JSON, which stays what it is: such characters are escaped as JSON has them.
std::string PrintableJson(std::string_view json);

// Columns that printable text takes: one for each character; combining and wide characters are not known.
std::size_t Width(std::string_view text);
// At most `width` columns; what is cut ends with "…".
std::string Cut(std::string_view text, std::size_t width);

}  // namespace gpuman::cli
