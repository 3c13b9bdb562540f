// UTF-8 as in RFC 3629: an overlong form, half of a surrogate pair and a value above U+10FFFF are no
// characters. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpuman::base {

struct Utf8Character {
  char32_t code = 0;
  std::size_t length = 0;  // in bytes; 0: there is no character
};

// The character that begins at byte `at`, which is less than the text's length.
Utf8Character Utf8CharacterAt(std::string_view text, std::size_t at);

bool IsUtf8(std::string_view text);

}  // namespace gpuman::base
