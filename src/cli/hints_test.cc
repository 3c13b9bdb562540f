#include "cli/hints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <vector>

#include "cli/app.h"

namespace gpuman::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ErrorOf(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunCli("gpuman", arguments, {out, err, {}, {}}), 2) << ::testing::PrintToString(arguments);
  return err.str();
}

TEST(Hints, KnowWhatPeopleTypeFromElsewhere) {
  for (const auto& [arguments, says] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"kill", "7"}, "gpuman cancel JOB"},
           {{"stop"}, "gpuman cancel JOB"},
           {{"ps"}, "gpuman proclist"},
           {{"list"}, "gpuman status"},
           {{"ls"}, "gpuman queue"},
           {{"rm", "train"}, "gpuman remove JOB"},
           {{"watch"}, "gpuman top"},
           {{"nvidia-smi"}, "gpuman proclist"},
           {{"squeue"}, "gpuman queue"},
           {{"scancel", "7"}, "gpuman cancel JOB"},
           {{"sbatch", "x.sh"}, "gpuman submit"},
           {{"start"}, "gpuman run --tag NAME"},
           {{"drain", "0"}, "gpuman gpu drain GPU"},
           {{"status", "-w"}, "gpuman top watches"},
           {{"events", "-w"}, "-f shows new events"},
           {{"top", "-w"}, "it watches by itself"},
           {{"staus"}, "did you mean 'status'?"},
           {{"status", "train"}, "gpuman job show train"},
           {{"run", "-it", "bash"}, "gpuman run --gpus 1 --pty -- COMMAND"},
           {{"run", "--gpsu", "1", "--", "x"}, "did you mean --gpus?"},
           {{"run", "--mem", "8G", "--tag", "t", "--", "x"}, "--memory SIZE"},
           {{"run", "--env=A=1", "--tag", "t", "--", "x"}, "NAME=VALUE gpuman run"},
           {{"device", "set", "power", "250"}, "gpuman device power set 250W"},
           {{"device", "set", "persistence", "on"}, "gpuman device persistence on"},
           {{"device", "power", "250W"}, "gpuman device power set 250W"},
           {{"device", "ls"}, "gpuman device show"},
           {{"gpu", "0"}, "gpuman gpu show 0"},
           {{"job", "7"}, "gpuman job show 7"},
           {{"job", "shwo", "1"}, "did you mean 'show'?"},
           {{"job", "train"}, "gpuman job show train"},
           {{"job", "list"}, "gpuman queue lists"},
           {{"job", "cancel", "7"}, "gpuman cancel JOB"},
           {{"mig", "create"}, "gpuman mig apply"},
           {{"quota", "add"}, "gpuman quota set"},
           {{"move", "train", "1"}, "gpuman move JOB --to 1"},
           {{"update", "train", "8GiB"}, "--memory 8GiB"},
           {{"queue", "--me"}, "--user me"},
           {{"queue", "pause"}, "gpuman gpu choice pause"},
           {{"top", "-d", "1"}, "--interval"},
           {{"submit", "--mem", "32G", "--", "x"}, "--host-memory SIZE"},
           {{"submit", "--partition=gpu", "x.sh"}, "--slurm-option"},
           {{"submit", "--tty", "bash"}, "--pty"},
           {{"cancel", "-f"}, "SIGTERM"},
           {{"cancel", "-9", "3"}, "SIGTERM"},
           {{"ps", "-a"}, "gpuman proclist"},
           {{"watch", "-n", "1"}, "gpuman top"},
           {{"stop", "-t", "5", "3"}, "gpuman cancel JOB"},
           {{"stop", "--all"}, "gpuman cancel JOB"},
           {{"rm", "-f", "3"}, "gpuman remove JOB"},
           {{"squeue", "-u", "me"}, "gpuman queue lists"},
           {{"exec", "-it", "3", "bash"}, "gpuman run --tag NAME"},
           {{"sbatch", "--gres=gpu:1", "x.sh"}, "gpuman submit"},
           {{"kill", "--force", "3"}, "gpuman cancel JOB"},
           {{"--force", "kill", "3"}, "gpuman cancel JOB"},
           {{"kill", "--json=1"}, "gpuman cancel JOB"},
           {{"staus", "-a"}, "did you mean 'status'?"},
           {{"health", "ack", "--force", "0"}, "gpuman health acknowledge GPU"},
           {{"device", "set", "0", "--power", "300"}, "gpuman device power set 250W"},
           {{"device", "set", "--gpu", "0", "power", "300"}, "gpuman device power set 250W"},
           {{"device", "--power", "300"}, "gpuman device power set 250W"},
           {{"run", "-ti", "--", "bash"}, "gpuman run --gpus 1 --pty -- COMMAND"},
           {{"run", "-t", "-i", "--", "bash"}, "gpuman run --gpus 1 --pty -- COMMAND"},
           {{"run", "-dti", "--", "bash"}, "gpuman run --gpus 1 --pty -- COMMAND"},
           {{"submit", "-it", "--", "bash"}, "gpuman run --gpus 1 --pty -- COMMAND"},
           {{"submit", "-i", "-t", "--", "bash"}, "gpuman run --gpus 1 --pty -- COMMAND"},
           {{"run", "--tag", "--wait", "--", "x"}, "--tag: '--wait' begins with '-'"},
           {{"submit", "-n", "-x", "--", "x"}, "--name: '-x' begins with '-'"},
           {{"job", "update", "7", "--name=-x"}, "--name: '-x' begins with '-'"},
           {{"update", "st", "--tag", "foo"}, "gpuman job update JOB --name NAME"},
           {{"update", "st", "--name", "foo"}, "gpuman job update JOB --name NAME"},
           {{"--tag", "list", "run", "--", "x"}, "gpuman COMMAND --tag"},
           {{"--memory", "1G", "run"}, "gpuman COMMAND --memory"}}) {
    EXPECT_THAT(ErrorOf(arguments), HasSubstr(says)) << ::testing::PrintToString(arguments);
  }
}

