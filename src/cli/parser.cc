#include "cli/parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <sstream>

#include "base/nearest.h"
#include "cli/command_line.h"
#include "cli/hints.h"

namespace gpuman::cli {
namespace {

using base::ErrorCode;
using Words = std::vector<std::string>;
using CommandOf = std::map<const CLI::App*, const Command*>;

// --- from a command to CLI11

// Notes each option in `typed` when it is read, so that they stay in order.
void AddOptions(CLI::App& app, const Options& options, std::vector<TypedOption>& typed) {
  for (const auto& option : options) {
    const std::string name = NameOf(option);
    CLI::Option* added = option.value.empty() ? app.add_flag_callback(
                                                       option.names,
                                                       [&typed, name] {
                                                         typed.push_back({name, {}});
                                                       },
                                                       option.help)
                                                    ->disable_flag_override()
                                              : app.add_option(
                                                       option.names,
                                                       [&typed, name](const CLI::results_t& values) {
                                                         for (const auto& value : values)
                                                           typed.push_back({name, value});
                                                         return true;
                                                       },
                                                       option.help)
                                                    ->type_name(option.value)
                                                    ->expected(1)
                                                    ->allow_extra_args(false);
    added->trigger_on_parse()->required(option.required);
    if (option.help.empty())
      added->group("");
    else if (!option.heading.empty())
      added->group(option.heading);
  }
}

void AddArguments(CLI::App& app, const Arguments& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& [value, least, most, help, names] = arguments[i];
    auto* added = app.add_option(
        fmt::format("argument{}{}{}", i, names.empty() ? "" : ",", names),
        [](const CLI::results_t&) { return true; }, help);
    added->type_name(value)->required(least > 0);
    if (most > 1)
      added->allow_extra_args()->expected(
          1, most == kAnyNumber ? CLI::detail::expected_max_vector_size : static_cast<int>(most));
  }
}

// The words that were typed for a command's arguments.
Words WordsOf(const CLI::App& app) {
  Words words;
  for (const auto* option : app.get_options())
    if (option->get_positional())
      words.insert(words.end(), option->results().begin(), option->results().end());
  const auto rest = app.remaining();
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

// --- the help

class Help : public CLI::Formatter {
 public:
  explicit Help(const CommandOf& commands) : commands_(commands) {}

  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    const auto command = commands_.find(app);
    if (command != commands_.end() && !command->second->user_command.empty())
      usage.insert(usage.find_last_not_of('\n') + 1, " " + command->second->user_command);
    return usage;
  }

  // The usage and the list both show an argument as its kind of value: "JOB...".
  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string name = option->get_type_name() + (TakesSeveral(option) ? "..." : "");
    return option->get_required() ? name : "[" + name + "]";
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    if (!is_positional) return CLI::Formatter::make_option(option, false);
    std::ostringstream line;
    CLI::detail::format_help(line, option->get_type_name() + (TakesSeveral(option) ? "..." : ""),
                             option->get_description(), column_width_);
    return line.str();
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0 || option->get_items_expected_max() == 0) return {};
    const std::string text = option->get_type_name().empty() ? "" : " " + option->get_type_name();
    // An option that also serves as a positional argument is not required by itself.
    return option->get_required() && !option->get_positional() ? text + " (required)" : text;
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
  static bool TakesSeveral(const CLI::Option* option) { return option->get_expected_max() > 1; }

  // The command's own options come first, the options of every command last.
  std::string Groups(const CLI::App* app) const {
    auto groups = app->get_groups();
    std::stable_partition(groups.begin(), groups.end(),
                          [](const std::string& group) { return group != kCommonHeading; });
    std::string text;
    for (const auto& group : groups) {
      const auto options = app->get_options(
          [&](const CLI::Option* option) { return option->get_group() == group && option->nonpositional(); });
      if (!group.empty() && !options.empty()) text += make_group(group, false, options);
    }
    return text;
  }

  const CommandOf& commands_;
};

std::string FooterOf(const Command& command) {
  std::string text = command.example.empty() ? "" : "Example:\n  " + command.example;
  if (!command.footer.empty()) text += (text.empty() ? "" : "\n\n") + command.footer;
  return text;
}

// --- errors

// Rewords what the parser says: "Could not convert: --since = x", "--tag: 1 required NAME missing".
std::string Reworded(const std::string& text) {
  constexpr std::string_view kRequired = ": 1 required ";
  constexpr std::string_view kMissing = " missing";
  constexpr std::string_view kOverride = " was given a disallowed flag override";
  if (const auto at = text.find(kRequired); at != text.npos && text.ends_with(kMissing)) {
    const auto name = text.substr(0, at);
    const auto value =
        text.substr(at + kRequired.size(), text.size() - at - kRequired.size() - kMissing.size());
    return fmt::format("{0}: its value is missing: {0} {1}", name, value);
  }
  if (text.ends_with(kOverride)) {
    const auto name = text.substr(0, text.size() - kOverride.size());
    return fmt::format("{}{}: it takes no value", name.size() > 1 ? "--" : "-", name);
  }
  return text;
}

