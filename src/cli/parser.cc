#include "cli/parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "base/nearest.h"
#include "cli/command_line.h"
#include "cli/hints.h"

namespace gpuman::cli {
namespace {

using base::ErrorCode;
using Words = std::vector<std::string>;

// The program whose name Session::PrintError puts in front of every message.
constexpr std::string_view kGpuman = "gpuman";

// A command as CLI11 has it, and what was typed for it.
struct Entry {
  const Command* command = nullptr;
  std::vector<TypedOption> options;
  std::vector<TypedOption> named;  // options that give an argument
};
using Entries = std::map<const CLI::App*, Entry>;

// --- from a command to CLI11

// The parser notes the option in `typed` when it reads it, so that options stay in order.
CLI::Option* AddOption(CLI::App& app, const Option& option, std::vector<TypedOption>& typed) {
  const std::string name = NameOf(option);
  if (option.value.empty())
    return app
        .add_flag_callback(
            option.names,
            [&typed, name] {
              typed.push_back({name, {}});
            },
            option.help)
        ->trigger_on_parse();
  const auto note = [&typed, name](const CLI::results_t& values) {
    typed.push_back({name, values.front()});
    return true;
  };
  return app.add_option(option.names, note, option.help)
      ->type_name(option.value)
      ->expected(1)
      ->allow_extra_args(false)
      ->trigger_on_parse()
      ->required(option.required);
}

void AddOptions(CLI::App& app, const Options& options, std::vector<TypedOption>& typed) {
  for (const auto& option : options) {
    auto* const added = AddOption(app, option, typed);
    if (option.help.empty())
      added->group("");
    else if (!option.heading.empty())
      added->group(option.heading);
  }
}

// CLI11 has options only: Walk takes the arguments.
void AddNamesOfArguments(CLI::App& app, const Arguments& arguments, std::vector<TypedOption>& typed) {
  for (const auto& argument : arguments)
    if (!argument.names.empty()) AddOption(app, {argument.names, argument.value, argument.help, {}}, typed);
}

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// As NameOf in command.h.
std::string NameOf(const CLI::Option& option) {
  return option.get_lnames().empty() ? "-" + option.get_snames().front() : "--" + option.get_lnames().front();
}

// "gpuman job show".
std::string PathOf(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : PathOf(*app.get_parent()) + " " + app.get_name();
}

const CLI::App* FindBelow(const CLI::App& app, const std::string& word) {
  const auto below = app.get_subcommands(nullptr);
  const auto found =
      std::find_if(below.begin(), below.end(), [&](const CLI::App* one) { return one->check_name(word); });
  return found == below.end() ? nullptr : *found;
}

// --- the words of a command line

bool IsOption(const std::string& word) { return word.size() > 1 && word.front() == '-' && word != "--"; }

// Whether the word is a negative number such as "-5", and no option has that name.
bool IsNumber(const CLI::App& app, const std::string& word) {
  return std::isdigit(static_cast<unsigned char>(word[1])) != 0 &&
         app.get_option_no_throw(word.substr(0, 2)) == nullptr;
}

base::Error UnknownOption(const CLI::App& app, const std::string& word) {
  base::Error error{ErrorCode::kInvalidArgument, fmt::format("unknown option '{}'", word), {}};
  const auto name = word.substr(0, word.starts_with("--") ? word.find('=') : 2);
  for (const auto* below : app.get_subcommands(nullptr))
    if (below->get_option_no_throw(name) != nullptr) {
      error.hint = fmt::format("write it behind the command: {} COMMAND {}", PathOf(app), name);
      return error;
    }
  Words names;
  for (const auto* option : app.get_options())
    for (const auto& known : option->get_lnames()) names.push_back("--" + known);
  if (const auto nearest = base::Nearest(word.substr(0, word.find('=')), names))
    error.hint = fmt::format("did you mean {}?", *nearest);
  return error;
}

struct WrongOption {
  const CLI::App* app = nullptr;  // the command that got it
  base::Error error;
  std::string unknown;  // the word, if no option is called so
};

struct Walked {
  const CLI::App* app = nullptr;   // the command that the words lead to
  Words ours;                      // what CLI11 reads: names of commands, options, their values
  Words words;                     // arguments, or the whole of a user's command
  std::optional<Words> trailing;   // the words behind "--", unless a user's command contains it
  std::optional<WrongOption> bad;  // the first wrong option
};

// Sorts the words for CLI11, which gets no arguments and no "=": without Walk, CLI11 would read "--name="
// without a value, and the name of a command among arguments as one more command. An app that is a prefix
// command ends at a word (command.h).
class Walk {
 public:
  Walk(const CLI::App& app, const Words& words) : words_(words) { walked_.app = &app; }

