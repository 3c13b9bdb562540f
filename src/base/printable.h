// What of a text can be shown without doing anything to a terminal or to who reads it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace gpuman::base {

// The text with something else for every byte that is not UTF-8, every control character, and every character
// that shows nothing itself and changes how others are shown: direction of writing, invisible ones, ends of
// lines and paragraphs. `instead` gets what stands there, and its code; nullopt: it is not UTF-8.
std::string WithInstead(
    std::string_view text,
    const std::function<std::string(std::string_view as_is, std::optional<char32_t> code)>& instead);

}  // namespace gpuman::base
