// Finds mistakes in a TOML text before toml++ reads it. Up to version 3.3 some mistakes reach an assertion in
// toml++, or undefined behaviour if it was built without assertions: a table header without a name, such as
// "[[[a]]]" or "[#"; a character outside of strings and comments that is not printable ASCII; a bracket that
// is closed by another kind, "[}"; a number with another character in it. Pure; the text may be anything.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace gpuman::base {

struct TomlMistake {
  std::size_t before = 0;  // toml++ may read this many bytes: whole statements
  std::size_t line = 0;    // of the mistake, counted from 1
  const char* message = "";
};

// The first mistake, if the text before it is TOML. If that text is not TOML, toml++ finds the earlier
// mistake and reads no further.
std::optional<TomlMistake> FindTomlMistake(std::string_view text);

// The part of `text` that toml++ may read.
inline std::string_view Readable(std::string_view text, const std::optional<TomlMistake>& mistake) {
  return mistake ? text.substr(0, mistake->before) : text;
}

}  // namespace gpuman::base