TEST(Hints, LeaveOtherWordsToTheirLikeness) {
  EXPECT_THAT(HintFor("gpuman", "statsu"), IsEmpty());
  EXPECT_THAT(HintFor("gpuman status", "--jsno"), IsEmpty());
  EXPECT_THAT(ErrorOf({"statsu"}), HasSubstr("did you mean 'status'?"));
}

std::vector<std::string> Split(std::string_view text, std::string_view at) {
  std::vector<std::string> parts{""};
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i).starts_with(at)) {
      parts.emplace_back();
      i += at.size();
    } else {
      parts.back() += text[i++];
    }
  }
  return parts;
}

// Commas and colons are words of their own.
std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  for (auto& word : Split(text, " ")) {
    const bool ends = word.ends_with(',') || word.ends_with(':') || word.ends_with(';');
    if (ends) word.pop_back();
    if (!word.empty()) words.push_back(word);
    if (ends) words.emplace_back(",");
  }
  return words;
}

const Command* CommandAt(const Command& program, std::string_view path) {
  const Command* command = &program;
  const auto words = Split(path, " ");
  for (std::size_t i = 1; i < words.size() && command; ++i) command = FindCommand(*command, words[i]);
  return command;
}

bool HasOption(const Command& command, const std::string& name) {
  return name == "--help" || name == "--json" ||
         std::any_of(command.options.begin(), command.options.end(), [&](const Option& option) {
           const auto names = NamesOf(option);
           return std::find(names.begin(), names.end(), name) != names.end();
         });
}

// What is wrong with the words behind "gpuman": the first of them that is neither a command, nor an option of
// the command, nor a word that the command takes. Empty: nothing.
std::string UnknownWordIn(const Command& program, const std::vector<std::string>& words) {
  // Words of a sentence about a command.
  const std::set<std::string> prose{"shows", "has", "does", "starts"};
  const Command* command = &program;
  std::size_t at = 0;
  for (; at < words.size(); ++at) {
    const auto* const below = FindCommand(*command, words[at]);
    if (!below) break;
    command = below;
  }
  if (at == 0) return words.empty() || prose.contains(words[0]) ? "" : words[0];
  const bool takes_word = at < words.size() && words[at] != "," && !words[at].starts_with('-');
  if (takes_word && !command->run && !prose.contains(words[at])) return words[at];
  if (takes_word && !command->arguments.empty()) {
    const auto choices = ChoicesOf(command->arguments.front().value);
    if (!choices.empty() && std::find(choices.begin(), choices.end(), words[at]) == choices.end())
      return words[at];
  }
  for (; at < words.size() && words[at] != "--"; ++at)
    if (words[at].starts_with('-') && !HasOption(*command, words[at])) return words[at];
  return "";
}

