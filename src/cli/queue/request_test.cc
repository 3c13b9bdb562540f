#include "cli/queue/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "api/queue_json.h"
#include "base/test_temp_dir.h"
#include "cli/commands.h"
#include "cli/compat/gflow/dialect.h"
#include "cli/compat/known_tools.h"
#include "cli/queue/script.h"
#include "cli/queue/sweep.h"
#include "cli/queue/test_command_line.h"

namespace gpuman::cli::queue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// --- scripts

const std::vector<const CommandDialect*> kDialects{&gflow::kDialect};

TEST(Script, HasOptionsInItsFirstLines) {
  const auto directives = ReadDirectives(
      "#!/bin/bash\n"
      "# GPUMAN --gpus 2 --name 'a b'  # why\n"
      "#GPUMAN --time=4h\n"
      "\n"
      "# GPUMANIAC --x\n"
      "python train.py\n"
      "# GPUMAN --gpus 3\n"
      "  # GFLOW --memory=4G\n",
      kDialects);
  ASSERT_TRUE(directives) << directives.error().message;
  ASSERT_THAT(directives->list, SizeIs(3));
  EXPECT_THAT(directives->list[0].words, ElementsAre("--gpus", "2", "--name", "a b"));
  EXPECT_EQ(directives->list[1].line, 3);
  EXPECT_EQ(directives->list[2].dialect, &gflow::kDialect);
  EXPECT_THAT(directives->too_late, ElementsAre(7));
}

TEST(Script, NamesTheLineThatIsWrong) {
  for (const auto& [text, says] : std::vector<std::pair<const char*, const char*>>{
           {"#!/bin/sh\n# GPUMAN --gpsu 2\n", "s.sh:2: unknown option '--gpsu'"},
           {"# GFLOW --time=soon\n", "s.sh:1: --time: 'soon' is not a time"},
           {"\n\n# GPUMAN --gpus 1 train\n", "s.sh:3: 'train' is not an option"},
           {"# GPUMAN --gpus\n", "s.sh:1: --gpus: its value is missing"},
           {"# GPUMAN --wait\n", "--wait, --command and --jobs are possible on the command line only"}}) {
    SubmitSettings settings;
    const auto directives = ReadDirectives(text, kDialects);
    ASSERT_TRUE(directives) << text;
    const auto applied = ApplyDirectives(*directives, "s.sh", settings, {});
    ASSERT_FALSE(applied) << text;
    EXPECT_THAT(applied.error().message, HasSubstr(says));
  }
  EXPECT_THAT(ReadDirectives("x\n# GFLOW --name 'a\n", kDialects).error().message,
              HasSubstr("line 2: a ' is never closed"));
}

TEST(Script, IsForAShellOrForAnotherProgram) {
  EXPECT_TRUE(IsShellScript("echo\n"));
  EXPECT_TRUE(IsShellScript("#!/bin/bash -e\n"));
  EXPECT_TRUE(IsShellScript("#! /usr/bin/env -S bash -e\n"));
  EXPECT_FALSE(IsShellScript("#!/usr/bin/env python3\n"));
  EXPECT_FALSE(IsShellScript("#!/usr/bin/perl"));
}

// --- sweeps

TEST(Parameters, AreListsAndRanges) {
  EXPECT_THAT(ParseParameter("lr=0.1,0.01")->values, ElementsAre("0.1", "0.01"));
  EXPECT_THAT(ParseParameter("seed=1:3")->values, ElementsAre("1", "2", "3"));
  EXPECT_THAT(ParseParameter("x=0:1:0.25")->values, ElementsAre("0.00", "0.25", "0.50", "0.75", "1.00"));
  EXPECT_THAT(ParseParameter("x=-1:1")->values, ElementsAre("-1", "0", "1"));
  EXPECT_THAT(ParseParameter("u=http://a:b")->values, ElementsAre("http://a:b"));
  for (const char* text : {"lr", "=1", "lr=", "l r=1", "x=3:1", "x=1:2:0", "x=0:99999999", "x=1,,2"})
    EXPECT_FALSE(ParseParameter(text)) << text;
}

