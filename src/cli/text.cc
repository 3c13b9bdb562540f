#include "cli/text.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>

namespace gpuman::cli {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

struct Character {
  char32_t code = 0;
  std::size_t length = 0;  // in bytes; 0: there is none
};

// The character at `at`. A longer form than it needs, or half of a pair of UTF-16, is none: terminals differ
// in what they make of it.
Character CharacterAt(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xC2 && lead < 0xE0   ? 2
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 0;
  if (length == 0 || at + length > text.size()) return {};
  char32_t code = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[at + i])) return {};
    code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
  }
  constexpr std::array<char32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, length};
}

struct Range {
  char32_t first, last;
};

// Control characters (Unicode's Cc: terminals that read 8-bit codes act on the second range), and Unicode's
// Cf, Zl, Zp and other default ignorable ones but for the joiners (U+200C, U+200D), which scripts need.
constexpr std::array kUnprintable{
    Range{0x0, 0x1F},        Range{0x7F, 0x9F},       Range{0xAD, 0xAD},       Range{0x34F, 0x34F},
    Range{0x600, 0x605},     Range{0x61C, 0x61C},     Range{0x6DD, 0x6DD},     Range{0x70F, 0x70F},
    Range{0x890, 0x891},     Range{0x8E2, 0x8E2},     Range{0x115F, 0x1160},   Range{0x17B4, 0x17B5},
    Range{0x180B, 0x180F},   Range{0x200B, 0x200B},   Range{0x200E, 0x200F},   Range{0x2028, 0x202E},
    Range{0x2060, 0x206F},   Range{0x3164, 0x3164},   Range{0xFEFF, 0xFEFF},   Range{0xFFA0, 0xFFA0},
    Range{0xFFF0, 0xFFFB},   Range{0x110BD, 0x110BD}, Range{0x110CD, 0x110CD}, Range{0x13430, 0x1343F},
    Range{0x1BCA0, 0x1BCA3}, Range{0x1D173, 0x1D17A}, Range{0xE0000, 0xE0FFF},
};

bool IsPrintable(char32_t code) {
  if (code >= 0x20 && code < 0x7F) return true;
  return std::none_of(kUnprintable.begin(), kUnprintable.end(),
                      [code](const Range& range) { return code >= range.first && code <= range.last; });
}

bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

// `instead(character)` for each that is not printable; nothing: it stays.
template <typename Instead>
std::string WithInstead(std::string_view text, Instead instead) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto character = CharacterAt(text, at);
    const std::size_t length = std::max<std::size_t>(character.length, 1);
    if (character.length == 0 || !IsPrintable(character.code))
      out += instead(text.substr(at, length), character);
    else
      out += text.substr(at, length);
    at += length;
  }
  return out;
}

constexpr std::array<std::string_view, 7> kColorCodes{"0", "1", "2", "31", "32", "33", "36"};

// The length of a change of colour as Paint writes it, at the text's begin; or 0.
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
  if (IsPlain(text)) return std::string(text);
  return WithInstead(text, [](std::string_view, Character) { return "?"; });
}

std::string PrintableLines(const Look& look, std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of("\n\t\033"), text.size());
    out += Printable(text.substr(0, end));
    text.remove_prefix(end);
    if (text.empty()) break;
    const std::size_t paint = look.color ? LengthOfPaint(text) : 0;
    const std::size_t kept = paint > 0 ? paint : text.front() == '\033' ? 0 : 1;
    out += kept > 0 ? text.substr(0, kept) : "?";
    text.remove_prefix(std::max<std::size_t>(kept, 1));
  }
  return out;
}

std::string PrintableJson(std::string_view json) {
  if (IsPlain(json)) return std::string(json);
  return WithInstead(json, [](std::string_view as_is, Character character) -> std::string {
    // Outside of strings there is white space alone.
    if (character.length == 0 || character.code < 0x20) return std::string(as_is);
    if (character.code < 0x10000) return fmt::format("\\u{:04x}", static_cast<std::uint32_t>(character.code));
    const auto above = static_cast<std::uint32_t>(character.code) - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (above >> 10), 0xDC00 + (above & 0x3FF));
  });
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
