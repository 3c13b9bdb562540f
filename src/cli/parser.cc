#include "cli/parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "base/nearest.h"
#include "cli/command_help.h"
#include "cli/command_line.h"
#include "cli/command_words.h"
#include "cli/hints.h"

namespace gpuman::cli {
namespace {

using base::ErrorCode;
using Words = std::vector<std::string>;

// The program whose name Session::PrintError puts in front of every message.
constexpr std::string_view kGpuman = "gpuman";

// A command as CLI11 has it, and what was typed for it.
struct ParsedCommand {
  const Command* command = nullptr;
  std::vector<ParsedOption> options;
  std::vector<ParsedOption> named;  // options that give an argument
};
using ParsedCommands = std::map<const CLI::App*, ParsedCommand>;

Words Reversed(const Words& words) { return {words.rbegin(), words.rend()}; }

// The parser notes the option in `typed` when it reads it, so that options stay in order.
CLI::Option* AddOption(CLI::App& app, const Option& option, std::vector<ParsedOption>& typed) {
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

void AddOptions(CLI::App& app, const Options& options, std::vector<ParsedOption>& typed) {
  for (const auto& option : options) {
    auto* const added = AddOption(app, option, typed);
    if (option.help.empty())
      added->group("");
    else if (!option.heading.empty())
      added->group(option.heading);
  }
}

// CLI11 has options only: SortWords takes the arguments.
void AddNamesOfArguments(CLI::App& app, const Arguments& arguments, std::vector<ParsedOption>& typed) {
  for (const auto& argument : arguments)
    if (!argument.names.empty()) AddOption(app, {argument.names, argument.value, argument.help, {}}, typed);
}

// A program as CLI11 has it, and what was typed. Reads one command line.
class Reading {
 public:
  Reading(const Command& program, const Options& common) : program_(program), common_(common) {
    app_.formatter(
        HelpFormatter([this](const CLI::App* app) -> const Command& { return *entries_.at(app).command; }));
    app_.set_help_flag("-h,--help", kHelpOfHelp);  // the commands below have the same
    app_.set_version_flag(program.name == kGpuman ? "-v,--version" : "-V,--version", "", kHelpOfVersion);
    Fill(app_, program);
  }

  base::Result<Parsed> Read(const Words& words) {
    sorted_ = SortWords(app_, words);
    std::string required;  // the option that is missing
    try {
      app_.parse(Reversed(sorted_.ours));  // the parser takes them from the back
    } catch (const CLI::CallForHelp&) {
      // CLI11 would print the help of the parent for a command that does not exist.
      if (!Asked().commands.empty() && !sorted_.words.empty())
        return base::Fail(Extra(sorted_.words.front()));
      return Parsed(HelpText{app_.help()});
    } catch (const CLI::CallForVersion&) {
      return Parsed(VersionAsked{});
    } catch (const CLI::ParseError& error) {
      required = error.what();
    }
    if (sorted_.bad)
      return base::Fail(IsForNoCommand(*sorted_.bad) ? Extra(sorted_.words.front()) : Bad(*sorted_.bad));
    if (!Asked().run) return WithoutCommand();
    GPUMAN_ASSIGN(CommandLine line, Line());
    if (!required.empty()) return base::Fail(ErrorOf(*sorted_.app, required));
    return Parsed(
        RequestedCommand{&Asked(), PathOf(*sorted_.app), std::move(line), std::move(common_options_)});
  }

 private:
  void Fill(CLI::App& app, const Command& command) {
    auto& entry = entries_[&app];
    entry.command = &command;
    app.description(command.summary);
    app.footer(FooterOf(command));
    AddOptions(app, common_, common_options_);
    AddOptions(app, command.options, entry.options);
    AddNamesOfArguments(app, command.arguments, entry.named);
    app.prefix_command(command.ends_at_word);
    app.group(command.heading.empty() ? "Subcommands" : command.heading);
    for (const auto& alias : command.aliases) app.alias(alias);
    for (const auto& below : command.commands) Fill(*app.add_subcommand(below.name), below);
    if (!command.commands.empty()) app.require_subcommand(command.run || &app == &app_ ? 0 : 1, 1);
  }

  const Command& Asked() const { return *entries_.at(sorted_.app).command; }

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

  // Whether the wrong option is one of a command that does not exist: then the command's name is the mistake.
  // A word behind the option may be the option's value.
  bool IsForNoCommand(const WrongOption& bad) const {
    const bool is_command = bad.app == sorted_.app && !Asked().commands.empty() && Asked().arguments.empty();
    if (!is_command || sorted_.words.empty()) return false;
    if (bad.words_before > 0) return true;
    const bool is_known = !HintFor(PathOf(*bad.app), sorted_.words.front(), /*any_word=*/false).empty();
    return is_known && !bad.unknown.empty() && !TakesValueBelow(*bad.app, bad.unknown);
  }

  // The error about a word that is neither a command nor an option nor an argument.
  base::Error Extra(const std::string& word) const {
    const CLI::App& app = *sorted_.app;
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
    const auto& typed = entries_.at(sorted_.app).options;
    const bool is_whole = std::any_of(typed.begin(), typed.end(), [](const ParsedOption& option) {
      return option.name == "--tag" || option.name == "--gpus";
    });
    Words words;
    if (!is_whole && sorted_.app->get_option_no_throw("--tag") != nullptr) words = {"--tag", "NAME"};
    for (const auto& [name, value] : typed) {
      const bool is_flag = !TakesValue(*sorted_.app->get_option_no_throw(name));
      const bool joined = !is_flag && (value.empty() || value.front() == '-');
      words.push_back(joined ? fmt::format("{}={}", name, value) : name);
      if (!is_flag && !joined) words.push_back(value);
    }
    words.insert(words.end(), {"--", first});
    return fmt::format("{} {} …", PathOf(*sorted_.app), JoinCommand(words));
  }

  // The words lead to a command that only has commands below it.
  base::Result<Parsed> WithoutCommand() const {
    if (!sorted_.words.empty()) return base::Fail(Extra(sorted_.words.front()));
    if (sorted_.app == &app_) return Parsed(NothingAsked{app_.help()});
    const auto names = NamesBelow();
    return base::Fail(
        ErrorOf(*sorted_.app, fmt::format("a command is required{} {}", names.size() == 1 ? ":" : ", one of",
                                          fmt::join(names, ", "))));
  }

  // What was typed for the command; an error says which argument is missing or too much.
  base::Result<CommandLine> Line() const {
    const auto& [command, options, named] = entries_.at(sorted_.app);
    if (named.size() > 1)
      return base::Fail(ErrorOf(*sorted_.app, named.back().name + " is given more than once"));
    CommandLine line{options, sorted_.words, sorted_.trailing};
    for (const auto& option : named) line.words.insert(line.words.begin(), option.value);
    if (command->ends_at_word) return line;
    if (line.trailing && command->user_command.empty()) {
      if (command->arguments.empty())
        return base::Fail(ErrorOf(*sorted_.app, "it takes no command after --"));
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
        return base::Fail(ErrorOf(*sorted_.app, argument.value + " is required",
                                  example.empty() ? "" : "for example: " + example));
      }
      left -= std::min(left, argument.most);
    }
    if (left == 0) return {};
    const auto& extra = words[words.size() - left];
    const auto& named = entries_.at(sorted_.app).named;
    if (named.empty()) return base::Fail(Extra(extra));
    const auto& [name, value] = named.front();
    return base::Fail(ErrorOf(*sorted_.app,
                              fmt::format("unexpected argument '{}': {} {} is the {} already", extra, name,
                                          value, command.arguments.front().value),
                              HintFor(PathOf(*sorted_.app), name)));
  }

  const Command& program_;
  const Options& common_;
  ParsedCommands entries_;
  std::vector<ParsedOption> common_options_;
  ClassifiedWords sorted_;
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

struct OptionParser::Reader {
  const Options& options;
  std::vector<ParsedOption> typed;
  CLI::App app;
};

OptionParser::OptionParser(const Options& options, bool ends_at_word)
    : reader_(new Reader{options, {}, CLI::App{}}) {
  reader_->app.set_help_flag();
  reader_->app.prefix_command(ends_at_word);
  AddOptions(reader_->app, options, reader_->typed);
}

OptionParser::~OptionParser() = default;

base::Result<Words> OptionParser::Read(const Words& words) {
  auto& [options, typed, app] = *reader_;
  typed.clear();
  auto sorted = SortWords(app, words);
  if (sorted.bad) return base::Fail(std::move(sorted.bad->error));
  try {
    app.parse(Reversed(sorted.ours));
  } catch (const CLI::ParseError& error) {
    return base::Fail(ErrorCode::kInvalidArgument, error.what());
  }
  GPUMAN_TRY(TakeOptions(options, typed));
  Words rest = std::move(sorted.words);
  if (!sorted.trailing) return rest;
  if (app.get_prefix_command()) rest.emplace_back("--");
  rest.insert(rest.end(), sorted.trailing->begin(), sorted.trailing->end());
  return rest;
}

}  // namespace gpuman::cli
