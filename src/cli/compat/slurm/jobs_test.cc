// Reads what Slurm 22.05 printed.
#include "cli/compat/slurm/jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::cli::slurm {
namespace {

using base::ErrorCode;
using spec::JobState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string Iso(const std::optional<base::WallTime>& time) { return time ? base::FormatIso8601(*time) : ""; }

TEST(SlurmJobId, IsSlurmsIdBehindAWord) {
  const std::vector<std::pair<const char*, std::optional<SlurmJobId>>> rows{{"slurm-12", SlurmJobId{12, {}}},
                                                                            {"slurm-12_0", SlurmJobId{12, 0}},
                                                                            {"slurm-0", {}},
                                                                            {"slurm-", {}},
                                                                            {"slurm-12_", {}},
                                                                            {"slurm-12.0", {}},
                                                                            {"slurm-12-3", {}},
                                                                            {"12", {}},
                                                                            {"slurm--1", {}},
                                                                            {"slurm-4294967296", {}},
                                                                            {"slurm-12_x", {}},
                                                                            {"slurm-12.batch", {}}};
  for (const auto& [word, name] : rows) {
    EXPECT_EQ(SlurmJobIdFromString(word), name) << word;
    if (name) {
      EXPECT_EQ(ToString(*name), word);
    }
  }
  EXPECT_EQ(InSlurm({12, 3}), "12_3");
}

constexpr std::string_view kQueue =
    "squeue: warning: something\n"
    "1|1|N/A|PENDING|Resources|2026-11-22T18:56:14|2026-11-22T19:56:14|NONE|2:00||gres:shard:1|main|ada\n"
    "2|2|0,2,4%1|PENDING|JobArrayTaskLimit|2026-11-22T18:56:14|N/A|N/A|UNLIMITED||N/A|main|ada\n"
    "15|2|2|RUNNING|None|2026-11-22T18:56:14|2026-11-22T18:56:17|2026-11-23T18:56:18|1-02:00:00|vm[1-2]|N/"
    "A|main|ada\n"
    "3|3|N/A|PENDING|JobHeldUser|2026-11-22T18:56:14|N/A|N/A|UNLIMITED||N/A|main|ada\n"
    "7|7|N/"
    "A|TIMEOUT|TimeLimit|2026-11-22T18:56:14|2026-11-22T18:56:16|2026-11-22T18:58:16|2:00|vm|gres:gpu:2|main|"
    "ada\n"
    "8|8|N/A|DREAMING|None|2026-11-22T18:56:14|N/A|N/A|UNLIMITED||N/A|main|ada\n";

TEST(ReadQueue, ReadsJobsAndTasks) {
  const auto jobs = ReadQueue(kQueue);
  ASSERT_THAT(jobs, SizeIs(5));
  EXPECT_EQ(NameOf(jobs[0]), "slurm-1");
  EXPECT_EQ(jobs[0].state, JobState::kQueued);
  EXPECT_EQ(ReasonOf(jobs[0].reason), "resources");
  EXPECT_EQ(jobs[0].time_limit, base::Millis(120'000));
  EXPECT_EQ(jobs[0].gres, "gres:shard:1");
  EXPECT_EQ(Iso(jobs[0].started), "2026-11-22T19:56:14.000Z");
  EXPECT_EQ(jobs[0].ended, std::nullopt);
  EXPECT_EQ(NameOf(jobs[1]), "slurm-2_[0,2,4%1]");
  EXPECT_EQ(NameOf(jobs[2]), "slurm-2_2");
  EXPECT_EQ(jobs[2].id, 15u);
  EXPECT_EQ(jobs[2].state, JobState::kRunning);
  EXPECT_EQ(jobs[2].reason, "");
  EXPECT_EQ(jobs[2].time_limit, std::chrono::hours(26));
  EXPECT_EQ(jobs[2].nodes, "vm[1-2]");
  EXPECT_EQ(jobs[3].state, JobState::kHeld);
  EXPECT_EQ(jobs[4].state, JobState::kTimeout);
  EXPECT_EQ(Iso(jobs[4].ended), "2026-11-22T18:58:16.000Z");
}

TEST(SortTasks, PutsTheFirstIndexFirst) {
  std::vector<SeenJob> tasks(4);
  tasks[0].task = "4-9%2";
  tasks[1].task = "10";
  tasks[2].task = "2";
  tasks[3].task = "0";
  SortTasks(tasks);
  EXPECT_THAT((std::vector{tasks[0].task, tasks[1].task, tasks[2].task, tasks[3].task}),
              ElementsAre("0", "2", "10", "4-9%2"));
}

// The user chooses names and comments: they may look like anything.
constexpr std::string_view kShown =
    "JobId=1 JobName=a | b JobState=FAILED\n"
    "   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A\n"
    "   JobState=RUNNING Reason=None Dependency=(null)\n"
    "   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n"
    "   RunTime=00:00:00 TimeLimit=00:02:00 TimeMin=N/A\n"
    "   SubmitTime=2026-11-22T18:56:14 EligibleTime=2026-11-22T18:56:14\n"
    "   StartTime=2026-11-22T18:56:16 EndTime=2026-11-22T18:58:16 Deadline=N/A\n"
    "   Partition=main AllocNode:Sid=localhost:18996\n"
    "   ReqNodeList=(null) ExcNodeList=(null)\n"
    "   NodeList=vm\n"
    "   Comment=x ExitCode=9:9 \n"
    "   StdErr=/tmp/with blanks/o-1.txt\n"
    "   StdIn=/dev/null\n"
    "   StdOut=/tmp/with blanks/o-1.txt\n"
    "   TresPerNode=gres:shard:1\n"
    "   \n"
    "\n"
    "JobId=15 ArrayJobId=2 ArrayTaskId=2 ArrayTaskThrottle=1 JobName=arr\n"
    "   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A\n"
    "   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)\n"
    "   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=3:0\n"
    "   StartTime=2026-11-22T18:56:16 EndTime=2026-11-22T18:56:19 Deadline=N/A\n"
    "   NodeList=vm\n"
    "   StdOut=/tmp/arr-2_2.out\n"
    "\n"
    "JobId=16 JobName=killed\n"
    "   JobState=FAILED Reason=JobLaunchFailure Dependency=(null)\n"
    "   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:9\n";

TEST(ReadShown, ReadsWhatScontrolKnows) {
  const auto jobs = ReadShown(kShown);
  ASSERT_THAT(jobs, SizeIs(3));
  EXPECT_EQ(jobs[0].name, "a | b JobState=FAILED");
  EXPECT_EQ(jobs[0].user, "ada");
  EXPECT_EQ(jobs[0].state, JobState::kRunning);
  EXPECT_EQ(jobs[0].exit_code, std::nullopt) << "it has not ended";
  EXPECT_EQ(jobs[0].ended, std::nullopt) << "its limit, not its end";
  EXPECT_EQ(jobs[0].nodes, "vm");
  EXPECT_EQ(jobs[0].output, "/tmp/with blanks/o-1.txt");
  EXPECT_EQ(jobs[0].gres, "gres:shard:1");
  EXPECT_EQ(jobs[0].partition, "main");
  EXPECT_EQ(NameOf(jobs[1]), "slurm-2_2");
  EXPECT_EQ(jobs[1].exit_code, 3);
  EXPECT_EQ(Iso(jobs[1].ended), "2026-11-22T18:56:19.000Z");
  EXPECT_EQ(jobs[2].signal, 9);
  EXPECT_EQ(jobs[2].exit_code, std::nullopt);
}

TEST(ReadAccounting, ReadsWhatSacctKept) {
  const auto jobs = ReadAccounting(
      "12|COMPLETED|0:0|2026-11-22T18:00:00|2026-11-22T18:00:01|2026-11-22T18:00:02|ada|train|x\n"
      "13_4|CANCELLED by 1000|0:15|2026-11-22T18:00:00|Unknown|2026-11-22T18:00:02|ada|a\n"
      "sacct: error: nothing\n");
  ASSERT_THAT(jobs, SizeIs(2));
  EXPECT_EQ(jobs[0].name, "train|x");
  EXPECT_EQ(jobs[0].exit_code, 0);
  EXPECT_EQ(NameOf(jobs[1]), "slurm-13_4");
  EXPECT_EQ(jobs[1].state, JobState::kCancelled);
  EXPECT_EQ(jobs[1].signal, 15);
  EXPECT_EQ(jobs[1].started, std::nullopt);
}

TEST(ReadAccepted, FindsTheIdAmongWarnings) {
  const auto accepted = ReadAccepted("sbatch: warning: be careful\n12;cluster\n");
  ASSERT_TRUE(accepted);
  EXPECT_EQ(accepted->id, 12u);
  EXPECT_THAT(accepted->said, ElementsAre("sbatch: warning: be careful"));
  EXPECT_FALSE(ReadAccepted("sbatch: error: no\n"));
  EXPECT_THAT(ReadAccepted("7\n")->said, IsEmpty());
}

TEST(RefusalOf, KeepsSlurmsWordsAndKnowsWhatTheyMean) {
  const std::vector<std::pair<std::string_view, ErrorCode>> rows{
      {"sbatch: error: Batch job submission failed: Requested node configuration is not available\n",
       ErrorCode::kUnsatisfiable},
      {"sbatch: error: Memory specification can not be satisfied\n", ErrorCode::kUnsatisfiable},
      {"sbatch: error: Batch job submission failed: Invalid job array specification\n",
       ErrorCode::kUnsatisfiable},
      {"sbatch: error: Batch job submission failed: Invalid account or account/partition combination "
       "specified\n",
       ErrorCode::kPermissionDenied},
      {"slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
       ErrorCode::kUnavailable},
      {"slurm_load_jobs error: Invalid job id specified\n", ErrorCode::kNotFound},
      {"sbatch: unrecognized option '--nonsense'\nTry \"sbatch --help\" for more information\n",
       ErrorCode::kInvalidArgument},
      {"sbatch: unrecognized option '--gpuman-mem=8GiB'\n", ErrorCode::kNotSupported},
      {"sbatch: error: something of tomorrow\n", ErrorCode::kInternal},
      {"", ErrorCode::kInternal}};
  for (const auto& [text, code] : rows) EXPECT_EQ(RefusalOf("sbatch", text).code, code) << text;
  const auto error = RefusalOf("sbatch", "sbatch: error: One\nsbatch: error: Two\nTry \"sbatch --help\"\n");
  EXPECT_EQ(error.message, "sbatch: One; Two");
  EXPECT_THAT(RefusalOf("sbatch", "sbatch: unrecognized option '--gpuman-share'").hint,
              HasSubstr("gpuman-slurm"));
}

}  // namespace
}  // namespace gpuman::cli::slurm
