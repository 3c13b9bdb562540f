#include "share/rhythm.h"

#include <algorithm>

namespace gpuman::share {
namespace {
constexpr std::size_t kRemembered = 8;
}

void Rhythm::Add(History& history, Span length) {
  history.push_back(std::max(length, Span{}));
  if (history.size() > kRemembered) history.pop_front();
}

std::optional<Span> Rhythm::Left(const History& history, Span so_far) {
  Span sum{};
  int count = 0;
  for (const Span length : history) {
    if (length <= so_far) continue;
    sum += length - so_far;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

bool Rhythm::AreGapsOver(Span length) const {
  return gaps_.size() >= 2 &&
         std::all_of(gaps_.begin(), gaps_.end(), [length](Span gap) { return gap > length; });
}

std::optional<Span> Rhythm::NextGapEnd(Span so_far) const {
  std::optional<Span> next;
  for (const Span length : gaps_)
    if (length > so_far && (!next || length < *next)) next = length;
  return next;
}

}  // namespace gpuman::share