TEST(Substitute, LeavesTheShellsBracesAndUnknownWordsAlone) {
  const Combination values{{"lr", "0.1"}, {"bs", "32"}};
  EXPECT_EQ(Substitute("--lr {lr} -b{bs}", values), "--lr 0.1 -b32");
  EXPECT_EQ(Substitute("${lr} {a,b} {} { {unknown} awk '{print $1}' {lr", values),
            "${lr} {a,b} {} { {unknown} awk '{print $1}' {lr");
  EXPECT_EQ(Substitute("{{lr}} {x{bs}", values), "{0.1} {x32");
}

TEST(Csv, HasQuotesAndNamesTheLineThatIsWrong) {
  const auto table = ReadCsv("id,text\r\n1,\"a,\"\"b\"\"\nc\"\n\n2,x\n");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_THAT(*table, ElementsAre(Combination{{"id", "1"}, {"text", "a,\"b\"\nc"}},
                                  Combination{{"id", "2"}, {"text", "x"}}));
  EXPECT_THAT(ReadCsv("a,b\n1\n").error().message, HasSubstr("line 2 has 1 values for 2 names"));
  EXPECT_THAT(ReadCsv("a,a\n1,2\n").error().message,
              HasSubstr("line 1: the name 'a' is empty or there twice"));
  EXPECT_THAT(ReadCsv("a\n\"x\n").error().message, HasSubstr("line 2: a quote is never closed"));
  EXPECT_THAT(ReadCsv("a\n").error().message, HasSubstr("no line of values"));
}

TEST(Sweep, EachParameterCombinesWithEachTableLine) {
  const auto combinations = Combine({{"b", {"1", "2"}}}, {{{"a", "x"}}, {{"a", "y"}}});
  ASSERT_TRUE(combinations);
  api::Submission job;
  job.command = {"run", "{a}{b}"};
  job.name = "t";
  const auto jobs = MakeSweep(job, *combinations, std::nullopt);
  ASSERT_TRUE(jobs) << jobs.error().message;
  ASSERT_THAT(*jobs, SizeIs(4));
  EXPECT_EQ(jobs->at(1).command[1], "x2");
  EXPECT_EQ(jobs->at(2).command[1], "y1");
  EXPECT_EQ(jobs->at(3).name, "t-4");
  EXPECT_EQ(MakeSweep(job, *combinations, "n-{a}-{b}")->at(3).name, "n-y-2");
  job.command = {"run", "{a}"};
  EXPECT_THAT(MakeSweep(job, *combinations, std::nullopt).error().message,
              HasSubstr("no part of the job has the parameter 'b'"));
  EXPECT_FALSE(Combine({{"a", {"1"}}}, {{{"a", "x"}}}));
  EXPECT_FALSE(
      Combine({{"a", std::vector<std::string>(1000, "1")}, {"b", std::vector<std::string>(101, "1")}}, {}));
}

// --- whole command lines

TEST(Tag, IsMadeFromNamesOfOtherTools) {
  EXPECT_EQ(TagFrom("my run"), "my-run");
  EXPECT_EQ(TagFrom("17_2"), "job-17_2");
  EXPECT_EQ(TagFrom("(x)"), "job-x-") << "no option";
  EXPECT_EQ(TagFrom(std::string(70, '1')).size(), 64u);
}

