// Binds the queue's commands to gpuman's parser. The parser collects the values; the table's functions take
// them when the command runs, so that their errors are the same as in every other place that uses the table.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/hints.h"
#include "cli/queue/commands.h"
#include "cli/queue/submit.h"

namespace gpuman::cli {
namespace {

using queue::Command;
using queue::Flavour;

// The values that the parser found for each option of a table, and the positional words.
struct ParsedOptions {
  std::vector<std::vector<std::string>> values;
  std::vector<int> flags;
  std::vector<std::string> words;

  // The options in the form that the table's own parser reads.
  std::vector<std::string> Options(const queue::Options& table) const {
    std::vector<std::string> options;
    for (std::size_t i = 0; i < table.size(); ++i) {
      const auto name = queue::NameOf(table[i]);
      for (const auto& value : values[i]) options.push_back(fmt::format("{}={}", name, value));
      for (int k = 0; k < flags[i]; ++k) options.push_back(name);
    }
    return options;
  }
};

void BindOptions(CLI::App* app, const queue::Options& table, ParsedOptions& given) {
  given.values.resize(table.size());
  given.flags.resize(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto& [names, value, help, take, group, sets] = table[i];
    CLI::Option* option = value.empty() ? app->add_flag(names, given.flags[i], help)
                                        : app->add_option(names, given.values[i], help)
                                              ->type_name(value)
                                              ->expected(1)
                                              ->take_all()
                                              ->allow_extra_args(false);
    if (help.empty())
      option->group("");
    else if (!group.empty())
      option->group(group);
  }
}

// Describes the positional words of a command.
std::string DescriptionOf(const Command& command) {
  const bool one = command.most_words == 1;
  if (command.word == "JOB")
    return one ? "The job: its id or tag, 7_3 for a task of an array, or @ for your last submission"
               : "Jobs: ids, tags, 7_3 (a task of an array), 5-9, @ (your last submission), or several with "
                 "commas";
  if (command.word == "GPU") return one ? "The GPU, by index or UUID" : "GPUs, by index or UUID";
  if (command.word == "ID") return one ? "The id that the list shows" : "The ids that the list shows";
  return command.word_help;
}

CLI::App* Bind(const Registry& registry, Command made, CLI::App* parent = nullptr) {
  const auto command =
      std::make_shared<Command>(std::move(made));  // shared by the parser's bindings and the action
  const auto given = std::make_shared<ParsedOptions>();
  auto* app = registry.Add(
      command->name, command->summary, command->example,
      [command, given](Session& session) -> base::Result<int> {
        GPUMAN_TRY(
            queue::ParseOptions(command->options, given->Options(command->options), queue::Where::kAnywhere));
        return command->run(session, given->words);
      },
      parent);
  BindOptions(app, command->options, *given);
  if (!command->word.empty()) {
    const int most = command->most_words == queue::kAnyNumber ? CLI::detail::expected_max_vector_size
                                                              : static_cast<int>(command->most_words);
    auto* words = app->add_option(command->word, given->words, DescriptionOf(*command))
                      ->type_name(command->word)
                      ->expected(static_cast<int>(std::max<std::size_t>(command->least_words, 1)), most);
    if (command->least_words > 0) words->required();
  }
  return app;
}

void BindAll(const Registry& registry, const char* name, const char* summary, const char* example,
             std::vector<Command> commands) {
  auto* parent = registry.Add(name, summary, example, nullptr);
  parent->require_subcommand(1);
  for (auto& command : commands) Bind(registry, std::move(command), parent);
}

}  // namespace

void AddQueue(const Registry& registry) { Bind(registry, queue::ListCommand(Flavour::kGpuman)); }
void AddCancel(const Registry& registry) { Bind(registry, queue::CancelCommand(Flavour::kGpuman)); }
void AddInfo(const Registry& registry) { Bind(registry, queue::InfoCommand(Flavour::kGpuman)); }
void AddStats(const Registry& registry) { Bind(registry, queue::StatsCommand(Flavour::kGpuman)); }

void AddJob(const Registry& registry) {
  BindAll(registry, "job", "Show and change jobs of the queue: show, log, wait, hold, update, redo, …",
          "gpuman job show train", queue::JobCommands(Flavour::kGpuman));
}
void AddReserve(const Registry& registry) {
  BindAll(registry, "reserve", "Reserve GPUs for users", "gpuman reserve list", queue::ReserveCommands());
}
void AddQuota(const Registry& registry) {
  BindAll(registry, "quota", "Limit what users and projects may use", "gpuman quota list",
          queue::QuotaCommands());
}
void AddQueueOfGpus(const Registry& registry, CLI::App* gpu) {
  for (auto& command : queue::GpuCommands()) Bind(registry, std::move(command), gpu);
}

void AddSubmit(const Registry& registry) {
  struct Bound {
    queue::SubmitSettings settings;
    queue::Options table;
    ParsedOptions given;
    CLI::App* app = nullptr;
  };
  const auto bound = std::make_shared<Bound>();  // shared by the parser's bindings and the action
  bound->table = queue::SubmitOptions(bound->settings, Flavour::kGpuman, base::SystemClock().Wall());
  bound->app = registry.Add(
      "submit", "Queue a command or a script; it starts when GPUs are free",
      "gpuman submit --gpus 1 --time 2h --name train -- python train.py\n"
      "  gpuman submit --gpus 2 train.sh\n"
      "  gpuman submit --gpus 1 --param lr=0.1,0.01 --param seed=1:3 -- python train.py --lr {lr} --seed "
      "{seed}\n"
      "  gpuman submit --array 0-99%4 --gpus 1 -- sh -c 'python eval.py $GPUMAN_ARRAY_TASK_ID'",
      [bound](Session& session) -> base::Result<int> {
        queue::ParsedCommandLine typed;
        typed.options = bound->given.Options(bound->table);
        typed.words = bound->app->remaining();
        typed.trailing = session.trailing;
        if (!typed.words.empty() && typed.words.front().size() > 1 && typed.words.front().front() == '-') {
          // The parser takes an unknown option for a part of the command; the table can tell which option was
          // meant.
          auto known = queue::ParseOptions(bound->table, typed.words, queue::Where::kLast);
          const auto hint = HintFor("gpuman submit", typed.words.front());
          if (!known && !hint.empty()) known.error().hint = hint;
          if (!known) return base::Fail(std::move(known.error()));
        }
        return queue::Submit(session, typed);
      });
  bound->app->prefix_command();
  BindOptions(bound->app, bound->table, bound->given);
}

}  // namespace gpuman::cli
