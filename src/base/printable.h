// Replaces the characters of a text that would act on the terminal or deceive the reader.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace gpuman::base {

// Replaces each byte that is not UTF-8, each control character, and each character that shows nothing itself
// and changes how others are shown: direction of writing, invisible characters, ends of lines and paragraphs.
// `instead` gets the bytes and their code (nullopt: not UTF-8) and returns the replacement.
std::string WithInstead(
    std::string_view text,
    const std::function<std::string(std::string_view as_is, std::optional<char32_t> code)>& instead);

}  // namespace gpuman::base
