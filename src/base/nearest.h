// "did you mean …" for words that people type.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuman::base {

// The candidate that the user most likely meant by `word`. At most a third of the characters of `word`, but
// at least one, may be added, dropped, changed or swapped with a neighbour. Of several that are equally near
// it takes the one with swapped letters, else the one with letters left out, else the one with changed
// letters; else the first.
std::optional<std::string> Nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace gpuman::base
