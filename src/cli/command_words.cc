#include "cli/command_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"
#include "base/text.h"
#include "cli/hints.h"

namespace gpuman::cli {
namespace {

using base::ErrorCode;

// As NameOf in command.h.
std::string LongNameOf(const CLI::Option& option) {
  return option.get_lnames().empty() ? "-" + option.get_snames().front() : "--" + option.get_lnames().front();
}

const CLI::App* FindBelow(const CLI::App& app, const std::string& word) {
  const auto below = app.get_subcommands(nullptr);
  const auto found =
      std::find_if(below.begin(), below.end(), [&](const CLI::App* one) { return one->check_name(word); });
  return found == below.end() ? nullptr : *found;
}

// Whether the word is a negative number such as "-5", and no option has that name.
bool IsNumber(const CLI::App& app, const std::string& word) {
  return base::IsDigit(word[1]) && app.get_option_no_throw(word.substr(0, 2)) == nullptr;
}

class WordSorter {
 public:
  WordSorter(const CLI::App& app, const std::vector<std::string>& words) : words_(words) {
    sorted_.app = &app;
  }

  ClassifiedWords Sort() {
    while (at_ < words_.size()) {
      const std::string& word = words_[at_];
      const bool ends_at_word = sorted_.app->get_prefix_command();
      if (word == "--") {
        sorted_.trailing = From(at_ + 1);
        break;
      }
      const bool is_option =
          IsOption(word) && (ends_at_word || !IsNumber(*sorted_.app, word) || IsOfAnotherProgram(word));
      if (!is_option && ends_at_word) {
        sorted_.words = From(at_);
        break;
      }
      ++at_;
      if (is_option)
        TakeOption(word);
      else
        TakeWord(word);
    }
    return std::move(sorted_);
  }

 private:
  std::vector<std::string> From(std::size_t at) const {
    return {words_.begin() + static_cast<std::ptrdiff_t>(at), words_.end()};
  }

  void TakeWord(const std::string& word) {
    const auto* const below = sorted_.words.empty() ? FindBelow(*sorted_.app, word) : nullptr;
    if (below == nullptr) {
      sorted_.words.push_back(word);
      return;
    }
    sorted_.app = below;
    sorted_.ours.push_back(word);
  }

  void TakeOption(const std::string& word) {
    const bool is_long = word.starts_with("--");
    if (!is_long && word.size() > 2 && IsOfAnotherProgram(word)) return Unknown(word, word);
    std::size_t end = is_long ? std::min(word.find('='), word.size()) : 2;  // of the option's name
    const auto* option = Find(word.substr(0, end));
    // Several options of one letter may stand in one word: "-ag2".
    for (; !is_long && option != nullptr && !TakesValue(*option) && end < word.size() && word[end] != '=';
         ++end)
      option = Find({'-', word[end]});
    const bool has_equals = end < word.size() && word[end] == '=';
    if (option == nullptr) {
      const auto unknown = is_long || end == 2 ? word : std::string{'-', word[end - 1]};
      Unknown(unknown, unknown);
    } else if (has_equals && !TakesValue(*option)) {
      Misused(*option, "it takes no value");
    } else if (has_equals) {
      sorted_.ours.insert(sorted_.ours.end(), {word.substr(0, end), word.substr(end + 1)});
    } else if (!TakesValue(*option) || end < word.size()) {
      sorted_.ours.push_back(word);
    } else {
      TakeNext(*option, word);
    }
  }

  // The value of the option is the next word.
  void TakeNext(const CLI::Option& option, const std::string& word) {
    if (at_ == words_.size() || words_[at_] == "--") {
      Misused(option, fmt::format("its value is missing: {} {}", LongNameOf(option), option.get_type_name()));
      return;
    }
    const std::string& next = words_[at_++];
    const bool both_short = word.size() == 2 && next.size() == 2 && IsOption(next);
    if (both_short && IsOfAnotherProgram(word + next[1]))
      return Unknown(fmt::format("{} {}", word, next), word + next[1]);
    sorted_.ours.insert(sorted_.ours.end(), {word, next});
  }

  // "-ti", for whose words there is a hint: gpuman has an option "-t" with a value, but who types this means
  // another program's options.
  bool IsOfAnotherProgram(const std::string& letters) const {
    return !HintFor(PathOf(*sorted_.app), letters).empty();
  }

  const CLI::Option* Find(const std::string& name) const { return sorted_.app->get_option_no_throw(name); }

  // `typed` is what the user wrote; the hint is for `word`.
  void Unknown(const std::string& typed, const std::string& word) {
    if (!sorted_.bad)
      sorted_.bad = WrongOption{sorted_.app, UnknownOption(*sorted_.app, typed), word, sorted_.words.size()};
  }
  void Misused(const CLI::Option& option, const std::string& what) {
    if (sorted_.bad) return;
    const auto message = fmt::format("{}: {}", LongNameOf(option), what);
    sorted_.bad =
        WrongOption{sorted_.app, {ErrorCode::kInvalidArgument, message, {}}, {}, sorted_.words.size()};
  }

  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  ClassifiedWords sorted_;
};

}  // namespace

bool IsOption(const std::string& word) { return word.size() > 1 && word.front() == '-' && word != "--"; }

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::string PathOf(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : PathOf(*app.get_parent()) + " " + app.get_name();
}

bool TakesValueBelow(const CLI::App& app, const std::string& name) {
  const auto below = app.get_subcommands(nullptr);
  return std::any_of(below.begin(), below.end(), [&](const CLI::App* one) {
    const auto* const option = one->get_option_no_throw(name);
    return option != nullptr && TakesValue(*option);
  });
}

base::Error UnknownOption(const CLI::App& app, const std::string& word) {
  base::Error error{ErrorCode::kInvalidArgument, fmt::format("unknown option '{}'", word), {}};
  const auto name = word.substr(0, word.starts_with("--") ? word.find('=') : 2);
  for (const auto* below : app.get_subcommands(nullptr))
    if (below->get_option_no_throw(name) != nullptr) {
      error.hint = fmt::format("write it behind the command: {} COMMAND {}", PathOf(app), name);
      return error;
    }
  std::vector<std::string> names;
  for (const auto* option : app.get_options())
    for (const auto& known : option->get_lnames()) names.push_back("--" + known);
  if (const auto nearest = base::Nearest(word.substr(0, word.find('=')), names))
    error.hint = fmt::format("did you mean {}?", *nearest);
  return error;
}

ClassifiedWords SortWords(const CLI::App& app, const std::vector<std::string>& words) {
  return WordSorter(app, words).Sort();
}

}  // namespace gpuman::cli
