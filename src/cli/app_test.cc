#include "cli/app.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "api/json.h"
#include "api/test_server.h"
#include "cli/queue/find_program.h"

namespace gpuman::cli {
namespace {

using api::TestServer;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

Outcome Gpuman(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const ProgramContext context{out, err, {}, {}};
  Outcome outcome;
  outcome.status = RunCli("gpuman", arguments, context);
  outcome.out = out.str();
  outcome.err = err.str();
  return outcome;
}

Outcome GpumanAt(const TestServer& server, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--socket", server.socket().string()});
  return Gpuman(arguments);
}

constexpr std::string_view kJob =
    R"({"id":7,"tag":"t","state":"running","pid":9,"memory":{"limit":536870912}})";
constexpr std::string_view kNotFound =
    R"({"error":{"code":"not_found","message":"there is no job 'tran'","hint":null}})";

struct Misuse {
  std::vector<std::string> arguments;
  const char* says;
};

TEST(CommandLine, AnswersMisuseWithTwoAndWhatToDo) {
  for (const auto& [arguments, says] : std::vector<Misuse>{
           {{"statsu"}, "did you mean 'status'?"},
           {{"frobnicate"}, "unknown command 'frobnicate'"},
           {{"help", "frobnicate"}, "unknown command 'frobnicate'"},
           {{"help", "statsu"}, "did you mean 'status'?"},
           {{"device", "shw", "--help"}, "did you mean 'show'?"},
           {{"config"}, "config: a command is required: check"},
           {{"status", "--jsno"}, "did you mean --json?"},
           {{"status", "extra"}, "unexpected argument 'extra'"},
           {{"status", "--", "x"}, "status: it takes no command after --"},
           {{"run"}, "--tag is required"},
           {{"run", "--tag"}, "--tag"},
           {{"run", "--tag", "t"}, "there is no command to run"},
           {{"run", "--tag", "t", "--"},
            "there is no command to run\n  gpuman run --tag NAME --memory 8GiB -- COMMAND"},
           {{"run", "--tag", "", "--", "x"}, "the tag is empty"},
           {{"run", "--tag", "t", "python", "x.py"}, "gpuman run --tag t -- python"},
           {{"run", "--tag", "t", "--command", "a", "--", "b"}, "given twice"},
           {{"run", "--tag", "t", "--command", "a 'b"}, "never closed"},
           {{"run", "--tag", "t", "--memory", "-5G", "--", "x"},
            "--memory: '-5G' is not a size: it is negative"},
           {{"run", "--tag", "t", "--memory", "0", "--", "x"}, "it is zero"},
           {{"run", "--tag", "t", "--memory", "99999999999G", "--", "x"}, "larger than 8 EiB"},
           {{"run", "--tag", "t", "--soft", "lots", "--", "x"}, "--soft: 'lots'"},
           {{"run", "--tag", "t", "--grace", "1y", "--", "x"}, "--grace: '1y'"},
           {{"run", "--tag", "t", "--priority", "256", "--", "x"}, "--priority"},
           {{"run", "--tag", "t", "--priority", "high", "--", "x"}, "--priority"},
           {{"run", "--tag", "t", "--restart", "maybe", "--", "x"}, "--restart"},
           {{"run", "--tag", "t", "--wait", "--detach", "--", "x"}, "exclude each other"},
           {{"run", "--tag", "\xff", "--", "x"}, "the tag is not UTF-8"},
           {{"run", "--tag", "t", "--", "x", "\xff"}, "argument 1 of the command is not UTF-8"},
           {{"update"}, "required"},
           {{"update", "t"}, "there is nothing to change"},
           {{"update", "t", "--memory", "some"}, "--memory: 'some'"},
           {{"logs", "t", "--tail", "-1"}, "--tail"},
           {{"events", "--limit", "-1"}, "--limit"},
           {{"gpu"}, "gpuman gpu --help"},
           {{"share", "set", "--policy", "best"}, "--policy: 'best' is not one of fair, priority, fcfs"},
           {{"events", "--since", "x"}, "--since: 'x' is not a time"},
           {{"run", "--gpus", "1", "nvidia-smi"}, "gpuman run --gpus 1 -- nvidia-smi"},
           {{"share"}, "share: a command is required, one of status, set"},
           {{"logs"}, "logs: JOB is required\n  for example: gpuman logs train -f"},
           {{"status", "extra"}, "gpuman: status: unexpected argument 'extra'"},
           {{"gpu", "lst"}, "did you mean 'list'?"},
           {{"gpu", "show"}, "required"},
           {{"completion", "tcsh"}, "'tcsh' is not one of bash, zsh, fish\n  see gpuman completion --help"},
           {{"submit", "--frobnicate", "--", "x"},
            "submit: unknown option '--frobnicate'\n  see gpuman submit --help"},
           {{"logs", "-t", "a", "-t", "b"}, "logs: --tag is given more than once"},
           {{"cancel", "--al"}, "cancel: unknown option '--al'"},
           {{"run", "run"}, "gpuman run --tag NAME -- run …"},
           {{"status", "--json=1"}, "status: --json: it takes no value"},
       }) {
    const auto outcome = Gpuman(arguments);
    const auto name = ::testing::PrintToString(arguments);
    EXPECT_EQ(outcome.status, 2) << name << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(says)) << name;
    EXPECT_THAT(outcome.out, IsEmpty()) << name;
  }
}

TEST(CommandLine, PutsErrorsAsJsonOnStderr) {
  const auto outcome = Gpuman({"run", "--tag", "t", "--memory", "-1", "--json", "--", "x"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out, IsEmpty());
  const auto error = api::ErrorOfAnswer(0, outcome.err);
  EXPECT_EQ(error.code, base::ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("negative"));
  EXPECT_THAT(Gpuman({"--json", "statsu"}).err, StartsWith(R"({"error":{"code":"invalid_argument")"));
}

TEST(CommandLine, SaysThatNoDaemonIsThere) {
  const base::TempDir directory;
  const auto socket = (directory.path() / "s").string();
  const auto outcome = Gpuman({"status", "--socket", socket});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("no daemon serves " + socket), HasSubstr("--socket " + socket)));
  EXPECT_EQ(Gpuman({"status", "--socket", "/" + std::string(200, 'x')}).status, 2);
}