class Request : public ::testing::Test {
 protected:
  void SetUp() override {
    context_.origin = {directory_.path().string(), {"PATH=/usr/bin:/bin", "HOME=/h", "SECRET=s"}, 027};
    context_.now = base::WallTime(base::Millis(1'800'000'000'000));
  }
  std::string Write(const char* name, const std::string& text) {
    std::ofstream(directory_.path() / name) << text;
    return (directory_.path() / name).string();
  }
  base::Result<MadeSubmission> Make(std::vector<std::string> options, const std::vector<std::string>& words,
                                    std::optional<std::vector<std::string>> trailing = std::nullopt,
                                    const CommandDialect& dialect = kGpuman) {
    options.insert(options.end(), words.begin(), words.end());
    GPUMAN_ASSIGN(auto typed, ParseSubmission(options, dialect, context_.now));
    typed.line.trailing = std::move(trailing);
    return MakeSubmission(std::move(typed.settings), typed.line, dialect, context_);
  }
  std::string ErrorOf(std::vector<std::string> options, const std::vector<std::string>& words) {
    const auto made = Make(std::move(options), words);
    return made ? "it was taken" : made.error().message;
  }
  base::TempDir directory_;
  SubmitContext context_{KnownTools()};
};

TEST_F(Request, TakesACommandWithWhatItNeeds) {
  const auto made = Make({"--gpus", "2", "--time=2h", "--name", "t", "--depends", "7", "--array=0-3%2",
                          "--wait", "--retries", "2", "--retry-on=75", "--warn", "TERM@60s"},
                         {}, std::vector<std::string>{"true", "--gpus", "9"});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_THAT(made->request.jobs, SizeIs(1));
  const auto& job = made->request.jobs[0];
  EXPECT_THAT(job.command, ElementsAre("true", "--gpus", "9"));
  EXPECT_EQ(job.gpus.count, 2);
  EXPECT_EQ(job.time_limit, base::Millis(7'200'000));
  EXPECT_EQ(job.array->limit, 2);
  EXPECT_EQ(job.retries, (spec::Retries{2, {}, {75}}));
  EXPECT_EQ(job.warn_signal, spec::Signal{SIGTERM});
  EXPECT_TRUE(made->wait);
  EXPECT_EQ(made->request.directory, directory_.path().string());
  EXPECT_EQ(made->request.umask, 027U);
  EXPECT_EQ(made->request.environment.at("SECRET"), "s");
}

TEST_F(Request, TakesAShellScriptAlongAndLetsTheCommandLineHaveTheLastWord) {
  Write("train.sh",
        "#!/bin/bash\n# GPUMAN --gpus 1 --name a --depends 1,2\n# GFLOW --memory=4G --time=30\necho $1\n");
  const auto made = Make({"--gpus=2", "--depends=3"}, {"train.sh", "x", "--y"});
  ASSERT_TRUE(made) << made.error().message;
  const auto& job = made->request.jobs[0];
  EXPECT_THAT(*job.script, HasSubstr("echo $1"));
  EXPECT_THAT(job.arguments, ElementsAre("x", "--y"));
  EXPECT_EQ(job.gpus.count, 2);
  EXPECT_EQ(job.name, "a");
  EXPECT_EQ(job.host_memory, base::GiB(4));
  EXPECT_EQ(job.time_limit, base::Millis(1'800'000));
  ASSERT_THAT(job.depends.list, SizeIs(1));
  EXPECT_EQ(job.depends.list[0].job, "3");
}

// A user may not know that a job has no GPU by default.
TEST_F(Request, SaysThatAJobWithoutAWordAboutGpusGetsNone) {
  const auto notes_of = [&](std::vector<std::string> options, const std::vector<std::string>& words,
                            const CommandDialect& dialect = kGpuman) {
    const auto made = Make(std::move(options), words, std::nullopt, dialect);
    return made ? fmt::format("{}", fmt::join(made->notes, "; ")) : made.error().message;
  };
  const auto says_so =
      HasSubstr("asks for no GPU, so it gets none; to give it one: gpuman submit --gpus 1 …");
  EXPECT_THAT(notes_of({"--name=a"}, {"true"}), says_so);
  EXPECT_THAT(notes_of({"--command=true"}, {}), says_so);
  EXPECT_EQ(notes_of({"--gpus=1"}, {"true"}), "");
  EXPECT_EQ(notes_of({"--gpus=0"}, {"true"}), "");
  EXPECT_EQ(notes_of({"--gpu=0"}, {"true"}), "");
  EXPECT_EQ(notes_of({"--to=slurm"}, {"true"}), "");
  EXPECT_EQ(notes_of({}, {"true"}, gflow::kDialect), "") << "its users know it";
  Write("none", "true\n--name b -- true\n");
  Write("some", "true\n--gpus 1 -- true\n");
  EXPECT_THAT(notes_of({"--jobs=" + (directory_.path() / "none").string()}, {}),
              HasSubstr("no job in it asks for a GPU, so none gets one"));
  EXPECT_EQ(notes_of({"--jobs=" + (directory_.path() / "some").string()}, {}), "");
}

