#include "cli/text.h"

#include <fmt/format.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "base/parse_number.h"
#include "base/printable.h"
#include "base/utf8.h"

namespace gpuman::cli {
namespace {

struct Character {
  std::size_t bytes = 1;
  std::size_t columns = 1;
};

// The columns that libc knows, which ncurses uses as well. The locale is of this thread and this call alone.
std::size_t ColumnsOfCharacter(char32_t code) {
  static const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (utf8 == nullptr) return 1;
  const locale_t before = ::uselocale(utf8);
  const int columns = ::wcwidth(static_cast<wchar_t>(code));
  ::uselocale(before);
  return columns < 0 ? 1 : static_cast<std::size_t>(columns);
}

Character CharacterAt(std::string_view text, std::size_t at) {
  if (static_cast<unsigned char>(text[at]) < 0x80) return {};
  const auto character = base::Utf8CharacterAt(text, at);
  if (character.length == 0) return {};
  return {character.length, ColumnsOfCharacter(character.code)};
}

constexpr std::array<std::string_view, 7> kColorCodes{"0", "1", "2", "31", "32", "33", "36"};

// The length of a colour sequence of Paint at the beginning of the text; 0: there is none.
std::size_t LengthOfPaint(std::string_view text) {
  constexpr std::string_view kBegin = "\033[";
  if (!text.starts_with(kBegin)) return 0;
  const auto rest = text.substr(kBegin.size());
  for (const auto code : kColorCodes)
    if (rest.starts_with(code) && rest.substr(code.size()).starts_with('m'))
      return kBegin.size() + code.size() + 1;
  return 0;
}

std::optional<std::size_t> ColumnsOf(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  if (const char* columns = std::getenv("COLUMNS")) {
    std::string_view text(columns);
    if (const auto n = base::TakeNumber<std::size_t>(text); n && *n > 0) return n;
  }
  return 80;
}

// How many bytes of the text are within so many columns.
std::size_t BytesWithin(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t taken = 0; at < text.size();) {
    const auto character = CharacterAt(text, at);
    taken += character.columns;
    if (taken > columns) break;
    at += character.bytes;
  }
  return at;
}

}  // namespace

TerminalStyle TerminalStyleOf(int fd) {
  TerminalStyle style;
  style.terminal = ::isatty(fd) == 1;
  if (!style.terminal) return style;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  style.color = !dumb && (no_color == nullptr || *no_color == '\0');
  style.width = ColumnsOf(fd);
  return style;
}

std::string Paint(const TerminalStyle& style, Color color, std::string_view text) {
  if (!style.color || color == Color::kNone || text.empty()) return std::string(text);
  const char* code = "0";
  switch (color) {
    case Color::kBold:
      code = "1";
      break;
    case Color::kDim:
      code = "2";
      break;
    case Color::kRed:
      code = "31";
      break;
    case Color::kGreen:
      code = "32";
      break;
    case Color::kYellow:
      code = "33";
      break;
    case Color::kCyan:
      code = "36";
      break;
    case Color::kNone:
      break;
  }
  std::string painted = "\033[";
  painted.append(code).append("m").append(text).append("\033[0m");
  return painted;
}

std::string Printable(std::string_view text) {
  return base::WithInstead(text, [](std::string_view, std::optional<char32_t>) { return "?"; });
}

std::string PrintableLines(const TerminalStyle& style, std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of("\n\t\033"), text.size());
    out += Printable(text.substr(0, end));
    text.remove_prefix(end);
    if (text.empty()) break;
    const std::size_t paint = style.color ? LengthOfPaint(text) : 0;
    const std::size_t kept = paint > 0 ? paint : text.front() == '\033' ? 0 : 1;
    out += kept > 0 ? text.substr(0, kept) : "?";
    text.remove_prefix(std::max<std::size_t>(kept, 1));
  }
  return out;
}

std::string PrintableJson(std::string_view json) {
  return base::WithInstead(json, [](std::string_view as_is, std::optional<char32_t> code) {
    // JSON has control characters only as white space outside of strings.
    if (!code || *code < 0x20) return std::string(as_is);
    if (*code < 0x10000) return fmt::format("\\u{:04x}", static_cast<std::uint32_t>(*code));
    const auto above = static_cast<std::uint32_t>(*code) - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (above >> 10), 0xDC00 + (above & 0x3FF));
  });
}

std::size_t Width(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = CharacterAt(text, at);
    columns += character.columns;
    at += character.bytes;
  }
  return columns;
}

std::string Cut(std::string_view text, std::size_t width) {
  if (text.size() <= width || Width(text) <= width) return std::string(text);
  if (width == 0) return {};
  return std::string(text.substr(0, BytesWithin(text, width - 1))) + "…";
}

std::string Fit(std::string_view text, std::size_t width, bool right) {
  std::string fitted = Cut(text, width);
  const std::size_t taken = Width(fitted);
  const std::string blanks(width - std::min(width, taken), ' ');
  return right ? blanks + fitted : fitted + blanks;
}

std::vector<std::string> Wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines(1);
  std::istringstream words{Printable(text)};
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && Width(lines.back()) + 1 + Width(word) > columns) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += " ";
    // A word that is longer than a line, as a path, goes on in the next one.
    for (std::string_view rest = word; !rest.empty();) {
      const std::size_t bytes = std::max(BytesWithin(rest, columns - std::min(columns, Width(lines.back()))),
                                         CharacterAt(rest, 0).bytes);
      lines.back() += rest.substr(0, bytes);
      rest.remove_prefix(bytes);
      if (!rest.empty()) lines.emplace_back();
    }
  }
  return lines;
}

std::string Rounded(const std::optional<double>& value, std::string_view unit) {
  return value ? fmt::format("{:.0f}{}", *value, unit) : std::string(kUnknown);
}

std::string JoinIds(const std::vector<std::int64_t>& ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size();) {
    std::size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += end == i + 1 ? fmt::to_string(ids[i]) : fmt::format("{}-{}", ids[i], ids[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace gpuman::cli