// Calls `what` with the words of each command of gpuman.
void ForEachCommand(const std::function<void(const std::vector<std::string>&)>& what) {
  const std::function<void(const Command&, const std::vector<std::string>&)> visit =
      [&](const Command& command, const std::vector<std::string>& words) {
        if (!words.empty()) what(words);
        for (const auto& below : command.commands) {
          auto its = words;
          its.push_back(below.name);
          visit(below, its);
        }
      };
  visit(GpumanProgram(), {});
}

// A change has no default: "(default: none), or none" says two things.
TEST(CommandLine, SaysNoDefaultWhereAChangeMayTakeTheValueAway) {
  ForEachCommand([](const std::vector<std::string>& command) {
    auto arguments = command;
    arguments.emplace_back("--help");
    EXPECT_THAT(Gpuman(arguments).out, Not(ContainsRegex("\\(default: [^)]*\\), or none")))
        << ::testing::PrintToString(command);
  });
}

TEST(CommandLine, HasHelpWithAnExampleForEveryCommand) {
  EXPECT_THAT(Gpuman({"--help"}).out, AllOf(HasSubstr("Examples:"), HasSubstr("Exit status:")));
  ForEachCommand([](const std::vector<std::string>& command) {
    auto arguments = command;
    arguments.emplace_back("--help");
    const auto outcome = Gpuman(arguments);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out,
                AllOf(ContainsRegex("\nExample:\n  .*gpuman " + command.front()), HasSubstr("--json")))
        << ::testing::PrintToString(command);
    EXPECT_THAT(outcome.err, IsEmpty());
  });
  EXPECT_THAT(Gpuman({}).err, HasSubstr("Queue jobs:"));
  EXPECT_EQ(Gpuman({}).status, 2);
  EXPECT_THAT(Gpuman({"help", "run"}).out, HasSubstr("gpuman run --tag"));
}

