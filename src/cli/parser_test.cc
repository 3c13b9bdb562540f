#include "cli/parser.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/compat/gflow/programs.h"
#include "cli/complete.h"
#include "cli/take.h"

namespace gpuman::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Words = std::vector<std::string>;

base::Result<int> DoNothing(CommandContext&, const CommandLine&) { return kExitDone; }

Option Flag(const char* names) { return {names, "", "A flag", take::Nothing()}; }
Option Value(const char* names) { return {names, "N", "A value", take::Nothing()}; }

Command Submit() {
  Command command{"submit", "Queue a command", "", {}, {}, DoNothing};
  command.options = {Value("-g,--gpus,--gres"), Value("--name"), Flag("-d,--dry-run")};
  command.user_command = "COMMAND...";
  command.ends_at_word = true;
  return command;
}

Command Run() {
  Command command{"run", "Start a command", "", {}, {}, DoNothing};
  command.options = {Value("-t,--tag"), Value("--gpus"), Value("-p,--priority"), Flag("-w,--wait")};
  command.user_command = "-- COMMAND...";
  return command;
}

Command Share() {
  Command command{"share", "Share GPUs", "", {}, {}, {}};
  command.heading = "Share and split";
  command.commands = {{"set", "Set it", "", {}, {Flag("--pause")}, DoNothing},
                      {"status", "Show it", "", {}, {}, DoNothing}};
  return command;
}

Command Tool(const char* name = "tool") {
  Command hold{"hold", "Hold jobs", "tool hold 7", {{kJobValue, 1, kAnyNumber, "Jobs"}}, {}, DoNothing};
  hold.aliases = {"h"};
  const Argument job{.value = kJobValue, .help = "A job", .names = "-t,--tag"};
  const Arguments limit{{.value = kJobValue, .help = "A job"}, {.value = "N", .help = "Its limit"}};
  Command tool{name, "A tool", "", {}, {}, {}};
  tool.commands = {std::move(hold),
                   {"log", "Print output", "", {job}, {Flag("-v,--verbose"), Flag("-f,--follow")}, DoNothing},
                   {"limit", "Set a limit", "", limit, {}, DoNothing},
                   {"list", "List jobs", "", {}, {Flag("-a,--all")}, DoNothing},
                   {"move", "Move jobs", "", {job}, {{"--to", "GPU", "Where", take::Nothing()}}, DoNothing},
                   Submit(),
                   Run(),
                   Share()};
  tool.commands[4].options[0].required = true;
  return tool;
}

// A program without commands.
Command Alone() {
  Command command = Submit();
  command.name = "alone";
  return command;
}

base::Result<Parsed> Read(const Command& program, const Words& words) {
  const Options common{{"--json", "", "Print JSON", take::Nothing(), kCommonHeading}};
  return ReadCommandLine(program, common, WithHelpAsOption(program, words));
}

// The options as "--name=value", the path in front.
struct Seen {
  std::string path;
  Words options;
  Words words;
  std::optional<Words> trailing;
};
Seen SeenBy(const Command& program, const Words& words) {
  auto parsed = Read(program, words);
  if (!parsed || !std::holds_alternative<RequestedCommand>(*parsed)) {
    ADD_FAILURE() << ::testing::PrintToString(words) << (parsed ? "" : parsed.error().message);
    return {};
  }
  auto& chosen = std::get<RequestedCommand>(*parsed);
  Seen seen{chosen.path, {}, chosen.line.words, chosen.line.trailing};
  for (const auto& [name, value] : chosen.line.options)
    seen.options.push_back(value.empty() ? name : fmt::format("{}={}", name, value));
  return seen;
}

// The message and the hint, a line each.
std::string ErrorOf(const Command& program, const Words& words) {
  const auto parsed = Read(program, words);
  if (parsed) return "no error";
  EXPECT_EQ(parsed.error().code, base::ErrorCode::kInvalidArgument);
  return parsed.error().message + "\n" + parsed.error().hint;
}

std::string HelpOf(const Command& program, const Words& words) {
  const auto parsed = Read(program, words);
  return parsed && std::holds_alternative<HelpText>(*parsed) ? std::get<HelpText>(*parsed).text : "no help";
}

