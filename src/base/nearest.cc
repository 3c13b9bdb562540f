#include "base/nearest.h"

#include <algorithm>

namespace gpuman::base {
namespace {

// Optimal string alignment: Levenshtein's distance with swapped neighbours counted as one step.
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3);
  for (const auto& candidate : candidates) {
    const std::size_t distance = Distance(word, candidate);
    // "--gpsu" is rather "--gpus" with two letters swapped than "--gpu" with one too many.
    const bool better =
        !best || distance < least || (candidate.size() == word.size() && best->size() != word.size());
    if (distance > least || !better) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

}  // namespace gpuman::base