TEST(CommandLine, DescribesEveryArgumentInItsHelp) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"restart"},
                                                  {"cancel"},
                                                  {"job", "show"},
                                                  {"job", "log"},
                                                  {"job", "redo"},
                                                  {"gpu", "allow"},
                                                  {"gpu", "choice"},
                                                  {"gpu", "drain"},
                                                  {"reserve", "get"},
                                                  {"reserve", "cancel"},
                                                  {"device", "power", "set"},
                                                  {"mps", "terminate"},
                                                  {"mig", "plan"},
                                                  {"completion"}}) {
    auto arguments = command;
    arguments.emplace_back("--help");
    const auto help = Gpuman(arguments).out;
    for (const char* no : {"REQUIRED", "(1x)", " x ", "JOB JOB", "GPU GPU"})
      EXPECT_THAT(help, Not(HasSubstr(no))) << command.back() << "\n" << help;
    const auto begin = help.find("Positionals:\n");
    ASSERT_NE(begin, help.npos) << command.back();
    EXPECT_THAT(help.substr(begin), ::testing::ContainsRegex("^Positionals:\n  [^ ]+ +[A-Z[]")) << help;
  }
  EXPECT_THAT(Gpuman({"restart", "--help"}).out,
              AllOf(HasSubstr("Usage: gpuman restart [OPTIONS] JOB\n"), HasSubstr("\n  -t,--tag JOB ")));
  EXPECT_THAT(Gpuman({"cancel", "--help"}).out, HasSubstr("Usage: gpuman cancel [OPTIONS] JOB...\n"));
}

// Only the command that the user asks for is set up, so the name in that list must be the command's own name.
TEST(CommandLine, SetsUpEachCommandThatItsHelpLists) {
  const std::string help = Gpuman({"--help"}).out;
  for (const char* name :
       {"run",   "status",  "proclist",   "update", "restart", "remove",  "logs",   "events",
        "gpu",   "config",  "completion", "submit", "queue",   "job",     "cancel", "info",
        "stats", "reserve", "quota",      "health", "top",     "metrics", "mig",    "why"}) {
    EXPECT_THAT(help, HasSubstr(std::string("\n  ") + name + " "));
    const auto outcome = Gpuman({name, "--help"});
    EXPECT_EQ(outcome.status, 0) << name;
    EXPECT_THAT(outcome.out, HasSubstr(std::string("gpuman ") + name)) << name;
  }
}

TEST(CommandLine, ShowsWhatIsNeededMostFirst) {
  const std::string help = Gpuman({"--help"}).out;
  const std::vector<const char*> groups{"\nRun jobs at once:\n", "\nQueue jobs:\n", "\nLook:\n",
                                        "\nShare and split GPUs:\n", "\nAdminister:\n"};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    ASSERT_NE(help.find(groups[i]), help.npos) << groups[i];
    if (i == 0) continue;
    EXPECT_LT(help.find(groups[i - 1]), help.find(groups[i]));
  }
  EXPECT_EQ(help.find("Subcommands:"), help.npos) << "a command without a group";
  for (const char* command : {"run", "submit"}) {
    const std::string text = Gpuman({command, "--help"}).out;
    EXPECT_LT(text.find("--memory"), text.find("--mps")) << command;
    EXPECT_LT(text.find("--gpus"), text.find("--mps")) << command;
    EXPECT_LT(text.find("--wait"), text.find("--mps")) << command;
    EXPECT_GT(text.find("Options of every command:"), text.find("--mps")) << command;
  }
}

