#include "cli/take.h"

namespace gpuman::cli::take {

Take Flag(bool& target, bool value) {
  return [&target, value](const std::string&) -> base::Result<> {
    target = value;
    return {};
  };
}

Take List(std::vector<std::string>& list) {
  return [&list](const std::string& text) -> base::Result<> {
    GPUMAN_ASSIGN(const auto parts, SplitList(text));
    list.insert(list.end(), parts.begin(), parts.end());
    return {};
  };
}

Take Size(std::optional<base::SizeSpec>& target) { return Into(target, base::ParseSize); }
Take Duration(std::optional<base::Millis>& target) { return Into(target, base::ParseDuration); }
Take Duration(base::Millis& target) { return Into(target, base::ParseDuration); }

Take Nothing() {
  return [](const std::string&) -> base::Result<> { return {}; };
}

}  // namespace gpuman::cli::take
