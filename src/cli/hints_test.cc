#include "cli/hints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

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
           {{"--memory", "1G", "run"}, "gpuman COMMAND --memory"}}) {
    EXPECT_THAT(ErrorOf(arguments), HasSubstr(says)) << ::testing::PrintToString(arguments);
  }
}

TEST(Hints, LeaveOtherWordsToTheirLikeness) {
  EXPECT_THAT(HintFor("gpuman", "statsu"), IsEmpty());
  EXPECT_THAT(HintFor("gpuman status", "--jsno"), IsEmpty());
  EXPECT_THAT(ErrorOf({"statsu"}), HasSubstr("did you mean 'status'?"));
}

TEST(Hints, MeanCommandsAndOptionsThatThereAre) {
  // Each "gpuman COMMAND" of a hint must be a command that has a help text.
  for (const char* word :
       {"kill",     "ps",   "rm",    "watch", "nvidia-smi", "gpus",     "squeue",  "sbatch",
        "srun",     "exec", "sinfo", "sacct", "scontrol",   "sacctmgr", "history", "pause",
        "continue", "set",  "power", "sweep", "ack",        "check",    "book"}) {
    const auto hint = HintFor("gpuman", word);
    ASSERT_FALSE(hint.empty()) << word;
    for (std::size_t at = 0; (at = hint.find("gpuman ", at)) != std::string::npos;) {
      at += 7;
      const auto command = hint.substr(at, hint.find_first_of(" ,:;", at) - at);
      std::ostringstream out;
      std::ostringstream err;
      EXPECT_EQ(RunCli("gpuman", {command, "--help"}, {out, err, {}, {}}), 0) << word << ": " << command;
      EXPECT_THAT(out.str(), HasSubstr("gpuman " + command)) << word;
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
