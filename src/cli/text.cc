#include "cli/text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace gpuman::cli {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Bytes of the character at `at`, or 0 where there is none.
std::size_t LengthOfCharacter(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xC2 && lead < 0xE0 ? 2
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!IsContinuation(text[at + i])) return 0;
  return length;
}

std::optional<std::size_t> ColumnsOf(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  if (const char* columns = std::getenv("COLUMNS")) {
    std::size_t n = 0;
    const std::string_view text(columns);
    if (std::from_chars(text.data(), text.data() + text.size(), n).ec == std::errc{} && n > 0) return n;
  }
  return 80;
}

}  // namespace

Look LookOf(int fd) {
  Look look;
  look.terminal = ::isatty(fd) == 1;
  if (!look.terminal) return look;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  look.color = !dumb && (no_color == nullptr || *no_color == '\0');
  look.width = ColumnsOf(fd);
  return look;
}

std::string Paint(const Look& look, Color color, std::string_view text) {
  if (!look.color || color == Color::kNone || text.empty()) return std::string(text);
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
  if (std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; }))
    return std::string(text);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = LengthOfCharacter(text, at);
    const auto lead = static_cast<unsigned char>(text[at]);
    // U+0080 to U+009F are control characters too; terminals that read 8-bit codes act on them.
    const bool control = lead < 0x20 || lead == 0x7F ||
                         (lead == 0xC2 && length == 2 && static_cast<unsigned char>(text[at + 1]) < 0xA0);
    if (length == 0 || control)
      out += '?';
    else
      out += text.substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  return out;
}

std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

std::string Cut(std::string_view text, std::size_t width) {
  if (Width(text) <= width) return std::string(text);
  if (width == 0) return {};
  std::size_t at = 0;
  for (std::size_t taken = 0; taken + 1 < width; ++taken) {
    ++at;
    while (at < text.size() && IsContinuation(text[at])) ++at;
  }
  return std::string(text.substr(0, at)) + "…";
}

}  // namespace gpuman::cli