base::Error UnknownOption(const Options& options, const std::string& word) {
  Words names;
  for (const auto& option : options)
    for (auto& name : NamesOf(option))
      if (name.starts_with("--")) names.push_back(std::move(name));
  base::Error error{ErrorCode::kInvalidArgument, fmt::format("unknown option '{}'", word), {}};
  if (const auto nearest = base::Nearest(word.substr(0, word.find('=')), names))
    error.hint = fmt::format("did you mean {}?", *nearest);
  return error;
}

bool IsOption(const std::string& word) { return word.size() > 1 && word.front() == '-' && word != "--"; }

// A program as CLI11 has it, and what was typed.
class Reading {
 public:
  Reading(const Command& program, const Options& common) : program_(program), common_(common) {
    app_.formatter(std::make_shared<Help>(commands_));
    app_.get_formatter()->column_width(28);
    app_.set_version_flag("-v,-V,--version", "", "Print the version and exit");
    Fill(app_, program);
    app_.get_option("--help")->description("Print this help and exit");
  }

  base::Result<Parsed> Read(const Words& words) {
    auto ours = words;
    const auto dashes = std::find(ours.begin(), ours.end(), "--");
    std::optional<Words> trailing;
    if (dashes != ours.end()) trailing.emplace(dashes + 1, ours.end());
    ours.erase(dashes, ours.end());
    std::reverse(ours.begin(), ours.end());  // the parser takes them from the back
    try {
      app_.parse(std::move(ours));
    } catch (const CLI::CallForHelp&) {
      if (auto unknown = WithoutHelp()) return base::Fail(std::move(*unknown));
      return Parsed(HelpText{app_.help()});
    } catch (const CLI::CallForVersion&) {
      return Parsed(VersionAsked{});
    } catch (const CLI::ParseError& error) {
      return base::Fail(UsageError(error));
    }
    const Command& command = *commands_.at(&Deepest());
    if (!command.run) return Parsed(NothingAsked{app_.help()});
    Chosen chosen{&command,
                  Path(),
                  {std::move(typed_), WordsOf(Deepest()), std::move(trailing)},
                  std::move(typed_common_)};
    GPUMAN_TRY(Check(chosen));
    return Parsed(std::move(chosen));
  }

 private:
  void Fill(CLI::App& app, const Command& command) {
    commands_[&app] = &command;
    app.description(command.summary);
    app.footer(FooterOf(command));
    AddOptions(app, common_, typed_common_);
    AddOptions(app, command.options, typed_);
    AddArguments(app, command.arguments);
    if (command.ends_at_word) app.prefix_command();
    if (!command.heading.empty()) app.group(command.heading);
    for (const auto& alias : command.aliases) app.alias(alias);
    for (const auto& below : command.commands) {
      auto* const sub = app.add_subcommand(below.name);
      sub->prefix_command(false);
      Fill(*sub, below);
    }
    // The program itself shows its help when nothing was typed.
    if (!command.commands.empty() && !command.run && &app != &app_) app.require_subcommand(1);
  }

  // The command that the words led to.
  const CLI::App& Deepest() const {
    const CLI::App* app = &app_;
    while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
    return *app;
  }

  // "gpuman job show".
  std::string Path() const {
    std::string path = program_.name;
    for (const CLI::App* app = &app_; !app->get_subcommands().empty();) {
      app = app->get_subcommands().front();
      path += " " + app->get_name();
    }
    return path;
  }
  // The same without the program, with a colon; goes in front of messages, which begin with "gpuman: ".
  std::string Where() const {
    const auto path = Path();
    return path.size() > program_.name.size() ? path.substr(program_.name.size() + 1) + ": " : "";
  }

  base::Result<> Check(const Chosen& chosen) const {
    const auto& [command, path, line, common] = chosen;
    if (command->ends_at_word && !line.words.empty() && IsOption(line.words.front())) {
      // CLI11 takes an unknown option for the beginning of the user's command.
      auto error = UnknownOption(OptionsOf(*command), line.words.front());
      if (const auto hint = HintFor(Path(), line.words.front()); !hint.empty()) error.hint = hint;
      return base::Fail(std::move(error));
    }
    if (line.trailing && command->user_command.empty())
      return base::Fail(ErrorCode::kInvalidArgument, Where() + "it takes no command after --",
                        fmt::format("see {} --help", Path()));
    return {};
  }

  Options OptionsOf(const Command& command) const {
    Options all = command.options;
    all.insert(all.end(), common_.begin(), common_.end());
    all.push_back({"-h,--help", "", "", {}});
    return all;
  }