TEST_F(Request, SaysThatLinesForSlurmAreNotReadBesideItsOwn) {
  const auto notes_of = [&](const std::string& lines) {
    Write("both.sh", "#!/bin/bash\n" + lines + "true\n");
    const auto made = Make({}, {"both.sh"});
    return made ? fmt::format("{}", fmt::join(made->notes, "; ")) : made.error().message;
  };
  EXPECT_EQ(notes_of("#GPUMAN --gpus 1\n#SBATCH --time=30\n"),
            "both.sh: its #SBATCH lines are not read, as it has # GPUMAN lines");
  EXPECT_EQ(notes_of("#GFLOW --gpus 1\n#SBATCH --time=soon\n"),
            "both.sh: its #SBATCH lines are not read, as it has # GFLOW lines");
  EXPECT_EQ(notes_of("#GPUMAN --gpus 1\n# SBATCH\n"), "");
}

TEST_F(Request, TheLastSizeOfMemoryCountsWhetherItIsToBeChosenOrNot) {
  Write("train.sh", "#!/bin/bash\n# GPUMAN --gpus 1 --memory auto\ntrue\n");
  const auto chosen = Make({}, {"train.sh"});
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_TRUE(chosen->request.jobs[0].memory_auto);
  EXPECT_EQ(chosen->request.jobs[0].memory, std::nullopt);
  const auto given = Make({"--memory=4G"}, {"train.sh"});
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_FALSE(given->request.jobs[0].memory_auto);
  EXPECT_EQ(given->request.jobs[0].memory, (base::SizeSpec{base::GiB(4), 0}));
  EXPECT_THAT(ErrorOf({"--memory=automatic", "--gpus=1"}, {"true"}), HasSubstr("automatic"));
}

TEST_F(Request, LetsOtherScriptsRunWhereTheyAre) {
  const auto path = Write("train.py", "#!/usr/bin/env python3\n# GPUMAN --gpus 3\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  const auto made = Make({}, {"train.py", "x"});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->request.jobs[0].command, ElementsAre("./train.py", "x"));
  EXPECT_EQ(made->request.jobs[0].gpus.count, 3);
  EXPECT_FALSE(made->request.jobs[0].script);
}

TEST_F(Request, ReadsAScriptFromStandardInput) {
  context_.standard_input = [] { return base::Result<std::string>("# GFLOW --gpus=1\necho hello\n"); };
  const auto made = Make({}, {});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->request.jobs[0].gpus.count, 1);
  context_.standard_input = [] { return base::Result<std::string>(" \n"); };
  EXPECT_THAT(ErrorOf({}, {}), HasSubstr("standard input is empty"));
  context_.standard_input = nullptr;
  EXPECT_THAT(ErrorOf({}, {}), HasSubstr("there is no command to run"));
}

