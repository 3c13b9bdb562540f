// Shortens what a list shows of one job or of one process, so that no element of a list is long, whatever a
// user wrote. The view of one job has all of it. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace gpuman::daemon {

// How much of a job a view has.
enum class JobDetail {
  kWhole,
  kListed,  // long texts and sequences are shortened, and `cut` of the view says so
};

inline constexpr std::size_t kListedCommand = 4u << 10;  // bytes of all its words
inline constexpr std::size_t kListedText = 1u << 10;     // bytes of another text
inline constexpr std::size_t kListedElements = 100;      // of dependencies, notes, …

// Each function returns whether it shortened something. A text that is shortened ends with "…".
bool ShortenText(std::string& text);
bool ShortenTexts(std::vector<std::string>& texts);
template <typename T>
bool ShortenElements(std::vector<T>& elements) {
  if (elements.size() <= kListedElements) return false;
  elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(kListedElements), elements.end());
  return true;
}

struct ListedCommand {
  std::vector<std::string> words;
  bool shortened = false;
};
// Copies no more of the command than it returns.
ListedCommand ListedCommandOf(std::span<const std::string> words);

}  // namespace gpuman::daemon
