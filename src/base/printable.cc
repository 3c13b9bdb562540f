#include "base/printable.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/utf8.h"

namespace gpuman::base {
namespace {

struct Range {
  char32_t first, last;
};

// Control characters (Unicode's Cc; terminals that read 8-bit codes act on the second range), and Unicode's
// Cf, Zl, Zp and other default ignorable characters, except the joiners (U+200C, U+200D), which scripts need.
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

bool IsPrintableAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

}  // namespace

std::string WithInstead(
    std::string_view text,
    const std::function<std::string(std::string_view as_is, std::optional<char32_t> code)>& instead) {
  if (IsPrintableAscii(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto character = Utf8CharacterAt(text, at);
    const std::size_t length = std::max<std::size_t>(character.length, 1);
    const auto as_is = text.substr(at, length);
    if (character.length == 0)
      out += instead(as_is, std::nullopt);
    else if (!IsPrintable(character.code))
      out += instead(as_is, character.code);
    else
      out += as_is;
    at += length;
  }
  return out;
}

}  // namespace gpuman::base
