#include "spec/file_name.h"

namespace gpuman::spec {

std::string ExpandFileName(std::string_view pattern, const FileNameWords& words) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char letter = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[++i] : '\0';
    switch (letter) {
      case 'j':
        name += std::to_string(words.job);
        break;
      case 'A':
        name += std::to_string(words.array.value_or(words.job));
        break;
      case 'a':
        name += std::to_string(words.task);
        break;
      case 'x':
        name += words.name;
        break;
      case '%':
        name += '%';
        break;
      case '\0':
        name += pattern[i];
        break;
      default:
        name.append({'%', letter});
    }
  }
  return name;
}

}  // namespace gpuman::spec
