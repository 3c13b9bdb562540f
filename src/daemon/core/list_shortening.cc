#include "daemon/core/list_shortening.h"

#include <algorithm>
#include <string_view>

namespace gpuman::daemon {
namespace {

constexpr std::string_view kMore = "…";

// At most `bytes` bytes of the text; it cuts no character of UTF-8 in two.
std::string BeginningOf(std::string_view text, std::size_t bytes) {
  constexpr std::size_t kLongestTail = 3;  // bytes of a character after its first
  std::size_t end = std::min(bytes, text.size());
  const auto is_inside = [&](std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  for (std::size_t back = 0; back < kLongestTail && end > 0 && is_inside(end); ++back) --end;
  return std::string(text.substr(0, end));
}

}  // namespace

bool ShortenText(std::string& text) {
  if (text.size() <= kListedText) return false;
  text = BeginningOf(text, kListedText).append(kMore);
  return true;
}

bool ShortenTexts(std::vector<std::string>& texts) {
  bool shortened = ShortenElements(texts);
  for (auto& text : texts) shortened = ShortenText(text) || shortened;
  return shortened;
}

ListedCommand ListedCommandOf(std::span<const std::string> words) {
  ListedCommand listed;
  std::size_t left = kListedCommand;
  for (const auto& word : words) {
    if (word.size() >= left) {
      listed.words.push_back(BeginningOf(word, left).append(kMore));
      listed.shortened = true;
      break;
    }
    left -= word.size() + 1;  // with the blank behind it
    listed.words.push_back(word);
  }
  return listed;
}

}  // namespace gpuman::daemon
