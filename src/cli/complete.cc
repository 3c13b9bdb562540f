#include "cli/complete.h"

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/slurm/record.h"

namespace gpuman::cli {
namespace {

// The state of the reader after the words before the cursor.
struct Position {
  const CLI::App* command = nullptr;
  const CLI::Option* awaited = nullptr;  // an option whose value comes next
  std::size_t positionals = 0;
  std::optional<std::size_t> after_dashes;  // words behind "--"
};

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

const CLI::Option* FindOption(const CLI::App& command, std::string_view word) {
  const std::string name(word.substr(0, word.starts_with("--") ? word.find('=') : 2));
  for (const auto* option : command.get_options())
    if (option->nonpositional() && option->check_name(name)) return option;
  return nullptr;
}

const CLI::App* FindCommand(const CLI::App& command, const std::string& word) {
  for (const auto* sub : command.get_subcommands(nullptr))
    if (sub->get_name() == word) return sub;
  return nullptr;
}

void Advance(Position& at, const std::string& word) {
  if (at.after_dashes) {
    ++*at.after_dashes;
  } else if (at.awaited != nullptr) {
    at.awaited = nullptr;
  } else if (word == "--") {
    at.after_dashes = 0;
  } else if (word.starts_with('-') && word.size() > 1) {
    const auto* option = FindOption(*at.command, word);
    const bool has_value = word.starts_with("--") ? word.find('=') != std::string::npos : word.size() > 2;
    if (option != nullptr && TakesValue(*option) && !has_value) at.awaited = option;
  } else if (const auto* sub = FindCommand(*at.command, word)) {
    at.command = sub;
  } else {
    ++at.positionals;
  }
}

std::vector<Candidate> Values(const std::string& type, const Names& names) {
  if (type == kJobValue) return names.jobs();
  if (type == kGpuValue) return names.gpus();
  if (type == kFileValue) return {{":files", ""}};
  std::vector<Candidate> alternatives;
  for (std::size_t from = 0; type.find('|') != std::string::npos && from <= type.size();) {
    const auto end = std::min(type.find('|', from), type.size());
    alternatives.push_back({type.substr(from, end - from), ""});
    from = end + 1;
  }
  return alternatives;
}

std::vector<Candidate> OptionNames(const CLI::App& command) {
  std::vector<Candidate> found;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames()) found.push_back({"--" + name, option->get_description()});
  return found;
}

std::vector<Candidate> Positional(const Position& at, const Names& names) {
  std::vector<Candidate> found;
  if (at.positionals == 0)
    for (const auto* sub : at.command->get_subcommands(nullptr))
      found.push_back({sub->get_name(), sub->get_description()});
  std::size_t position = 0;
  for (const auto* option : at.command->get_options()) {
    if (!option->get_positional() || position++ != at.positionals) continue;
    for (auto& value : Values(option->get_type_name(), names)) found.push_back(std::move(value));
  }
  return found;
}

std::vector<Candidate> Candidates(const Position& at, const std::string& word, const Names& names) {
  if (at.after_dashes) return {{*at.after_dashes == 0 ? ":command" : ":files", ""}};
  if (at.awaited != nullptr) return Values(at.awaited->get_type_name(), names);
  if (const auto equals = word.find('='); word.starts_with("--") && equals != std::string::npos) {
    const auto* option = FindOption(*at.command, word);
    auto values = option != nullptr ? Values(option->get_type_name(), names) : std::vector<Candidate>{};
    for (auto& value : values)
      if (!value.text.starts_with(':')) value.text.insert(0, word.substr(0, equals + 1));
    return values;
  }
  return word.starts_with('-') ? OptionNames(*at.command) : Positional(at, names);
}

}  // namespace

std::vector<Candidate> Complete(const CLI::App& root, const std::vector<std::string>& words,
                                const Names& names) {
  const std::string word = words.empty() ? std::string() : words.back();
  Position at;
  at.command = &root;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) Advance(at, words[i]);
  auto found = Candidates(at, word, names);
  std::erase_if(found,
                [&](const Candidate& c) { return !c.text.starts_with(':') && !c.text.starts_with(word); });
  return found;
}

int PrintCandidates(const CLI::App& root, Session& session, const std::vector<std::string>& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == "--socket") session.socket = words[i + 1];
  const auto ask = [&](auto&& question) {
    std::vector<Candidate> found;
    if (const auto daemon = session.RunningDaemon()) question(*daemon, found);
    return found;
  };
  Names names;
  names.jobs = [&] {
    auto jobs = ask([](const api::Client& daemon, std::vector<Candidate>& found) {
      if (const auto status = daemon.Jobs(/*all=*/false))
        for (const auto& job : status->jobs)
          found.push_back({job.tag, fmt::format("job {}, {}", job.id, api::ToString(job.state))});
    });
    for (const auto& job : slurm::SubmissionFile::OfUser(session.environment()).Jobs())
      if (!job.ended) jobs.push_back({fmt::format("slurm-{}", job.id), job.name});
    return jobs;
  };
  names.gpus = [&] {
    return ask([](const api::Client& daemon, std::vector<Candidate>& found) {
      if (const auto list = daemon.Gpus())
        for (const auto& gpu : list->gpus)
          if (gpu.number || gpu.index) found.push_back({api::NumberOf(gpu), gpu.name});
    });
  };
  for (const auto& [text, description] : Complete(root, words, names))
    session.Print(fmt::format("{}\t{}\n", text, Printable(description)));
  return kExitDone;
}

}  // namespace gpuman::cli