  // What the command line lacks, in the words of the help; empty: the error is another one.
  std::string Missing(const CLI::ParseError& error) const {
    if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::RequiredError)) return {};
    const Command& command = *commands_.at(&Deepest());
    Words names;
    for (const auto& below : command.commands) names.push_back(below.name);
    if (!names.empty())
      return fmt::format("a command is required{} {}", names.size() == 1 ? ":" : ", one of",
                         fmt::join(names, ", "));
    for (const auto* option : Deepest().get_options())
      if (option->get_required() && option->get_positional() && option->count() == 0)
        return fmt::format("{} is required", option->get_type_name());
    return {};
  }

  // How the words look with "--" in front of the user's command.
  std::string WithDashes(const std::string& first) const {
    Words words;
    for (const auto& [name, value] : typed_) {
      words.push_back(name);
      if (!value.empty()) words.push_back(value);
    }
    return fmt::format("{} {}{}-- {} …", Path(), JoinCommand(words), words.empty() ? "" : " ", first);
  }

  base::Error UsageError(const CLI::ParseError& error) const {
    const Command& command = *commands_.at(&Deepest());
    base::Error usage{ErrorCode::kInvalidArgument, Reworded(error.what()),
                      fmt::format("see {} --help", Path())};
    if (const auto missing = Missing(error); !missing.empty()) {
      usage.message = Where() + missing;
      const auto example = command.example.substr(0, command.example.find('\n'));
      if (!example.empty() && command.commands.empty()) usage.hint = "for example: " + example;
    }
    const auto extras = app_.remaining(/*recurse=*/true);
    if (extras.empty()) return usage;
    const std::string& first = extras.front();
    const std::string known_hint = HintFor(Path(), first);
    const bool is_extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
    if (is_extra || !command.commands.empty()) usage = WithExtra(command, first, std::move(usage));
    if (!known_hint.empty()) usage.hint = known_hint;
    return usage;
  }

  // The error about a word that nothing takes.
  base::Error WithExtra(const Command& command, const std::string& word, base::Error usage) const {
    if (IsOption(word)) {
      auto unknown = UnknownOption(OptionsOf(command), word);
      usage.message = Where() + unknown.message;
      if (!unknown.hint.empty()) usage.hint = unknown.hint;
      return usage;
    }
    if (command.commands.empty()) {
      usage.message = fmt::format("{}unexpected argument '{}'", Where(), word);
      if (!command.user_command.empty())
        usage.hint = fmt::format("write the job's command after --: {}", WithDashes(word));
      return usage;
    }
    usage.message = fmt::format("{}unknown command '{}'", Where(), word);
    Words names;
    for (const auto& below : command.commands) names.push_back(below.name);
    if (const auto nearest = base::Nearest(word, names))
      usage.hint = fmt::format("did you mean '{}'?", *nearest);
    return usage;
  }

  // The error for the help of a command that does not exist; CLI11 would print the help of the parent
  // command.
  std::optional<base::Error> WithoutHelp() const {
    const Command& command = *commands_.at(&Deepest());
    const auto extras = app_.remaining(/*recurse=*/true);
    if (command.commands.empty() || extras.empty() || IsOption(extras.front())) return std::nullopt;
    return UsageError(CLI::ExtrasError(extras));
  }

  const Command& program_;
  const Options& common_;
  CommandOf commands_;
  std::vector<TypedOption> typed_;
  std::vector<TypedOption> typed_common_;
  CLI::App app_{"", program_.name};
};

}  // namespace

base::Result<Parsed> ReadCommandLine(const Command& program, const Options& common, const Words& words) {
  return Reading(program, common).Read(words);
}

Words WithHelpAsOption(Words words) {
  if (words.empty()) return words;
  if (words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  } else if (words.front() == "version") {
    words.front() = "--version";
  }
  return words;
}

struct OptionReader::Reader {
  const Options& options;
  std::vector<TypedOption> typed;
  CLI::App app;
};

OptionReader::OptionReader(const Options& options, bool ends_at_word)
    : reader_(new Reader{options, {}, CLI::App{}}) {
  auto& app = reader_->app;
  app.set_help_flag();
  AddOptions(app, options, reader_->typed);
  ends_at_word ? app.prefix_command() : app.allow_extras();
}

OptionReader::~OptionReader() = default;

base::Result<Words> OptionReader::Read(const Words& words) {
  auto& [options, typed, app] = *reader_;
  typed.clear();
  try {
    app.parse(Words(words.rbegin(), words.rend()));  // the parser takes them from the back
  } catch (const CLI::ParseError& error) {
    return base::Fail(ErrorCode::kInvalidArgument, Reworded(error.what()));
  }
  const auto rest = app.remaining();
  const bool dashes = std::find(words.begin(), words.end(), "--") != words.end();
  const auto unknown = std::find_if(rest.begin(), rest.end(), IsOption);
  if (unknown != rest.end() && (!app.get_prefix_command() ? !dashes : unknown == rest.begin()))
    return base::Fail(UnknownOption(options, *unknown));
  GPUMAN_TRY(TakeOptions(options, typed));
  return rest;
}

}  // namespace gpuman::cli
