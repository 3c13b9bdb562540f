// gpuman's commands about jobs of Slurm, with scripts in place of Slurm's programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/test_server.h"
#include "base/file.h"
#include "base/test_temp_dir.h"
#include "cli/app.h"
#include "cli/compat/slurm/record.h"
#include "cli/complete.h"

namespace gpuman::cli::slurm {
namespace {

using api::TestServer;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

class SlurmApp : public ::testing::Test {
 protected:
  SlurmApp() { std::filesystem::create_directory(dir_.path() / "bin"); }

  // Writes a program; `here`: $HERE in the text is this test's directory.
  void Program(const std::string& name, const std::string& text) const {
    const auto file = dir_.path() / "bin" / name;
    std::ofstream(file) << "#!/bin/sh\nHERE=" << dir_.path().string() << "\n" << text << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  // An sbatch that keeps its input, and numbers the jobs from 41 on.
  void TakingSbatch() const {
    Program("sbatch",
            "printf '%s\\n' \"$@\" >$HERE/options; cat >$HERE/script\n"
            "id=$(cat $HERE/id 2>/dev/null || echo 41); echo $((id + 1)) >$HERE/id; echo $id");
  }
  // A scontrol that knows these jobs.
  void Known(const std::string& id, const std::string& state,
             const std::string& more = "ExitCode=0:0") const {
    std::ofstream(dir_.path() / ("job-" + id))
        << "JobId=" << id << " JobName=n\n   JobState=" << state
        << " Reason=None Dependency=(null)\n   Requeue=1 " << more << "\n";
    Program("scontrol",
            "echo \"$@\" >>$HERE/asked; [ \"$1\" = show ] || exit 0\n"
            "cat $HERE/job-$3 2>/dev/null || { echo 'slurm_load_jobs error: Invalid job id specified' >&2; "
            "exit 1; }");
    Program("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
    Program("scancel", "echo \"$@\" >>$HERE/cancelled");
  }

  Outcome Gpuman(std::vector<std::string> arguments, const TestServer* server = nullptr) const {
    if (server != nullptr) arguments.insert(arguments.begin(), {"--socket", server->socket().string()});
    std::ostringstream out;
    std::ostringstream err;
    Outcome outcome;
    outcome.status = RunCli("gpuman", arguments, ProgramContext{out, err, {}, {}, Environment()});
    outcome.out = out.str();
    outcome.err = err.str();
    return outcome;
  }
  base::EnvironmentLookup Environment() const {
    return [this](const char* name) -> std::optional<std::string> {
      if (std::string_view(name) == "PATH") return (dir_.path() / "bin").string();
      if (std::string_view(name) == "XDG_STATE_HOME") return (dir_.path() / "state").string();
      if (std::string_view(name) == "GPUMAN_SOCKET") return (dir_.path() / "none.sock").string();
      return std::nullopt;
    };
  }
  std::string File(const std::string& name) const {
    return base::ReadFile(dir_.path() / name).value_or("(no " + name + ")");
  }
  SubmissionLog Submissions() const { return SubmissionLog::OfUser(Environment()); }

  base::TempDir dir_;
};

TEST_F(SlurmApp, SubmitsAndWritesDownWhatWasSubmitted) {
  TakingSbatch();
  const auto outcome = Gpuman({"submit", "--to", "slurm", "--gpus", "2", "--name", "train", "--slurm-option",
                               "partition=p", "--", "true"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "job slurm-41 'train' is queued by Slurm\n");
  EXPECT_THAT(File("options"), AllOf(StartsWith("--parsable\n--job-name=train\n"),
                                     HasSubstr("\n--gres=gpu:2\n"), EndsWith("\n--partition=p\n")));
  EXPECT_EQ(File("script"), "#!/bin/sh\nexec true\n");
  ASSERT_THAT(Submissions().Jobs(), SizeIs(1));
  EXPECT_EQ(Submissions().Find(41)->name, "train");
}

TEST_F(SlurmApp, SubmitsEachJobOfASweepAndSaysHowFarItCame) {
  TakingSbatch();
  EXPECT_EQ(Gpuman({"submit", "--to=slurm", "--json", "--param", "x=1,2", "--", "echo", "{x}"}).status, 0);
  EXPECT_THAT(Submissions().Jobs(), SizeIs(2));
  Program("sbatch",
          "[ -e $HERE/once ] || { touch $HERE/once; echo 50; exit; }\n"
          "echo 'sbatch: error: Batch job submission failed: Requested time limit is invalid' >&2; exit 1");
  const auto outcome = Gpuman({"submit", "--to=slurm", "--param", "x=1,2,3", "--", "echo", "{x}"});
  EXPECT_EQ(outcome.status, 6);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("Requested time limit is invalid"),
                                 HasSubstr("1 of 3 jobs are in the queue, the last of them slurm-50")));
  EXPECT_THAT(Submissions().Jobs(), SizeIs(3));
}

TEST_F(SlurmApp, TranslatesAllBeforeItSubmitsOne) {
  TakingSbatch();
  std::ofstream(dir_.path() / "list") << "--gpus 1 -- true\n--gpu 0 -- true\n";
  const auto outcome = Gpuman({"submit", "--to=slurm", "--jobs", (dir_.path() / "list").string()});
  EXPECT_EQ(outcome.status, 6);
  EXPECT_THAT(outcome.err, HasSubstr("list:2: --gpu: Slurm chooses the GPUs"));
  EXPECT_EQ(File("options"), "(no options)");
}

TEST_F(SlurmApp, SaysThatThereIsNoSlurm) {
  const auto outcome = Gpuman({"submit", "--to", "slurm", "--", "true"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("there is no sbatch in PATH"));
  EXPECT_EQ(Gpuman({"submit", "--slurm-option", "qos=x", "--", "true"}).status, 2) << "without --to slurm";
}

TEST_F(SlurmApp, WaitsForNoJobThatSlurmDoesNotKnow) {
  TakingSbatch();
  Known("7", "RUNNING");
  EXPECT_EQ(Gpuman({"submit", "--to=slurm", "--depends", "slurm-7", "--", "true"}).status, 0);
  EXPECT_THAT(File("options"), HasSubstr("\n--dependency=afterok:7\n"));
  EXPECT_EQ(Gpuman({"submit", "--to=slurm", "--depends", "slurm-8", "--", "true"}).status, 4);
  EXPECT_EQ(Gpuman({"submit", "--to=slurm", "--depends", "unheard", "--", "true"}).status, 4);
  Known("41", "RUNNING");
  EXPECT_EQ(Gpuman({"submit", "--to=slurm", "--depends", "@", "--", "true"}).status, 0);
  EXPECT_THAT(File("options"), HasSubstr("\n--dependency=afterok:41\n"));
}

TEST_F(SlurmApp, AsksSlurmNothingWhereNothingWentThere) {
  Program("squeue", "touch $HERE/asked");
  const TestServer server({TestServer::Answer(200, R"({"jobs":[]})")});
  const auto outcome = Gpuman({"queue", "--json"}, &server);
  EXPECT_EQ(outcome.out, "{\"jobs\":[]}\n") << outcome.err;
  EXPECT_EQ(File("asked"), "(no asked)");
}

TEST_F(SlurmApp, ListsWhatWentThereBesideThisMachinesQueue) {
  TakingSbatch();
  ASSERT_EQ(Gpuman({"submit", "--to=slurm", "--name", "train", "--", "true"}).status, 0);
  Program("squeue",
          "echo '41|41|N/A|PENDING|Resources|2026-11-22T18:56:14|N/A|N/A|2:00||gres:gpu:1|main|ada'\n"
          "echo '99|99|N/A|RUNNING|None|2026-11-22T18:56:14|N/A|N/A|2:00||gres:gpu:1|main|ada'");
  const TestServer server({TestServer::Answer(200, R"({"jobs":[]})")});
  EXPECT_THAT(
      Gpuman({"queue", "--json"}, &server).out,
      AllOf(StartsWith(R"({"jobs":[],"slurm":[{"id":"slurm-41","tag":"train")"), Not(HasSubstr("slurm-99"))));
  Program("squeue",
          "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1");
  const TestServer again({TestServer::Answer(200, R"({"jobs":[]})")});
  const auto outcome = Gpuman({"queue", "--json"}, &again);
  EXPECT_EQ(outcome.status, 0) << "this machine's part is there";
  EXPECT_THAT(outcome.out, EndsWith("\"slurm\":[]}\n"));
}

TEST_F(SlurmApp, CancelsJobsOfBothQueuesUnderOneCommand) {
  Known("7", "RUNNING");
  Known("8", "COMPLETED");
  const TestServer server({TestServer::Answer(200, R"({"jobs":[{"job":"3","id":3,"state":"cancelled"}]})")});
  const auto outcome = Gpuman({"cancel", "3", "slurm-7", "slurm-8"}, &server);
  EXPECT_EQ(outcome.out, "Job slurm-7 cancelled.\nJob 3 cancelled.\n");
  EXPECT_THAT(outcome.err, HasSubstr("slurm-8: it has ended"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(File("cancelled"), "7\n");
}

TEST_F(SlurmApp, ExitsAsTheJobDidAndRemembersIt) {
  TakingSbatch();
  ASSERT_EQ(Gpuman({"submit", "--to=slurm", "--name", "n", "--", "true"}).status, 0);
  Known("41", "FAILED", "ExitCode=3:0");
  const auto outcome = Gpuman({"job", "wait", "slurm-41"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.out, "job slurm-41 'n' has ended: failed (exit status 3)\n");
  std::filesystem::remove(dir_.path() / "job-41");
  EXPECT_EQ(Gpuman({"job", "wait", "slurm-41"}).status, 3) << "Slurm has forgotten it";
  EXPECT_EQ(Gpuman({"job", "wait", "slurm-42"}).status, 4);
}

TEST_F(SlurmApp, HoldsAndReleasesOnlyWhatWaits) {
  Known("7", "PENDING");
  Known("8", "RUNNING");
  EXPECT_EQ(Gpuman({"job", "hold", "slurm-7"}).status, 0);
  EXPECT_EQ(Gpuman({"job", "release", "--at", "now+1h", "slurm-7"}).status, 0);
  EXPECT_THAT(File("asked"), AllOf(HasSubstr("hold 7\n"), HasSubstr("update JobId=7 StartTime=now+3"),
                                   HasSubstr("release 7\n")));
  EXPECT_EQ(Gpuman({"job", "hold", "slurm-8"}).status, 1);
  EXPECT_THAT(File("asked"), Not(HasSubstr("hold 8")));
}

TEST_F(SlurmApp, CompletesItsJobsAndQueues) {
  TakingSbatch();
  ASSERT_EQ(Gpuman({"submit", "--to=slurm", "--name", "train", "--", "true"}).status, 0);
  EXPECT_THAT(Gpuman({kCompleteWord, "job", "wait", ""}).out, HasSubstr("slurm-41\ttrain\n"));
  EXPECT_EQ(Gpuman({kCompleteWord, "submit", "--to", "s"}).out, "slurm\t\n");
}

TEST_F(SlurmApp, UnsupportedCommandNamesTheScontrolCommand) {
  const auto outcome = Gpuman({"job", "update", "slurm-7", "--priority", "3"});
  EXPECT_EQ(outcome.status, 6);
  EXPECT_THAT(outcome.err, HasSubstr("scontrol update JobId=7"));
}

}  // namespace
}  // namespace gpuman::cli::slurm
