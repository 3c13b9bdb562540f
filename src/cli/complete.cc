#include "cli/complete.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/compat/slurm/record.h"

namespace gpuman::cli {
namespace {

// The state of the reader after the words before the cursor.
struct Position {
  const Command* program = nullptr;
  const Command* command = nullptr;  // of the program; the words led to it
  const Options* common = nullptr;
  std::optional<std::string> awaited{};  // the value of an option, which comes next: "JOB"
  std::size_t arguments = 0;
  std::optional<std::size_t> behind{};  // words of the user's command
};

const Option* FindIn(const Options& options, std::string_view name) {
  for (const auto& option : options)
    for (const auto& known : NamesOf(option))
      if (known == name) return &option;
  return nullptr;
}

// Returns the kind of the option's value; empty: the option takes no value, or there is no such option.
std::string ValueOf(const Position& at, std::string_view word) {
  const auto name = word.substr(0, word.starts_with("--") ? word.find('=') : 2);
  for (const auto& argument : at.command->arguments)
    if (FindIn({{argument.names, argument.value, {}, {}}}, name) != nullptr) return argument.value;
  for (const auto* options : {&at.command->options, at.common})
    if (const auto* option = FindIn(*options, name)) return option->value;
  return {};
}

void Advance(Position& at, const std::string& word) {
  if (at.behind) {
    ++*at.behind;
  } else if (at.awaited) {
    at.awaited.reset();
  } else if (word == "--") {
    if (!at.command->user_command.empty()) at.behind = 0;
  } else if (word.starts_with('-') && word.size() > 1) {
    const bool has_value = word.starts_with("--") ? word.find('=') != std::string::npos : word.size() > 2;
    if (auto value = ValueOf(at, word); !value.empty() && !has_value) at.awaited = std::move(value);
  } else if (const auto* below = FindCommand(*at.command, word)) {
    at.command = below;
  } else if (at.command->ends_at_word) {
    at.behind = 1;
  } else {
    ++at.arguments;
  }
}

std::vector<CompletionItem> Values(const std::string& value, const CompletionSources& names) {
  if (value == kJobValue) return names.jobs();
  if (value == kGpuValue) return names.gpus();
  if (value == kFileValue) return {{":files", ""}};
  std::vector<CompletionItem> choices;
  for (auto& choice : ChoicesOf(value)) choices.push_back({std::move(choice), ""});
  return choices;
}

std::vector<CompletionItem> OptionNames(const Position& at) {
  std::vector<CompletionItem> found;
  const auto add = [&](std::string_view names, const std::string& help) {
    for (auto& name : NamesOf({std::string(names), {}, {}, {}}))
      if (name.starts_with("--")) found.push_back({std::move(name), help});
  };
  for (const auto* options : {&at.command->options, at.common})
    for (const auto& option : *options)
      if (!option.help.empty()) add(option.names, option.help);
  for (const auto& argument : at.command->arguments) add(argument.names, argument.help);
  add("--help", kHelpOfHelp);
  if (at.command == at.program) add("--version", kHelpOfVersion);
  return found;
}

std::vector<CompletionItem> WordsThatMayStand(const Position& at, const CompletionSources& names) {
  std::vector<CompletionItem> found;
  if (at.arguments == 0)
    for (const auto& below : at.command->commands)
      found.push_back({below.name, below.summary.substr(0, below.summary.find("\n\n"))});
  std::size_t end = 0;
  for (const auto& argument : at.command->arguments) {
    end += argument.most;
    if (at.arguments >= end) continue;
    auto values = Values(argument.value, names);
    std::move(values.begin(), values.end(), std::back_inserter(found));
    break;
  }
  if (at.command->ends_at_word) found.push_back({":command", ""});
  return found;
}

std::vector<CompletionItem> Candidates(const Position& at, const std::string& word,
                                       const CompletionSources& names) {
  if (at.behind) return {{*at.behind == 0 ? ":command" : ":files", ""}};
  if (at.awaited) return Values(*at.awaited, names);
  if (const auto equals = word.find('='); word.starts_with("--") && equals != std::string::npos) {
    auto values = Values(ValueOf(at, word), names);
    for (auto& value : values)
      if (!value.text.starts_with(':')) value.text.insert(0, word.substr(0, equals + 1));
    return values;
  }
  return word.starts_with('-') ? OptionNames(at) : WordsThatMayStand(at, names);
}

}  // namespace

std::vector<CompletionItem> Complete(const Command& program, const Options& common,
                                     const std::vector<std::string>& words, const CompletionSources& names) {
  const std::string word = words.empty() ? std::string() : words.back();
  Position at{.program = &program, .command = &program, .common = &common};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) Advance(at, words[i]);
  auto found = Candidates(at, word, names);
  std::erase_if(
      found, [&](const CompletionItem& c) { return !c.text.starts_with(':') && !c.text.starts_with(word); });
  return found;
}

int PrintCandidates(const Command& program, const Options& common, CommandContext& session,
                    const std::vector<std::string>& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == "--socket") session.socket = words[i + 1];
  const auto ask = [&](auto&& question) {
    std::vector<CompletionItem> found;
    if (const auto daemon = session.RunningDaemon()) question(*daemon, found);
    return found;
  };
  CompletionSources names;
  names.jobs = [&] {
    auto jobs = ask([](const api::Client& daemon, std::vector<CompletionItem>& found) {
      if (const auto status = daemon.Jobs(/*all=*/false))
        for (const auto& job : status->jobs)
          found.push_back({job.tag, fmt::format("job {}, {}", job.id, spec::ToString(job.state))});
    });
    for (const auto& job : slurm::SubmissionLog::OfUser(session.environment()).Jobs())
      if (!job.ended) jobs.push_back({fmt::format("slurm-{}", job.id), job.name});
    return jobs;
  };
  names.gpus = [&] {
    return ask([](const api::Client& daemon, std::vector<CompletionItem>& found) {
      if (const auto list = daemon.Gpus())
        for (const auto& gpu : list->gpus)
          if (gpu.number || gpu.index) found.push_back({api::NumberOf(gpu), gpu.name});
    });
  };
  for (const auto& [text, description] : Complete(program, common, words, names))
    session.Print(fmt::format("{}\t{}\n", text, Printable(description)));
  return kExitDone;
}

}  // namespace gpuman::cli
