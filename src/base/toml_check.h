// What has to be known of a TOML text before toml++ reads it. Up to version 3.3 some mistakes reach an
// assertion in it, or undefined behaviour where it was built without them: a table header without a name,
// such as "[[[a]]]" or "[#"; a character outside of strings and comments that is not ASCII; a bracket that
// another one closes, "[}"; a number with something else in it. Pure; the text may be anything.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace gpuman::base {

struct TomlMistake {
  std::size_t before = 0;  // as many bytes, whole statements, toml++ may read
  std::size_t line = 0;    // of the mistake, counted from 1
  const char* message = "";
};

// The first, if what stands before it is TOML; in what is not, toml++ finds the mistake before it comes so
// far.
std::optional<TomlMistake> FindTomlMistake(std::string_view text);

// What toml++ may read of it.
inline std::string_view Readable(std::string_view text, const std::optional<TomlMistake>& mistake) {
  return mistake ? text.substr(0, mistake->before) : text;
}

}  // namespace gpuman::base
