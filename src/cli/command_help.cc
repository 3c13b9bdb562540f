#include "cli/command_help.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "cli/command_words.h"

namespace gpuman::cli {
namespace {

class Help : public CLI::Formatter {
 public:
  explicit Help(CommandOf command_of) : command_of_(std::move(command_of)) {}

  std::string make_usage(const CLI::App* app, std::string name) const override {
    const Command& command = command_of_(app);
    std::string behind;
    for (const auto& argument : command.arguments)
      behind += argument.least > 0 ? " " + ShownAs(argument) : " [" + ShownAs(argument) + "]";
    if (!command.user_command.empty()) behind += " " + command.user_command;
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    return usage.insert(usage.find_last_not_of('\n') + 1, behind);
  }

  std::string make_positionals(const CLI::App* app) const override {
    const Arguments& arguments = command_of_(app).arguments;
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

  const CommandOf command_of_;
};

}  // namespace

std::shared_ptr<CLI::Formatter> HelpFormatter(CommandOf command_of) {
  auto help = std::make_shared<Help>(std::move(command_of));
  help->column_width(28);
  return help;
}

std::string FooterOf(const Command& command) {
  std::string text = command.example.empty() ? "" : "Example:\n  " + command.example;
  if (!command.footer.empty()) text += (text.empty() ? "" : "\n\n") + command.footer;
  return text;
}

}  // namespace gpuman::cli