TEST(CommandLine, PrintsItsVersion) {
  EXPECT_THAT(Gpuman({"--version"}).out, StartsWith("gpuman "));
  EXPECT_EQ(Gpuman({"-v"}).out, Gpuman({"--version"}).out);
  EXPECT_THAT(Gpuman({"--version", "--json"}).out, StartsWith(R"({"version":")"));
}

TEST(Run, SendsEverythingItWasTold) {
  const TestServer server({TestServer::Answer(201, kJob)});
  const auto outcome = GpumanAt(
      server, {"run", "--tag",        "t",       "--memory",   "512MiB", "--soft",    "50%",        "--gpu",
               "0,1", "--gpu",        "GPU-abc", "--priority", "7",      "--restart", "on-failure", "--grace",
               "1m",  "--no-preload", "--",      "cat",        "--json", "--tag",     "x y"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "job 7 't' is running (pid 9), at most 512MiB on each GPU\n");
  const auto asked = server.requests().at(0);
  const auto request = api::Decode<api::RunRequest>(asked.substr(asked.find("\r\n\r\n") + 4));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->tag, "t");
  EXPECT_THAT(request->command, ::testing::ElementsAre("cat", "--json", "--tag", "x y"));
  EXPECT_EQ(request->memory->bytes, base::MiB(512));
  EXPECT_EQ(request->soft->percent, 50);
  EXPECT_THAT(request->gpus, ::testing::ElementsAre("0", "1", "GPU-abc"));
  EXPECT_EQ(request->priority, 7);
  EXPECT_EQ(request->restart, spec::RestartMode::kOnFailure);
  EXPECT_EQ(request->grace, base::Millis(60'000));
  EXPECT_FALSE(request->preload);
  EXPECT_EQ(request->directory, std::filesystem::current_path());
  EXPECT_EQ(request->environment.at("PATH"), ::getenv("PATH"));
}

TEST(Run, TakesTheCommandLineOfTheFirstTool) {
  const TestServer server({TestServer::Answer(201, kJob)});
  const auto outcome = GpumanAt(
      server, {"run", "--tag", "test_cuda_app", "--command", "/bin/cat", "--memory", "536870912", "--json"});
  EXPECT_EQ(outcome.status, 0);
  const auto job = api::Decode<api::JobView>(outcome.out);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->memory.limit, base::MiB(512));
  const auto asked = server.requests().at(0);
  const auto request = api::Decode<api::RunRequest>(asked.substr(asked.find("\r\n\r\n") + 4));
  EXPECT_THAT(request->command, ::testing::ElementsAre("/bin/cat"));
}

TEST(Run, ExitsAsTheRefusalSays) {
  for (const auto& [http, code, status] :
       std::vector<std::tuple<int, const char*, int>>{{422, "unsatisfiable", 6},
                                                      {403, "permission_denied", 5},
                                                      {409, "already_exists", 1},
                                                      {404, "not_found", 4}}) {
    const TestServer server({TestServer::Answer(
        http, R"({"error":{"code":")" + std::string(code) + R"(","message":"no way","hint":"less"}})")});
    const auto outcome = GpumanAt(server, {"run", "--tag", "t", "--", "true"});
    EXPECT_EQ(outcome.status, status) << code;
    EXPECT_EQ(outcome.err, "gpuman: no way\n  less\n");
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

TEST(Run, RefusesACommandThatCannotBeExecuted) {
  const base::TempDir directory;
  const auto file = (directory.path() / "file").string();
  std::ofstream(file) << "x";
  const TestServer server({TestServer::Answer(201, kJob)});
  for (const auto& [command, status, says] : std::vector<std::tuple<std::string, int, const char*>>{
           {"no-such-program-anywhere", 4, "command not found: no-such-program-anywhere"},
           {directory.path() / "nothing", 4, "command not found: "},
           {directory.path(), 5, "is a directory"},
           {file, 5, "is not executable"}}) {
    const auto outcome = GpumanAt(server, {"run", "--tag", "t", "--", command});
    EXPECT_EQ(outcome.status, status) << command;
    EXPECT_THAT(outcome.err, HasSubstr(says));
  }
  EXPECT_THAT(server.requests(), IsEmpty());
}

TEST(Run, MissingProgramHintNamesFileThatIsThere) {
  const base::TempDir directory;
  std::ofstream(directory.path() / "train.sh") << "x";
  std::ofstream(directory.path() / "tool") << "x";
  std::filesystem::permissions(directory.path() / "tool", std::filesystem::perms::all);
  const auto hint_of = [&](const char* program) {
    const auto checked = queue::CheckProgram(program, directory.path().string(), {{"PATH", "/nonexistent"}});
    return checked ? std::string("found") : checked.error().hint;
  };
  EXPECT_THAT(hint_of("trian.sh"),
              AllOf(HasSubstr("there is no file " + directory.path().string() + "/trian.sh"),
                    HasSubstr("did you mean train.sh?")));
  EXPECT_THAT(hint_of("train.sh"), HasSubstr("chmod +x train.sh"));
  EXPECT_THAT(hint_of("tool"), HasSubstr("needs ./ in front: ./tool"));
  EXPECT_THAT(hint_of("./other"), HasSubstr("there is no file"));
  EXPECT_THAT(hint_of("python9"), HasSubstr("needs its full path"));
}

TEST(RunWait, ShowsTheOutputAndExitsAsTheJobDid) {
  const TestServer server(
      {TestServer::Answer(201, kJob), TestServer::Answer(200, "hello\n", "text/plain"),
       TestServer::Answer(200, R"({"id":7,"tag":"t","state":"killed","reason":"memory_limit","signal":9,
                                   "reason_detail":"used 600MiB of 512MiB"})")});
  const auto outcome = GpumanAt(server, {"run", "--tag", "t", "--wait", "--", "true"});
  EXPECT_EQ(outcome.status, 137);
  EXPECT_EQ(outcome.out, "hello\n");
  EXPECT_THAT(outcome.err, HasSubstr("used 600MiB of 512MiB"));
}

TEST(RunWait, PrintsTheEndedJobAsJson) {
  const TestServer server({TestServer::Answer(201, kJob),
                           TestServer::Answer(200, R"({"id":7,"tag":"t","state":"failed","exit_code":3})")});
  const auto outcome = GpumanAt(server, {"run", "--tag", "t", "--wait", "--json", "--", "true"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(api::Decode<api::JobView>(outcome.out)->exit_code, 3);
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST(Update, TakesLimitsAway) {
  const TestServer server({TestServer::Answer(200, kJob)});
  EXPECT_EQ(GpumanAt(server, {"update", "t", "--memory", "none", "--soft", "1G", "--priority", "0"}).status,
            0);
  EXPECT_EQ(GpumanAt(server, {"update", "--tag", "t", "--memory", "1G"}).status, 0);
  EXPECT_THAT(server.requests().at(0), HasSubstr(R"({"memory":null,"soft":1073741824,"priority":0})"));
  EXPECT_THAT(server.requests().at(1), StartsWith("PATCH /v1/jobs/t "));
}

TEST(JobCommands, SuggestTheTagThatWasMeant) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"restart", "tran"},
                                                  {"remove", "tran"},
                                                  {"logs", "tran"},
                                                  {"update", "tran", "-m", "1G"}}) {
    const TestServer server(
        {TestServer::Answer(404, kNotFound),
         TestServer::Answer(200, R"({"jobs":[{"id":1,"tag":"train","state":"running"}]})")});
    const auto outcome = GpumanAt(server, command);
    EXPECT_EQ(outcome.status, 4) << command[0];
    EXPECT_THAT(outcome.err, HasSubstr("did you mean 'train'?")) << command[0];
  }
}

TEST(JobCommands, SuggestTheNameOfTheSweepThatWasMeant) {
  const auto hint_for = [](const char* job, const std::string& jobs) {
    const TestServer server(
        {TestServer::Answer(404, kNotFound), TestServer::Answer(200, R"({"jobs":[)" + jobs + "]}")});
    return GpumanAt(server, {"remove", job}).err;
  };
  const auto job_of = [](int id, const char* tag, int second) {
    return fmt::format(
        R"({{"id":{},"tag":"{}","user":"ada","state":"queued","submitted_at":"2026-11-30T10:00:0{}Z"}})", id,
        tag, second);
  };
  const auto both = [&](const char* one, const char* other, int second) {
    return job_of(1, one, 0) + "," + job_of(2, other, second);
  };
  EXPECT_THAT(hint_for("sw", both("sw-1", "sw-2", 0)), HasSubstr("the jobs of the sweep are named 'sw-*'"));
  EXPECT_THAT(hint_for("sw", both("sw-x1", "sw-y1", 0)), HasSubstr("named 'sw-*'"));
  EXPECT_THAT(hint_for("sw", both("sw-0.1", "sw-0.01", 0)), HasSubstr("named 'sw-0.*'"));
  EXPECT_THAT(hint_for("sw", both("sw-a", "sw-b", 1)), Not(HasSubstr("sweep"))) << "two submissions";
  EXPECT_THAT(hint_for("sw", both("sw-a", "sw-a", 0)), Not(HasSubstr("sweep"))) << "an array";
}

TEST(JobCommands, SuggestNoTagForOneOrTwoLetters) {
  const TestServer server({TestServer::Answer(404, kNotFound),
                           TestServer::Answer(200, R"({"jobs":[{"id":1,"tag":"b","state":"running"}]})")});
  const auto outcome = GpumanAt(server, {"remove", "a"});
  EXPECT_EQ(outcome.status, 4);
  EXPECT_THAT(outcome.err, Not(HasSubstr("did you mean")));
}

TEST(JobCommands, SuggestNoTagWhereTheGpuIsTheOneThatIsNotThere) {
  for (const std::string job : {"train", "1"}) {
    const TestServer server(
        {TestServer::Answer(
             404, R"({"error":{"code":"not_found","message":"no GPU 7","hint":"there are 0 and 1"}})"),
         TestServer::Answer(200, R"({"jobs":[{"id":1,"tag":"train","state":"running"}]})")});
    const auto outcome = GpumanAt(server, {"move", job, "--to", "7"});
    EXPECT_EQ(outcome.status, 4);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("there are 0 and 1"), Not(HasSubstr("did you mean")))) << job;
  }
}

TEST(Logs, PassBytesThroughAndMakeLinesOfThemInJson) {
  const TestServer server({TestServer::Answer(200, "a\n\x1b[1mb\xff", "text/plain")});
  EXPECT_EQ(GpumanAt(server, {"logs", "t"}).out, "a\n\x1b[1mb\xff");
  EXPECT_EQ(GpumanAt(server, {"logs", "t", "--json"}).out,
            "{\"line\":\"a\"}\n{\"line\":\"\\u001b[1mb\xEF\xBF\xBD\"}\n");
}

TEST(Events, FollowAsOneJsonObjectALine) {
  const std::string event = R"({"id":5,"at":"2026-11-21T00:00:00.000Z","kind":"soft_limit","message":"m"})";
  const TestServer server({TestServer::Answer(200, "data: " + event + "\n\n", "text/event-stream")});
  const auto outcome = GpumanAt(server, {"events", "-f", "--json", "--since", "4"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(api::Decode<api::EventView>(outcome.out)->id, 5);
  EXPECT_THAT(server.requests().at(0), StartsWith("GET /v1/events?follow=1&since=4 "));
}

TEST(Events, OfATimeAreAskedForByTheTime) {
  const TestServer server({TestServer::Answer(200, R"({"events":[]})")});
  EXPECT_EQ(GpumanAt(server, {"events", "--since", "7", "--since", "2026-02-01T08:00:00Z"}).status, 0);
  EXPECT_THAT(server.requests().at(0), StartsWith("GET /v1/events?from=2026-02-01T08%3A00%3A00.000Z "));
}

TEST(Events, ZeroPastEventsMayBeRequested) {
  const TestServer none({});
  const auto nothing = GpumanAt(none, {"events", "-n", "0", "--json"});
  EXPECT_EQ(nothing.status, 0) << nothing.err;
  EXPECT_THAT(nothing.out, HasSubstr("\"events\""));
  constexpr const char* kEvent =
      R"({"id":5,"at":"2026-01-01T00:00:00Z","kind":"job_started","message":"old"})";
  const TestServer server(
      {TestServer::Answer(200, std::string(R"({"events":[)") + kEvent + "]}"),
       TestServer::Answer(
           200,
           "data: " + std::string(R"({"id":6,"at":"2026-01-01T00:00:01Z","kind":"x","message":"new"})") +
               "\n\n",
           "text/event-stream")});
  const auto outcome = GpumanAt(server, {"events", "-f", "-n", "0"});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("new"), Not(HasSubstr("old")))) << outcome.err;
  EXPECT_THAT(server.requests().at(1), HasSubstr("since=5"));
}

TEST(Proclist, NamesTheGpuOfEachProcessInJson) {
  const TestServer server({TestServer::Answer(
      200, R"({"gpus":[{"index":1,"uuid":"GPU-x","processes":[{"pid":7,"memory":5,"job":null}]}]})")});
  EXPECT_THAT(GpumanAt(server, {"proclist", "--json"}).out,
              StartsWith(R"({"processes":[{"gpu":1,"uuid":"GPU-x","pid":7,)"));
}

TEST(Complete, KnowsCommandsOptionsTagsAndGpus) {
  const TestServer server({TestServer::Answer(
      200,
      R"({"jobs":[{"id":1,"tag":"train","state":"running"},{"id":2,"tag":"a:b","state":"running"}],"gpus":[]})")});
  const auto complete = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"__complete", "--socket", server.socket().string()});
    const auto outcome = Gpuman(words);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.err, IsEmpty());
    return outcome.out;
  };
  EXPECT_THAT(complete({"st"}), HasSubstr("status\tShow"));
  EXPECT_THAT(complete({""}),
              AllOf(HasSubstr("run\t"), HasSubstr("completion\t"), Not(HasSubstr("__complete"))));
  EXPECT_THAT(complete({"logs", ""}), "train\tjob 1, running\na:b\tjob 2, running\n");
  EXPECT_THAT(complete({"logs", "t"}), "train\tjob 1, running\n");
  EXPECT_THAT(complete({"update", "--tag=t"}), "--tag=train\tjob 1, running\n");
  EXPECT_THAT(complete({"logs", "train", ""}), IsEmpty());
  EXPECT_THAT(complete({"logs", "--fo"}), StartsWith("--follow\t"));
  EXPECT_THAT(complete({"run", "--restart", ""}), "no\t\non-failure\t\nalways\t\n");
  EXPECT_THAT(complete({"run", "--restart=al"}), "--restart=always\t\n");
  EXPECT_THAT(complete({"run", "--tag", "t", "--", "py"}), ":command\t\n");
  EXPECT_THAT(complete({"run", "--tag", "t", "--", "python", "tr"}), ":files\t\n");
  EXPECT_THAT(complete({"gpu", ""}), AllOf(HasSubstr("list\t"), HasSubstr("show\t")));
  EXPECT_THAT(complete({"completion", ""}), "bash\t\nzsh\t\nfish\t\n");
  EXPECT_THAT(complete({"run", "--memory", ""}), IsEmpty());
}

TEST(Complete, IsSilentWithoutADaemon) {
  const base::TempDir directory;
  const auto outcome = Gpuman({"__complete", "--socket", (directory.path() / "s").string(), "logs", ""});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST(Events, AreFollowedOverADaemonThatIsLostBeforeItsFirstAnswer) {
  constexpr std::string_view kRefused =
      R"({"error":{"code":"permission_denied","message":"not for you","hint":null}})";
  const TestServer server(
      {"", TestServer::Answer(200, R"({"events":[]})"), TestServer::Answer(403, kRefused)});
  const auto outcome = GpumanAt(server, {"events", "-f"});
  EXPECT_THAT(outcome.err, HasSubstr("not for you")) << "of the third request";
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[0], requests[1]);
  EXPECT_THAT(requests[2], HasSubstr("follow"));
}

}  // namespace
}  // namespace gpuman::cli
