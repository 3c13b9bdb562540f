#include "cli/queue/options.h"

#include <fmt/format.h>

#include "base/nearest.h"

namespace gpuman::cli::queue {
namespace {

const Option* Find(const Options& options, std::string_view name) {
  for (const auto& option : options)
    for (const auto& known : NamesOf(option))
      if (known == name) return &option;
  return nullptr;
}

tl::unexpected<base::Error> Unknown(const Options& options, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& option : options)
    for (auto& known : NamesOf(option))
      if (known.starts_with("--")) names.push_back(std::move(known));
  std::string hint;
  if (const auto nearest = base::Nearest(name, names)) hint = fmt::format("did you mean {}?", *nearest);
  return base::Fail(base::ErrorCode::kInvalidArgument, fmt::format("unknown option '{}'", name), hint);
}

tl::unexpected<base::Error> Misused(std::string_view name, std::string_view what) {
  return base::Fail(base::ErrorCode::kInvalidArgument, fmt::format("{}: {}", name, what));
}

base::Result<> SetValue(const Option& option, std::string_view name, const std::string& value) {
  auto taken = option.take(value);
  if (!taken) return base::Fail(std::move(taken.error()).In(name));
  return {};
}

class Parser {
 public:
  Parser(const Options& options, const std::vector<std::string>& words) : options_(options), words_(words) {}

  base::Result<std::vector<std::string>> Run(Where mode) {
    std::vector<std::string> rest;
    while (at_ < words_.size()) {
      const std::string& word = words_[at_];
      const bool is_option = word.size() > 1 && word.front() == '-';
      if (word == "--" || (!is_option && mode == Where::kLast)) {
        if (word == "--") ++at_;
        rest.insert(rest.end(), words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
        return rest;
      }
      ++at_;
      if (!is_option)
        rest.push_back(word);
      else if (word.starts_with("--"))
        GPUMAN_TRY(Long(word));
      else
        GPUMAN_TRY(Short(word));
    }
    return rest;
  }

 private:
  base::Result<> Long(const std::string& word) {
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const Option* option = Find(options_, name);
    if (option == nullptr) return Unknown(options_, name);
    if (option->value.empty()) {
      if (equals != std::string::npos) return Misused(name, "it takes no value");
      return SetValue(*option, name, {});
    }
    if (equals != std::string::npos) return SetValue(*option, name, word.substr(equals + 1));
    return Next(*option, name);
  }

  base::Result<> Short(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const std::string name = {'-', word[i]};
      const Option* option = Find(options_, name);
      if (option == nullptr) return Unknown(options_, i == 1 ? word : name);
      if (option->value.empty()) {
        GPUMAN_TRY(SetValue(*option, name, {}));
        continue;
      }
      if (i + 1 == word.size()) return Next(*option, name);
      return SetValue(*option, name, word.substr(word[i + 1] == '=' ? i + 2 : i + 1));
    }
    return {};
  }

  base::Result<> Next(const Option& option, std::string_view name) {
    if (at_ == words_.size())
      return Misused(name, fmt::format("its value is missing: {} {}", name, option.value));
    return SetValue(option, name, words_[at_++]);
  }

  const Options& options_;
  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::string> NamesOf(const Option& option) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= option.names.size();) {
    const auto end = std::min(option.names.find(',', at), option.names.size());
    names.push_back(option.names.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

std::string NameOf(const Option& option) {
  for (const auto& name : NamesOf(option))
    if (name.starts_with("--")) return name;
  return option.names;
}

base::Result<std::vector<std::string>> ParseOptions(const Options& options,
                                                    const std::vector<std::string>& words, Where mode) {
  return Parser(options, words).Run(mode);
}

bool TakesNextWord(const Options& options, std::string_view word) {
  if (word.starts_with("--")) {
    const Option* option = Find(options, word);
    return option != nullptr && !option->value.empty();
  }
  for (std::size_t i = 1; i < word.size(); ++i) {
    const Option* option = Find(options, std::string{'-', word[i]});
    if (option != nullptr && !option->value.empty()) return i + 1 == word.size();
  }
  return false;
}

std::string RenderOptions(const Options& options) {
  constexpr std::size_t kColumn = 34;
  std::string text;
  for (const auto& option : options) {
    if (option.help.empty()) continue;
    const auto names = NamesOf(option);
    std::string left = fmt::format("{}", fmt::join(names, ", "));
    if (!option.value.empty()) left += " " + option.value;
    if (left.size() + 2 < kColumn)
      text += fmt::format("  {:<{}}{}\n", left, kColumn - 2, option.help);
    else
      text += fmt::format("  {}\n{:<{}}{}\n", left, "", kColumn, option.help);
  }
  return text;
}

}  // namespace gpuman::cli::queue