TEST_F(Request, TellsOfADirectoryAndAFileThatAreNotThereYet) {
  const auto notes = [&](const std::vector<std::string>& options) {
    const auto made = Make(options, {"true"});
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->notes : std::vector<std::string>{};
  };
  EXPECT_THAT(
      notes({"--directory=/nosuch", "--gpus=1"}),
      ElementsAre("--directory: there is no directory /nosuch now; the job fails if it is not there when "
                  "it starts"));
  EXPECT_THAT(notes({"--gpus=1", "--input=in.txt"}),
              ElementsAre(HasSubstr("--input: there is no file " + (directory_.path() / "in.txt").string())));
  Write("in.txt", "");
  EXPECT_THAT(notes({"--gpus=1", "--input=in.txt", "--directory=/tmp/.."}), SizeIs(1))
      << "it is not in that directory";
  EXPECT_THAT(notes({"--gpus=1", "--input=in.txt"}), SizeIs(0));
  EXPECT_THAT(notes({"--gpus=1", "--input=%j.txt"}), SizeIs(0)) << "nobody knows the name yet";
}

TEST_F(Request, ReadsAFileOfManyJobs) {
  const auto path = Write("jobs",
                          "# comment\n\n--name a -- true x\n--gpus 1 --name b true 'y z' | cat\n"
                          R"({"name":"c","command":["true"]})"
                          "\n");
  const auto made = Make({"--jobs", path, "--gpus=2"}, {});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_THAT(made->request.jobs, SizeIs(3));
  EXPECT_THAT(made->request.jobs[0].command, ElementsAre("true", "x"));
  EXPECT_EQ(made->request.jobs[0].gpus.count, 2);
  EXPECT_EQ(made->request.jobs[1].gpus.count, 1);
  EXPECT_THAT(made->request.jobs[1].command, ElementsAre("/bin/sh", "-c", "true 'y z' | cat"));
  EXPECT_EQ(made->request.jobs[2].name, "c");
}

TEST_F(Request, NamesTheLineOfAFileOfManyJobs) {
  for (const auto& [text, says] : std::vector<std::pair<const char*, const char*>>{
           {"true\n--gpsu 1 -- true\n", "jobs:2: unknown option '--gpsu'"},
           {"--gpus 1 --\n", "jobs:1: there is no command"},
           {"--name 7 -- true\n", "jobs:1: --name: '7' could be"},
           {"\n{\"command\":[]}\n", "jobs:2: jobs[0].command"},
           {"[{\"command\":[\"x\"],\"gpu\":1}]", "unknown field 'gpu'"},
           {"--name 'a true\n", "jobs:1: a ' is never closed"},
           {"true\nno-such-program x\n", "jobs:2: command not found: no-such-program"},
           {"# nothing\n", "there is no job in it"}}) {
    const auto path = Write("jobs", text);
    EXPECT_THAT(ErrorOf({"--jobs", path}, {}), HasSubstr(says)) << text;
  }
}

TEST_F(Request, SweepsInTemplates) {
  const auto made = Make(
      {"--param", "lr=0.1,0.01", "--param=seed=1:2", "--max-concurrent=2", "--name-template=r-{seed}-{lr}"},
      {"echo", "{lr}", "{seed}"});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_THAT(made->request.jobs, SizeIs(4));
  EXPECT_THAT(made->request.jobs[1].command, ElementsAre("echo", "0.1", "2"));
  EXPECT_EQ(made->request.jobs[1].name, "r-2-0.1");
  EXPECT_EQ(made->request.jobs[0].group, made->request.jobs[3].group);
  EXPECT_TRUE(made->request.jobs[0].group.has_value());
}

TEST_F(Request, CapturesAsMuchOfTheEnvironmentAsIsAskedFor) {
  const auto made = Make({"--export", "none,A=1"}, {"true"});
  ASSERT_TRUE(made) << made.error().message;
  const std::map<std::string, std::string> expected{{"A", "1"}, {"HOME", "/h"}, {"PATH", "/usr/bin:/bin"}};
  EXPECT_EQ(made->request.environment, expected);
}