TEST(CommandLineWords, MayBeNamesOfCommandsAmongArguments) {
  const auto held = SeenBy(Tool(), {"hold", "5", "h", "log", "share", "hold"});
  EXPECT_EQ(held.path, "tool hold");
  EXPECT_THAT(held.words, ElementsAre("5", "h", "log", "share", "hold"));
  EXPECT_THAT(SeenBy(Tool(), {"h", "list", "--json"}).words, ElementsAre("list"));
  EXPECT_THAT(SeenBy(Tool(), {"submit", "submit"}).words, ElementsAre("submit"));
  EXPECT_THAT(SeenBy(Tool(), {"submit", "--name", "list", "run"}).options, ElementsAre("--name=list"));
  EXPECT_THAT(ErrorOf(Tool(), {"run", "run"}), HasSubstr("unexpected argument 'run'"));
  EXPECT_THAT(ErrorOf(Tool(), {"share", "set", "list"}), HasSubstr("share set: unexpected argument 'list'"));
}

TEST(CommandLineWords, BehindTheFirstOneOfAUsersCommandAreItsOwn) {
  const auto script = SeenBy(Tool(), {"submit", "-g", "1", "x.sh", "--", "a", "--name", "b", "--json"});
  EXPECT_THAT(script.options, ElementsAre("--gpus=1"));
  EXPECT_THAT(script.words, ElementsAre("x.sh", "--", "a", "--name", "b", "--json"));
  EXPECT_FALSE(script.trailing);
  const auto command = SeenBy(Alone(), {"--name", "n", "--", "a", "--", "b"});
  EXPECT_THAT(command.words, IsEmpty());
  EXPECT_EQ(command.trailing, (Words{"a", "--", "b"}));
}

TEST(CommandLineWords, BehindDashesAreArgumentsOfACommandThatHasThem) {
  EXPECT_THAT(SeenBy(Tool(), {"hold", "--", "5"}).words, ElementsAre("5"));
  EXPECT_THAT(SeenBy(Tool(), {"hold", "4", "--", "-x", "--all"}).words, ElementsAre("4", "-x", "--all"));
  EXPECT_THAT(SeenBy(Tool(), {"limit", "7", "--", "-1"}).words, ElementsAre("7", "-1"));
  EXPECT_FALSE(SeenBy(Tool(), {"hold", "--", "5"}).trailing);
  EXPECT_THAT(ErrorOf(Tool(), {"hold", "--"}), HasSubstr("JOB is required"));
  EXPECT_THAT(ErrorOf(Tool(), {"log", "1", "--", "2"}), HasSubstr("unexpected argument '2'"));
  EXPECT_THAT(ErrorOf(Tool(), {"list", "--", "x"}), HasSubstr("list: it takes no command after --"));
}

