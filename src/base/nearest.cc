#include "base/nearest.h"

#include <algorithm>
#include <numeric>

namespace gpuman::base {
namespace {

// Optimal string alignment distance: Levenshtein's distance where a swap of neighbours counts as one step.
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

// Orders candidates at the same distance by the kind of mistake: letters swapped, left out, changed, added.
int Rank(std::string_view word, std::string_view candidate) {
  if (word.size() == candidate.size() && std::is_permutation(word.begin(), word.end(), candidate.begin()))
    return 0;
  const bool only_left_out =
      std::accumulate(candidate.begin(), candidate.end(), std::size_t{0}, [&](std::size_t at, char c) {
        return at < word.size() && word[at] == c ? at + 1 : at;
      }) == word.size();
  if (only_left_out) return 1;
  return word.size() == candidate.size() ? 2 : 3;
}

}  // namespace

std::optional<std::string> Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3);
  for (const auto& candidate : candidates) {
    const std::size_t distance = Distance(word, candidate);
    const bool better = !best || distance < least || Rank(word, candidate) < Rank(word, *best);
    if (distance > least || !better) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

}  // namespace gpuman::base