  Walked Go() {
    while (at_ < words_.size()) {
      const std::string& word = words_[at_];
      const bool ends_at_word = walked_.app->get_prefix_command();
      if (word == "--") {
        walked_.trailing = From(at_ + 1);
        break;
      }
      const bool is_option = IsOption(word) && (ends_at_word || !IsNumber(*walked_.app, word));
      if (!is_option && ends_at_word) {
        walked_.words = From(at_);
        break;
      }
      ++at_;
      if (is_option)
        TakeOption(word);
      else
        TakeWord(word);
    }
    return std::move(walked_);
  }

 private:
  Words From(std::size_t at) const {
    return {words_.begin() + static_cast<std::ptrdiff_t>(at), words_.end()};
  }

  void TakeWord(const std::string& word) {
    const auto* const below = walked_.words.empty() ? FindBelow(*walked_.app, word) : nullptr;
    if (below == nullptr) {
      walked_.words.push_back(word);
      return;
    }
    walked_.app = below;
    walked_.ours.push_back(word);
  }

  void TakeOption(const std::string& word) {
    const bool is_long = word.starts_with("--");
    std::size_t end = is_long ? std::min(word.find('='), word.size()) : 2;  // of the option's name
    const auto* option = Find(word.substr(0, end));
    // Several options of one letter may stand in one word: "-ag2".
    for (; !is_long && option != nullptr && !TakesValue(*option) && end < word.size() && word[end] != '=';
         ++end)
      option = Find({'-', word[end]});
    const bool has_equals = end < word.size() && word[end] == '=';
    if (option == nullptr) {
      Unknown(is_long || end == 2 ? word : std::string{'-', word[end - 1]});
    } else if (has_equals && !TakesValue(*option)) {
      Misused(*option, "it takes no value");
    } else if (has_equals) {
      walked_.ours.insert(walked_.ours.end(), {word.substr(0, end), word.substr(end + 1)});
    } else if (!TakesValue(*option) || end < word.size()) {
      walked_.ours.push_back(word);
    } else {
      TakeNext(*option, word);
    }
  }

  // The value of the option is the next word.
  void TakeNext(const CLI::Option& option, const std::string& word) {
    if (at_ == words_.size() || words_[at_] == "--") {
      Misused(option, fmt::format("its value is missing: {} {}", NameOf(option), option.get_type_name()));
      return;
    }
    walked_.ours.insert(walked_.ours.end(), {word, words_[at_++]});
  }

  const CLI::Option* Find(const std::string& name) const { return walked_.app->get_option_no_throw(name); }

  void Unknown(const std::string& word) {
    if (!walked_.bad) walked_.bad = WrongOption{walked_.app, UnknownOption(*walked_.app, word), word};
  }
  void Misused(const CLI::Option& option, const std::string& what) {
    if (walked_.bad) return;
    const auto message = fmt::format("{}: {}", NameOf(option), what);
    walked_.bad = WrongOption{walked_.app, {ErrorCode::kInvalidArgument, message, {}}, {}};
  }

  const Words& words_;
  std::size_t at_ = 0;
  Walked walked_;
};

Words Reversed(const Words& words) { return {words.rbegin(), words.rend()}; }

// --- the help

class Help : public CLI::Formatter {
 public:
  explicit Help(const Entries& entries) : entries_(entries) {}

