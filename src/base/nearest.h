// "did you mean …": for words that people type.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuman::base {

// The candidate that `word` most likely was meant to be: at most a third of its characters, and at least one,
// added, dropped, changed or swapped with their neighbour. Of several equally near the one whose letters were
// swapped, else left out, else changed; else the first.
std::optional<std::string> Nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace gpuman::base