TEST(CommandLineOptions, TakeEachWayToWriteAValue) {
  EXPECT_THAT(
      SeenBy(Tool(), {"submit", "-g=1", "-g2", "-dg", "3", "-dg=4", "--gres=5", "x"}).options,
      ElementsAre("--gpus=1", "--gpus=2", "--dry-run", "--gpus=3", "--dry-run", "--gpus=4", "--gpus=5"));
  EXPECT_THAT(SeenBy(Tool(), {"submit", "--name=a=b", "--name", "-d", "--name=--", "x"}).options,
              ElementsAre("--name=a=b", "--name=-d", "--name=--"));
  const auto parsed = Read(Tool(), {"submit", "--name=", "-g=", "x"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto& line = std::get<RequestedCommand>(*parsed).line;
  ASSERT_EQ(line.options.size(), 2U);
  EXPECT_EQ(line.options[0].value + line.options[1].value, "");
  EXPECT_THAT(line.words, ElementsAre("x"));
}

TEST(CommandLineOptions, HaveNoValueThatIsNotWritten) {
  EXPECT_THAT(ErrorOf(Tool(), {"submit", "--dry-run=1", "x"}), HasSubstr("--dry-run: it takes no value"));
  EXPECT_THAT(ErrorOf(Tool(), {"list", "-a=1"}), HasSubstr("--all: it takes no value"));
  EXPECT_THAT(ErrorOf(Tool(), {"list", "--json="}), HasSubstr("--json: it takes no value"));
  EXPECT_THAT(ErrorOf(Tool(), {"submit", "--name"}), HasSubstr("--name: its value is missing: --name N\n"));
  EXPECT_THAT(ErrorOf(Tool(), {"submit", "-g", "--", "x"}), HasSubstr("--gpus: its value is missing"));
}

TEST(CommandLineOptions, OfACommandAboveAreNotThoseOfTheCommand) {
  Command tool = Tool();
  Command& list = tool.commands[3];
  list.commands = {{"all", "List all", "", {}, {}, DoNothing}};
  const auto seen = SeenBy(tool, {"list", "--all", "all"});
  EXPECT_EQ(seen.path, "tool list all");
  EXPECT_THAT(seen.options, IsEmpty());
}

TEST(CommandLineOptions, GiveAnArgumentOnce) {
  EXPECT_THAT(SeenBy(Tool(), {"log", "--tag=a", "-f"}).words, ElementsAre("a"));
  EXPECT_THAT(ErrorOf(Tool(), {"log", "-t", "a", "-t", "b"}),
              HasSubstr("log: --tag is given more than once\n"));
  EXPECT_THAT(ErrorOf(Tool(), {"log", "a", "-t", "b"}),
              HasSubstr("unexpected argument 'a': --tag b is the JOB already"));
  EXPECT_THAT(ErrorOf(Tool(), {"log"}), Not(HasSubstr("argument0")));
}

TEST(CommandLineErrors, NameThePathAndSayWhereHelpIs) {
  EXPECT_EQ(ErrorOf(Tool(), {"hold"}), "tool hold: JOB is required\nfor example: tool hold 7");
  EXPECT_EQ(ErrorOf(Tool("gpuman"), {"log"}), "log: JOB is required\nsee gpuman log --help");
  EXPECT_EQ(ErrorOf(Tool(), {"limit", "7"}), "tool limit: N is required\nsee tool limit --help");
  EXPECT_EQ(ErrorOf(Tool(), {"move", "7"}), "tool move: --to is required\nsee tool move --help");
  EXPECT_EQ(ErrorOf(Tool(), {"nope"}), "tool: unknown command 'nope'\nsee tool --help");
  EXPECT_EQ(ErrorOf(Tool("gpuman"), {"nope"}), "unknown command 'nope'\nsee gpuman --help");
  EXPECT_EQ(ErrorOf(Tool(), {"lst", "share"}), "tool: unknown command 'lst'\ndid you mean 'list'?");
  EXPECT_EQ(ErrorOf(Tool(), {"share"}),
            "tool share: a command is required, one of set, status\nsee tool share --help");
  EXPECT_EQ(ErrorOf(Tool(), {"list", "x"}), "tool list: unexpected argument 'x'\nsee tool list --help");
  EXPECT_EQ(ErrorOf(Alone(), {"-5", "x"}), "alone: unknown option '-5'\nsee alone --help");
}

TEST(CommandLineErrors, TellAnUnknownOptionFirst) {
  EXPECT_EQ(ErrorOf(Tool(), {"hold", "-x"}), "tool hold: unknown option '-x'\nsee tool hold --help");
  EXPECT_THAT(ErrorOf(Tool(), {"move", "--too=1"}),
              HasSubstr("unknown option '--too=1'\ndid you mean --to?"));
  EXPECT_THAT(ErrorOf(Tool(), {"submit", "--nam", "n", "x"}), HasSubstr("did you mean --name?"));
  EXPECT_THAT(ErrorOf(Tool(), {"submit", "--frobnicate", "x"}), HasSubstr("\nsee tool submit --help"));
  EXPECT_THAT(ErrorOf(Tool(), {"submit", "-dx", "y"}), HasSubstr("unknown option '-x'"));
}

TEST(CommandLineErrors, TellAnUnknownCommandBeforeItsOptions) {
  EXPECT_EQ(ErrorOf(Tool(), {"lst", "-x"}), "tool: unknown command 'lst'\ndid you mean 'list'?");
  EXPECT_EQ(ErrorOf(Tool(), {"nope", "--all", "1"}), "tool: unknown command 'nope'\nsee tool --help");
  EXPECT_THAT(ErrorOf(Tool(), {"share", "sett", "--pause"}), HasSubstr("share: unknown command 'sett'"));
  EXPECT_THAT(ErrorOf(Tool(), {"nope", "--json=1"}), HasSubstr("unknown command 'nope'"));
  // A word behind the option may be its value.
  EXPECT_THAT(ErrorOf(Tool(), {"--gpus", "1", "run"}), HasSubstr("unknown option '--gpus'"));
  EXPECT_THAT(ErrorOf(Tool(), {"-x", "nope"}), HasSubstr("unknown option '-x'"));
}

TEST(CommandLineErrors, SayWhereAnOptionOfACommandBelongs) {
  EXPECT_EQ(ErrorOf(Tool(), {"--verbose", "log", "7"}),
            "tool: unknown option '--verbose'\nwrite it behind the command: tool COMMAND --verbose");
  EXPECT_THAT(ErrorOf(Tool(), {"share", "--pause", "set"}), HasSubstr("tool share COMMAND --pause"));
}

TEST(CommandLineErrors, SuggestACommandLineThatIsRead) {
  const auto suggestion = [](const Words& words) {
    const auto text = ErrorOf(Tool(), words);
    return text.substr(text.find('\n') + 1);
  };
  EXPECT_EQ(suggestion({"run", "-t", "a b", "-w", "python", "x"}),
            "write the job's command after --: tool run --tag 'a b' --wait -- python …");
  EXPECT_EQ(suggestion({"run", "python"}),
            "write the job's command after --: tool run --tag NAME -- python …");
  EXPECT_EQ(suggestion({"run", "--gpus", "1", "-p=-5", "python"}),
            "write the job's command after --: tool run --gpus 1 --priority=-5 -- python …");
}

TEST(ProgramHelp, ListsCommandsUnderTheirOwnHeadings) {
  const auto program = HelpOf(Tool(), {"--help"});
  EXPECT_THAT(program, AllOf(HasSubstr("\nSubcommands:\n  hold"), HasSubstr("\nShare and split:\n  share")));
  const auto below = HelpOf(Tool(), {"share", "-h"});
  EXPECT_THAT(below, AllOf(HasSubstr("Usage: tool share [OPTIONS] SUBCOMMAND\n"),
                           HasSubstr("\nSubcommands:\n  set"), Not(HasSubstr("Share and split"))));
  for (const auto& help : {program, below, HelpOf(Tool(), {"hold", "--help"}), HelpOf(Alone(), {"-h"})})
    EXPECT_THAT(help, HasSubstr("  -h,--help                 Print this help and exit\n"));
}

TEST(ProgramHelp, ShowsArgumentsAndTheUsersCommand) {
  EXPECT_THAT(HelpOf(Tool(), {"hold", "--help"}), AllOf(HasSubstr("Usage: tool hold [OPTIONS] JOB...\n"),
                                                        HasSubstr("\nPositionals:\n  JOB... ")));
  EXPECT_THAT(HelpOf(Tool(), {"log", "--help"}),
              AllOf(HasSubstr("Usage: tool log [OPTIONS] JOB\n"), HasSubstr("\n  -t,--tag JOB  "),
                    Not(HasSubstr("argument0"))));
  EXPECT_THAT(HelpOf(Tool(), {"move", "--help"}), HasSubstr("\n  --to GPU (required)"));
  EXPECT_THAT(HelpOf(Alone(), {"--help"}), HasSubstr("Usage: alone [OPTIONS] COMMAND...\n"));
}

TEST(ProgramHelp, NamesTheOptionOfTheVersion) {
  EXPECT_THAT(HelpOf(Tool("gpuman"), {"--help"}), HasSubstr("\n  -v,--version "));
  EXPECT_THAT(HelpOf(Tool(), {"--help"}), HasSubstr("\n  -V,--version "));
  for (const auto& program : {Tool(), Alone()})
    for (const char* word : {"-V", "--version"}) {
      const auto parsed = Read(program, {word});
      EXPECT_TRUE(parsed && std::holds_alternative<VersionAsked>(*parsed)) << program.name << word;
    }
  EXPECT_THAT(ErrorOf(Tool(), {"-v"}), HasSubstr("tool COMMAND -v"));
}

TEST(HelpWord, StandsForTheOptionOfAProgramWithCommands) {
  const Command tool = Tool();
  EXPECT_THAT(WithHelpAsOption(tool, {"help"}), ElementsAre("--help"));
  EXPECT_THAT(WithHelpAsOption(tool, {"help", "share", "set"}), ElementsAre("share", "set", "--help"));
  EXPECT_THAT(WithHelpAsOption(tool, {"help", "h", "list"}), ElementsAre("h", "--help", "list"));
  EXPECT_THAT(WithHelpAsOption(tool, {"help", "submit", "--name"}), ElementsAre("submit", "--help"));
  EXPECT_THAT(WithHelpAsOption(tool, {"version", "--json"}), ElementsAre("--version", "--json"));
  EXPECT_THAT(WithHelpAsOption(tool, {"submit", "help"}), ElementsAre("submit", "help"));
  EXPECT_THAT(HelpOf(tool, {"help", "submit", "x"}), HasSubstr("Usage: tool submit"));
  EXPECT_THAT(ErrorOf(tool, {"help", "shar"}), HasSubstr("did you mean 'share'?"));
}

TEST(HelpWord, LeavesOtherWordsToAProgramWithoutCommands) {
  EXPECT_THAT(WithHelpAsOption(Alone(), {"help", "true"}), ElementsAre("--help"));
  EXPECT_THAT(WithHelpAsOption(Alone(), {"version"}), ElementsAre("version"));
  EXPECT_THAT(SeenBy(Alone(), {"version"}).words, ElementsAre("version"));
  const auto gcancel = gflow::MakeProgram("gcancel", {"version"});
  EXPECT_THAT(SeenBy(gcancel, {"version"}).words, ElementsAre("version"));
}

TEST(OptionParser, LeavesOutTheDashesWhereNoCommandFollows) {
  const Options options = Submit().options;
  OptionParser line(options);
  EXPECT_THAT(*line.Read({"-g=1", "--", "python", "-x"}), ElementsAre("python", "-x"));
  EXPECT_THAT(*line.Read({"a", "--name=", "--"}), ElementsAre("a"));
  OptionParser job(options, /*ends_at_word=*/true);
  EXPECT_THAT(*job.Read({"-g=1", "--", "python"}), ElementsAre("--", "python"));
  EXPECT_THAT(*job.Read({"python", "--", "x"}), ElementsAre("python", "--", "x"));
  EXPECT_EQ(job.Read({"--dry-run=1", "x"}).error().message, "--dry-run: it takes no value");
}

TEST(OptionParser, PassesOnAnEmptyValue) {
  std::string seen = "nothing";
  const Options options{{"-n,--name", "NAME", "A name", take::Text(seen)}};
  OptionParser reader(options);
  for (const char* word : {"--name=", "-n="}) {
    EXPECT_THAT(*reader.Read({word, "x"}), ElementsAre("x"));
    EXPECT_EQ(seen, "");
    seen = "nothing";
  }
}

Words Proposed(const Command& program, const Words& words) {
  const CompletionSources names{[] {
                                  return std::vector<CompletionItem>{{"train", "job 1"}};
                                },
                                [] {
                                  return std::vector<CompletionItem>{{"0", "a GPU"}};
                                }};
  Words texts;
  for (const auto& candidate : Complete(program, {}, words, names)) texts.push_back(candidate.text);
  return texts;
}

TEST(Completion, KnowsTheVersionOfTheProgramOnly) {
  EXPECT_THAT(Proposed(Tool(), {"--v"}), ElementsAre("--version"));
  EXPECT_THAT(Proposed(Tool(), {"log", "--v"}), ElementsAre("--verbose"));
  EXPECT_THAT(Proposed(Tool(), {"log", "--t"}), ElementsAre("--tag"));
  EXPECT_THAT(Proposed(Tool(), {"log", "--h"}), ElementsAre("--help"));
}

TEST(Completion, ServesProgramsOfGflow) {
  const auto gjob = gflow::MakeProgram("gjob", {});
  EXPECT_THAT(Proposed(gjob, {"rel"}), ElementsAre("release"));
  EXPECT_THAT(Proposed(gjob, {"r", ""}), ElementsAre("train")) << "the alias of release";
  EXPECT_THAT(Proposed(gjob, {"hold", "--", "t"}), ElementsAre("train"));
  const auto gctl = gflow::MakeProgram("gctl", {});
  EXPECT_THAT(Proposed(gctl, {"--v"}), ElementsAre("--version"));
  EXPECT_THAT(Proposed(gctl, {"gpu-process", "ig"}), ElementsAre("ignore"));
  const auto gbatch = gflow::MakeProgram("gbatch", {});
  EXPECT_THAT(Proposed(gbatch, {"--gpus", "1", ""}), ElementsAre(":command"));
  EXPECT_THAT(Proposed(gbatch, {"python", ""}), ElementsAre(":files"));
}

}  // namespace
}  // namespace gpuman::cli