  std::string make_usage(const CLI::App* app, std::string name) const override {
    const Command& command = *entries_.at(app).command;
    std::string behind;
    for (const auto& argument : command.arguments)
      behind += argument.least > 0 ? " " + ShownAs(argument) : " [" + ShownAs(argument) + "]";
    if (!command.user_command.empty()) behind += " " + command.user_command;
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    return usage.insert(usage.find_last_not_of('\n') + 1, behind);
  }

  std::string make_positionals(const CLI::App* app) const override {
    const Arguments& arguments = entries_.at(app).command->arguments;
    if (arguments.empty()) return {};
    std::ostringstream list;
    for (const auto& argument : arguments)
      CLI::detail::format_help(list, ShownAs(argument), argument.help, column_width_);
    return "\nPositionals:\n" + list.str();
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (!TakesValue(*option)) return {};
    return " " + option->get_type_name() + (option->get_required() ? " (required)" : "");
  }

  // The list shows the first paragraph of the summary.
  std::string make_subcommand(const CLI::App* sub) const override {
    const std::string summary = sub->get_description();
    std::ostringstream line;
    CLI::detail::format_help(line, sub->get_name(), summary.substr(0, summary.find("\n\n")), column_width_);
    return line.str();
  }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    if (mode == CLI::AppFormatMode::Sub) return CLI::Formatter::make_help(app, std::move(name), mode);
    return make_description(app) + make_usage(app, std::move(name)) + make_positionals(app) + Groups(app) +
           make_subcommands(app, mode) + "\n" + make_footer(app);
  }

 private:
  // The usage and the list both show an argument as its kind of value: "JOB...".
  static std::string ShownAs(const Argument& argument) {
    return argument.value + (argument.most > 1 ? "..." : "");
  }

  // The command's own options come first, the options of every command last.
  std::string Groups(const CLI::App* app) const {
    auto groups = app->get_groups();
    std::stable_partition(groups.begin(), groups.end(),
                          [](const std::string& group) { return group != kCommonHeading; });
    std::string text;
    for (const auto& group : groups)
      if (!group.empty())
        text += make_group(group, false, app->get_options([&](const CLI::Option* option) {
          return option->get_group() == group;
        }));
    return text;
  }

  const Entries& entries_;
};

std::string FooterOf(const Command& command) {
  std::string text = command.example.empty() ? "" : "Example:\n  " + command.example;
  if (!command.footer.empty()) text += (text.empty() ? "" : "\n\n") + command.footer;
  return text;
}

// --- command lines

// A program as CLI11 has it, and what was typed. Reads one command line.
class Reading {
 public:
  Reading(const Command& program, const Options& common) : program_(program), common_(common) {
    app_.formatter(std::make_shared<Help>(entries_));
    app_.get_formatter()->column_width(28);
    app_.set_help_flag("-h,--help", kHelpOfHelp);  // the commands below have the same
    app_.set_version_flag(program.name == kGpuman ? "-v,--version" : "-V,--version", "", kHelpOfVersion);
    Fill(app_, program);
  }

  base::Result<Parsed> Read(const Words& words) {
    walked_ = Walk(app_, words).Go();
    std::string required;  // the option that is missing
    try {
      app_.parse(Reversed(walked_.ours));  // the parser takes them from the back
    } catch (const CLI::CallForHelp&) {
      // CLI11 would print the help of the parent for a command that does not exist.
      if (!Asked().commands.empty() && !walked_.words.empty())
        return base::Fail(Extra(walked_.words.front()));
      return Parsed(HelpText{app_.help()});
    } catch (const CLI::CallForVersion&) {
      return Parsed(VersionAsked{});
    } catch (const CLI::ParseError& error) {
      required = error.what();
    }
    if (walked_.bad) return base::Fail(Bad(*walked_.bad));
    if (!Asked().run) return WithoutCommand();
    GPUMAN_ASSIGN(CommandLine line, Line());
    if (!required.empty()) return base::Fail(ErrorOf(*walked_.app, required));
    return Parsed(Chosen{&Asked(), PathOf(*walked_.app), std::move(line), std::move(common_typed_)});
  }

