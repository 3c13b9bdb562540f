#include "cli/top/log_lines.h"

#include <algorithm>

#include "base/text.h"
#include "cli/text.h"

namespace gpuman::cli::top {
namespace {

constexpr char kEscapeSign = '\033';

// The length of the sequence at the beginning of the text, which begins with an escape (ECMA-48).
std::size_t LengthOfSequence(std::string_view text) {
  if (text.size() < 2) return text.size();
  if (text[1] == ']') {  // up to BEL, or ESC and a backslash
    const auto end = text.find_first_of("\a\033", 2);
    if (end == std::string_view::npos) return text.size();
    return text[end] == '\a' ? end + 1 : std::min(end + 2, text.size());
  }
  if (text[1] != '[') return 2;
  const auto end = std::find_if(text.begin() + 2, text.end(), [](char c) { return c >= '@' && c <= '~'; });
  return static_cast<std::size_t>(end - text.begin()) + (end == text.end() ? 0 : 1);
}

std::string Plain(std::string_view line) {
  std::string plain;
  while (!line.empty()) {
    std::size_t taken = 1;
    if (line.front() == kEscapeSign)
      taken = LengthOfSequence(line);
    else if (line.front() == '\t')
      plain += "    ";
    else
      plain += line.front();
    line.remove_prefix(taken);
  }
  return Printable(plain);
}

// Returns the last text of a line that was overwritten.
std::string_view LastWriting(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const auto begin = line.rfind('\r');
  return begin == std::string_view::npos ? line : line.substr(begin + 1);
}

}  // namespace

std::vector<std::string> LogLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) lines.push_back(Plain(LastWriting(base::TakeUntil(text, '\n'))));
  return lines;
}

}  // namespace gpuman::cli::top
