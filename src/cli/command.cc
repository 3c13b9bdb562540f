#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuman::cli {

namespace {

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

std::vector<std::string> NamesOf(const Option& option) { return Split(option.names, ','); }

std::string NameOf(const Option& option) {
  for (const auto& name : NamesOf(option))
    if (name.starts_with("--")) return name;
  return option.names;
}

std::vector<std::string> ChoicesOf(std::string_view value) {
  return value.find('|') == value.npos ? std::vector<std::string>{} : Split(value, '|');
}

base::Result<> RequireChoice(std::string_view value, const std::string& word) {
  const auto choices = ChoicesOf(value);
  if (choices.empty() || std::find(choices.begin(), choices.end(), word) != choices.end()) return {};
  return base::Fail(base::ErrorCode::kInvalidArgument,
                    fmt::format("'{}' is not one of {}", word, fmt::join(choices, ", ")));
}

base::Result<> TakeOptions(const Options& options, const std::vector<ParsedOption>& typed) {
  for (const auto& [name, value] : typed) {
    const auto option = std::find_if(options.begin(), options.end(),
                                     [&, &name = name](const Option& one) { return NameOf(one) == name; });
    if (option == options.end())
      return base::Fail(base::ErrorCode::kInternal, fmt::format("no option is called {}", name));
    auto taken = RequireChoice(option->value, value);
    if (taken) taken = option->take(value);
    if (!taken) return base::Fail(std::move(taken.error()).In(name));
  }
  return {};
}

const Command* FindCommand(const Command& command, std::string_view word) {
  for (const auto& below : command.commands)
    if (below.name == word ||
        std::find(below.aliases.begin(), below.aliases.end(), word) != below.aliases.end())
      return &below;
  return nullptr;
}

}  // namespace gpuman::cli