 private:
  void Fill(CLI::App& app, const Command& command) {
    auto& entry = entries_[&app];
    entry.command = &command;
    app.description(command.summary);
    app.footer(FooterOf(command));
    AddOptions(app, common_, common_typed_);
    AddOptions(app, command.options, entry.options);
    AddNamesOfArguments(app, command.arguments, entry.named);
    app.prefix_command(command.ends_at_word);
    app.group(command.heading.empty() ? "Subcommands" : command.heading);
    for (const auto& alias : command.aliases) app.alias(alias);
    for (const auto& below : command.commands) Fill(*app.add_subcommand(below.name), below);
    if (!command.commands.empty()) app.require_subcommand(command.run || &app == &app_ ? 0 : 1, 1);
  }

  const Command& Asked() const { return *entries_.at(walked_.app).command; }

  // Goes in front of messages; PrintError puts "gpuman: " in front of it.
  static std::string Where(const CLI::App& app) {
    const auto path = PathOf(app);
    if (path == kGpuman) return {};
    const std::string program = fmt::format("{} ", kGpuman);
    return (path.starts_with(program) ? path.substr(program.size()) : path) + ": ";
  }

  static base::Error ErrorOf(const CLI::App& app, const std::string& message, std::string hint = {}) {
    if (hint.empty()) hint = fmt::format("see {} --help", PathOf(app));
    return {ErrorCode::kInvalidArgument, Where(app) + message, std::move(hint)};
  }

  static base::Error Bad(const WrongOption& bad) {
    const auto hint = bad.unknown.empty() ? "" : HintFor(PathOf(*bad.app), bad.unknown);
    return ErrorOf(*bad.app, bad.error.message, hint.empty() ? bad.error.hint : hint);
  }

  // The error about a word that is neither a command nor an option nor an argument.
  base::Error Extra(const std::string& word) const {
    const CLI::App& app = *walked_.app;
    if (IsOption(word)) return Bad({&app, UnknownOption(app, word), word});
    const auto nearest = base::Nearest(word, NamesBelow());
    auto hint = HintFor(PathOf(app), word, /*any_word=*/!nearest);
    if (Asked().commands.empty()) {
      if (hint.empty() && !Asked().user_command.empty())
        hint = "write the job's command after --: " + WithDashes(word);
      return ErrorOf(app, fmt::format("unexpected argument '{}'", word), hint);
    }
    if (hint.empty() && nearest) hint = fmt::format("did you mean '{}'?", *nearest);
    return ErrorOf(app, fmt::format("unknown command '{}'", word), hint);
  }

  Words NamesBelow() const {
    Words names;
    for (const auto& below : Asked().commands) names.push_back(below.name);
    return names;
  }

  // How the words look with "--" in front of the user's command. A job needs a tag unless it waits for GPUs.
  std::string WithDashes(const std::string& first) const {
    const auto& typed = entries_.at(walked_.app).options;
    const bool is_whole = std::any_of(typed.begin(), typed.end(), [](const TypedOption& option) {
      return option.name == "--tag" || option.name == "--gpus";
    });
    Words words;
    if (!is_whole && walked_.app->get_option_no_throw("--tag") != nullptr) words = {"--tag", "NAME"};
    for (const auto& [name, value] : typed) {
      const bool is_flag = !TakesValue(*walked_.app->get_option_no_throw(name));
      const bool joined = !is_flag && (value.empty() || value.front() == '-');
      words.push_back(joined ? name + "=" + value : name);
      if (!is_flag && !joined) words.push_back(value);
    }
    words.insert(words.end(), {"--", first});
    return fmt::format("{} {} …", PathOf(*walked_.app), JoinCommand(words));
  }

