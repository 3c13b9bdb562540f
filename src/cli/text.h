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
struct Look {
  bool terminal = false;
  bool color = false;
  // Columns; absent: as wide as it takes (files and pipes).
  std::optional<std::size_t> width;
};
Look LookOf(int fd);

enum class Color { kNone, kBold, kDim, kRed, kGreen, kYellow, kCyan };
std::string Paint(const Look& look, Color color, std::string_view text);

// With every control character and every byte that is not UTF-8 as '?': names of processes and output of
// others may hold escape sequences.
std::string Printable(std::string_view text);

// Columns that printable text takes: one for each character; combining and wide characters are not known.
std::size_t Width(std::string_view text);
// At most `width` columns; what is cut ends with "…".
std::string Cut(std::string_view text, std::size_t width);

}  // namespace gpuman::cli
