#include "base/printable.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace gpuman::base {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

struct Character {
  char32_t code = 0;
  std::size_t length = 0;  // in bytes; 0: there is none
};

// The character at `at`. An overlong form and half of a UTF-16 surrogate pair count as no character:
// terminals differ in how they treat them.
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
  constexpr std::array<char32_t, 5> kMin{0, 0, 0x80, 0x800, 0x10000};
  if (code < kMin[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, length};
}

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
    const auto character = CharacterAt(text, at);
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