  // The words lead to a command that only has commands below it.
  base::Result<Parsed> WithoutCommand() const {
    if (!walked_.words.empty()) return base::Fail(Extra(walked_.words.front()));
    if (walked_.app == &app_) return Parsed(NothingAsked{app_.help()});
    const auto names = NamesBelow();
    return base::Fail(
        ErrorOf(*walked_.app, fmt::format("a command is required{} {}", names.size() == 1 ? ":" : ", one of",
                                          fmt::join(names, ", "))));
  }

  // What was typed for the command; an error says which argument is missing or too much.
  base::Result<CommandLine> Line() const {
    const auto& [command, options, named] = entries_.at(walked_.app);
    if (named.size() > 1)
      return base::Fail(ErrorOf(*walked_.app, named.back().name + " is given more than once"));
    CommandLine line{options, walked_.words, walked_.trailing};
    for (const auto& option : named) line.words.insert(line.words.begin(), option.value);
    if (command->ends_at_word) return line;
    if (line.trailing && command->user_command.empty()) {
      if (command->arguments.empty())
        return base::Fail(ErrorOf(*walked_.app, "it takes no command after --"));
      line.words.insert(line.words.end(), line.trailing->begin(), line.trailing->end());
      line.trailing.reset();
    }
    GPUMAN_TRY(CheckNumber(*command, line.words));
    return line;
  }

  base::Result<> CheckNumber(const Command& command, const Words& words) const {
    std::size_t left = words.size();
    for (const auto& argument : command.arguments) {
      if (left < argument.least) {
        const auto example = command.example.substr(0, command.example.find('\n'));
        return base::Fail(ErrorOf(*walked_.app, argument.value + " is required",
                                  example.empty() ? "" : "for example: " + example));
      }
      left -= std::min(left, argument.most);
    }
    if (left > 0) return base::Fail(Extra(words[words.size() - left]));
    return {};
  }

  const Command& program_;
  const Options& common_;
  Entries entries_;
  std::vector<TypedOption> common_typed_;
  Walked walked_;
  CLI::App app_{"", program_.name};
};

}  // namespace

base::Result<Parsed> ReadCommandLine(const Command& program, const Options& common, const Words& words) {
  return Reading(program, common).Read(words);
}

Words WithHelpAsOption(const Command& program, Words words) {
  if (words.empty()) return words;
  const bool has_commands = !program.commands.empty();
  if (has_commands && words.front() == "version") words.front() = "--version";
  if (words.front() != "help") return words;
  if (!has_commands) return {"--help"};
  words.erase(words.begin());
  const Command* command = &program;
  auto at = words.begin();
  for (; at != words.end(); ++at) {
    const Command* const below = FindCommand(*command, *at);
    if (below == nullptr) break;
    command = below;
  }
  if (command->ends_at_word) at = words.erase(at, words.end());
  words.insert(at, "--help");
  return words;
}

struct OptionReader::Reader {
  const Options& options;
  std::vector<TypedOption> typed;
  CLI::App app;
};

OptionReader::OptionReader(const Options& options, bool ends_at_word)
    : reader_(new Reader{options, {}, CLI::App{}}) {
  reader_->app.set_help_flag();
  reader_->app.prefix_command(ends_at_word);
  AddOptions(reader_->app, options, reader_->typed);
}

OptionReader::~OptionReader() = default;

base::Result<Words> OptionReader::Read(const Words& words) {
  auto& [options, typed, app] = *reader_;
  typed.clear();
  auto walked = Walk(app, words).Go();
  if (walked.bad) return base::Fail(std::move(walked.bad->error));
  try {
    app.parse(Reversed(walked.ours));
  } catch (const CLI::ParseError& error) {
    return base::Fail(ErrorCode::kInvalidArgument, error.what());
  }
  GPUMAN_TRY(TakeOptions(options, typed));
  Words rest = std::move(walked.words);
  if (!walked.trailing) return rest;
  if (app.get_prefix_command()) rest.emplace_back("--");
  rest.insert(rest.end(), walked.trailing->begin(), walked.trailing->end());
  return rest;
}

}  // namespace gpuman::cli