// The variable that a shell has if it was set up for nvshare.
constexpr const char* kPreload = "LD_PRELOAD=/opt/libnvshare.so:/opt/other.so";
TEST_F(Request, RefusesNumbersThatTheApiWouldRefuse) {
  for (const char* option :
       {"--max-concurrent=100001", "--cpus=1000001", "--retries=1001", "--priority=256"}) {
    const auto made = Make({"--gpus=1", option}, {"true"});
    ASSERT_FALSE(made) << option;
    EXPECT_THAT(made.error().message, HasSubstr("is not a number in the possible range")) << option;
  }
  EXPECT_TRUE(Make({"--group=g", "--max-concurrent=100000", "--cpus=1000000", "--retries=1000"}, {"true"}));
}

constexpr const char* kNoteOfLibrary = "libnvshare.so was removed from LD_PRELOAD: libgpuman.so replaces it";

TEST_F(Request, LeavesTheLibraryOfNvshareOutOfJobsThatShare) {
  context_.origin.environment.emplace_back(kPreload);
  const auto shares = Make({"--share", "--memory=1G", "--gpus=1"}, {"true"});
  ASSERT_TRUE(shares) << shares.error().message;
  EXPECT_EQ(shares->request.environment.at("LD_PRELOAD"), "/opt/other.so");
  EXPECT_FALSE(shares->request.jobs[0].environment);
  EXPECT_THAT(shares->notes, ElementsAre(kNoteOfLibrary));
  const auto alone = Make({"--gpus=1"}, {"true"});
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ(alone->request.environment.at("LD_PRELOAD"), "/opt/libnvshare.so:/opt/other.so");
  EXPECT_THAT(alone->notes, SizeIs(0));
}

TEST_F(Request, LeavesTheLibraryOfNvshareOutOfAnEnvironmentOfTheJobsOwn) {
  context_.origin.environment.emplace_back(kPreload);
  const auto made = Make({"--share", "--memory=1G", "--gpus=1", "--visible-devices", "index"}, {"true"});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->request.jobs[0].environment->at("LD_PRELOAD"), "/opt/other.so");
  EXPECT_EQ(made->request.jobs[0].environment->at("GPUMAN_VISIBLE_DEVICES"), "index");
  EXPECT_THAT(made->notes, ElementsAre(kNoteOfLibrary));
}

TEST_F(Request, LeavesTheLibraryOfNvshareToJobsThatDoNotShare) {
  const auto path = Write("jobs",
                          "--share --memory 1G -- true\n"
                          "true\n"
                          "--share --memory 1G --export all,A=1 -- true\n"
                          "--export all,A=1 -- true\n");
  const auto plain = Make({"--jobs", path, "--gpus=1"}, {});
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_FALSE(plain->request.jobs[0].environment) << "there is nothing to leave out";
  context_.origin.environment.emplace_back(kPreload);
  const auto made = Make({"--jobs", path, "--gpus=1"}, {});
  ASSERT_TRUE(made) << made.error().message;
  const auto& jobs = made->request.jobs;
  ASSERT_THAT(jobs, SizeIs(4));
  EXPECT_EQ(made->request.environment.at("LD_PRELOAD"), "/opt/libnvshare.so:/opt/other.so");
  EXPECT_EQ(jobs[0].environment->at("LD_PRELOAD"), "/opt/other.so");
  EXPECT_EQ(jobs[0].environment->at("SECRET"), "s");
  EXPECT_FALSE(jobs[1].environment);
  EXPECT_EQ(jobs[2].environment->at("LD_PRELOAD"), "/opt/other.so");
  EXPECT_EQ(jobs[3].environment->at("LD_PRELOAD"), "/opt/libnvshare.so:/opt/other.so");
  EXPECT_THAT(made->notes, ElementsAre(kNoteOfLibrary)) << "once";
}

// The job does not share: gflow accepts --shared for a job without GPUs.
TEST_F(Request, LeavesTheLibraryOfNvshareToAJobOfGflowWithoutGpus) {
  context_.origin.environment.emplace_back(kPreload);
  const auto made = Make({"--shared", "--gpu-memory=1G"}, {"true"}, std::nullopt, gflow::kDialect);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->request.environment.at("LD_PRELOAD"), "/opt/libnvshare.so:/opt/other.so");
  EXPECT_THAT(made->notes, SizeIs(0));
}