TEST(Hints, MeanCommandsAndOptionsThatThereAre) {
  const Command program = GpumanProgram();
  const Command& run = *CommandAt(program, "gpuman run");
  for (const HintRule& hint : Hints()) {
    const auto* const of = CommandAt(program, hint.path);
    ASSERT_TRUE(of) << hint.path;
    for (const auto& word : Split(hint.words, "|")) {
      const auto text = HintFor(hint.path, word == "#" ? "7" : word == "*" ? "train" : word);
      for (const auto& sentence : Split(text, "; ")) {
        if (sentence.find("sudo ") != std::string::npos) continue;  // of another program
        const auto parts = Split(sentence, "gpuman ");
        for (std::size_t i = 1; i < parts.size(); ++i)
          EXPECT_EQ(UnknownWordIn(program, WordsOf(parts[i])), "")
              << hint.path << " " << word << ": " << text;
        for (const auto& typed : WordsOf(parts[0]))
          if (typed.starts_with("--")) {
            EXPECT_TRUE(HasOption(*of, typed) || HasOption(run, typed)) << hint.path << ": " << text;
          }
      }
    }
  }
}

// The rule of a letter that stands for an option of the command would never be used.
TEST(Hints, AreSeenByWhoeverTypesTheWord) {
  const Command program = GpumanProgram();
  for (const HintRule& hint : Hints()) {
    const auto* const of = CommandAt(program, hint.path);
    ASSERT_TRUE(of) << hint.path;
    const bool names_job = hint.path == "gpuman update";  // its --tag has a test of its own
    for (auto word : Split(hint.words, "|")) {
      if (names_job && word == "--tag") continue;
      const bool is_option = word.starts_with('-');
      if (!is_option && of->commands.empty()) continue;
      if (word == "#") word = "7";
      if (word == "*") word = "train";
      auto line = Split(hint.path, " ");
      line.erase(line.begin());
      line.insert(line.end(), {word, "--frobnicate", "x"});
      EXPECT_THAT(ErrorOf(line), HasSubstr(HintFor(hint.path, word))) << hint.path << " " << word;
    }
  }
}

// A word that the command takes gets no hint.
TEST(Hints, AreForWordsThatTheirCommandDoesNotTake) {
  const Command program = GpumanProgram();
  std::set<std::pair<std::string_view, std::string>> seen;
  for (const HintRule& hint : Hints()) {
    const auto* const of = CommandAt(program, hint.path);
    ASSERT_TRUE(of) << hint.path;
    for (const auto& word : Split(hint.words, "|")) {
      EXPECT_TRUE(seen.insert({hint.path, word}).second) << hint.path << " " << word << " has two hints";
      if (word.starts_with('-')) {
        EXPECT_FALSE(HasOption(*of, word)) << hint.path << " " << word;
        continue;
      }
      EXPECT_FALSE(FindCommand(*of, word)) << hint.path << " " << word;
      const bool takes_all =
          std::any_of(of->arguments.begin(), of->arguments.end(),
                      [](const Argument& argument) { return argument.most >= kAnyNumber; });
      EXPECT_FALSE(takes_all) << hint.path << " " << word << ": it takes every word";
    }
  }
}

TEST(Help, IsACommandToo) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunCli("gpuman", {"help", "run"}, {out, err, {}, {}}), 0);
  EXPECT_THAT(out.str(), HasSubstr("gpuman run --tag train"));
  EXPECT_EQ(RunCli("gpuman", {"help"}, {out, err, {}, {}}), 0);
  EXPECT_EQ(RunCli("gpuman", {"version"}, {out, err, {}, {}}), 0);
  out.str({});
  EXPECT_EQ(RunCli("gbatch", {"help", "true"}, {out, err, {}, {}}), 0);
  EXPECT_THAT(out.str(), HasSubstr("Usage: gbatch"));
}

}  // namespace
}  // namespace gpuman::cli