TEST_F(Request, WrongOptionsAreRefusedByName) {
  EXPECT_THAT(ErrorOf({}, {"no-such-program-anywhere"}), HasSubstr("command not found"));
  EXPECT_THAT(ErrorOf({"--command", "a"}, {"b"}), HasSubstr("given twice"));
  EXPECT_THAT(ErrorOf({"--command", "a 'b"}, {}), HasSubstr("--command: "));
  EXPECT_THAT(ErrorOf({"--share", "--gpus=1"}, {"true"}), HasSubstr("memory: a job that shares"));
  EXPECT_THAT(ErrorOf({"--wait", "--dry-run"}, {"true"}), HasSubstr("exclude each other"));
  EXPECT_THAT(ErrorOf({"--param-file", "/nonexistent"}, {"true"}), HasSubstr("--param-file"));
  EXPECT_THAT(ErrorOf({"--name-template", "x"}, {"true"}), HasSubstr("--name-template"));
  EXPECT_THAT(ErrorOf({}, {"true", "\xff"}), HasSubstr("not UTF-8"));
}

TEST_F(Request, HasGflowsOptionsWithGflowsMeaning) {
  const auto made =
      Make({"--gpus", "1", "--shared", "--gpu-memory", "20G", "-t", "30", "-m", "512", "--nice=50", "--name",
            "my run", "--dependency", "5", "--notify-email", "a@b.c", "--notify-on", "job_failed"},
           {"true", "-x"}, std::nullopt, gflow::kDialect);
  ASSERT_TRUE(made) << made.error().message;
  const auto& job = made->request.jobs[0];
  EXPECT_EQ(job.memory->bytes, base::GiB(20));
  EXPECT_TRUE(job.share);
  EXPECT_EQ(job.time_limit, base::Millis(1'800'000));
  EXPECT_EQ(job.host_memory, base::MiB(512));
  EXPECT_EQ(job.priority, 50);
  EXPECT_EQ(job.name, "my-run");
  EXPECT_THAT(job.notify.on, ElementsAre(spec::NotifyOn::kFailed));
  EXPECT_THAT(job.command, ElementsAre("true", "-x"));
}

TEST_F(Request, TellsGflowsTasksTheirIndexUnderItsName) {
  const auto made =
      Make({"--array", "1-3"}, {"echo", "a b", "--i=$GFLOW_ARRAY_TASK_ID."}, std::nullopt, gflow::kDialect);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->request.jobs[0].command,
              ElementsAre("/bin/sh", "-c",
                          "export GFLOW_ARRAY_TASK_ID=\"$GPUMAN_ARRAY_TASK_ID\"; exec echo 'a b' "
                          "--i=\"$GFLOW_ARRAY_TASK_ID\"."));
  Write("a.sh", "#!/bin/bash\n# GFLOW --array=1-3\necho\n");
  const auto script = Make({"--array=1-3"}, {"a.sh"}, std::nullopt, gflow::kDialect);
  ASSERT_TRUE(script) << script.error().message;
  EXPECT_THAT(*script->request.jobs[0].script,
              HasSubstr("#!/bin/bash\n# GFLOW --array=1-3\nexport GFLOW_ARRAY_TASK_ID="));
}

// An option that is new for jobs that start at once is one of `run` as well.
TEST(RunCommand, HasEachOptionOfAJobThatStartsAtOnceOnce) {
  const Command run = RunCommand(KnownTools());
  SubmitSettings settings;
  int options = 0;
  for (const Option& option : SubmitOptions(settings, {})) {
    if (!api::IsRunOption(option.sets)) continue;
    ++options;
    const auto sets_it = [&](const Option& other) { return other.sets == option.sets; };
    EXPECT_EQ(std::count_if(run.options.begin(), run.options.end(), sets_it), 1) << option.names;
  }
  EXPECT_GE(options, 14);
}

}  // namespace
}  // namespace gpuman::cli::queue
