#include "cli/compat/gflow/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace gpuman::cli::gflow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const base::WallTime kNow{std::chrono::seconds(1'800'000'000)};

api::JobView Running() {
  api::JobView job;
  job.id = 7;
  job.tag = "train";
  job.user = "ada";
  job.state = spec::JobState::kRunning;
  job.command = {"sh", "-c", "echo hi"};
  job.directory = "/home/ada";
  job.gpus = {"GPU-b"};
  job.memory.limit = base::GiB(20);
  job.submitted_at = kNow - std::chrono::seconds(100);
  job.started_at = kNow - std::chrono::seconds(62);
  job.queue.emplace();
  job.queue->gpus.count = 1;
  return job;
}

std::vector<api::GpuView> Gpus() {
  api::GpuView gpu;
  gpu.index = 1;
  gpu.uuid = "GPU-b";
  return {gpu};
}

api::JobView RunningWithOptions() {
  auto job = Running();
  job.queue->asked.time_limit = base::Millis(600'000);
  job.queue->asked.host_memory = base::GiB(2);
  job.queue->asked.conda_env = "base";
  job.queue->asked.group = "g";
  job.queue->asked.retries.count = 2;
  job.queue->asked.depends.list = {{spec::DependencyKind::kAfterOk, "3"}};
  job.queue->array_task = 1;
  return job;
}

TEST(GflowJob, HasTheKeysOfGflow) {
  const auto job = RunningWithOptions();
  const auto text = RenderJob(job, Gpus(), kNow);
  EXPECT_THAT(text, StartsWith("Job Details:\n  ID=7\n"));
  for (const char* line :
       {"\n  State=Running (R)\n", "\n  Priority=128\n", "\n  SubmittedBy=ada\n", "\n  GroupID=g\n",
        "\n  MaxRetries=2\n", "\n  Command=sh -c 'echo hi'\n", "\nResources:\n  GPUs=1\n",
        "\n  GPUSharing=exclusive\n", "\n  GPUMemoryLimit=20GiB\n", "\n  GPUIDs=1\n",
        "\n  MemoryLimit=2GiB\n", "\n  CondaEnv=base\n", "\nExecution:\n  WorkingDir=/home/ada\n",
        "\nDependencies:\n  DependsOn=3\n  Mode=All\n  AutoCancel=enabled\n", "\n  TaskID=1\n",
        "\nTiming:\n  TimeLimit=00:10:00\n", "(waited 00:00:38)\n", "(running 00:01:02 so far)\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

// "Section: KEY KEY" for each section of a rendered job.
std::vector<std::string> KeysOf(const std::string& text) {
  std::vector<std::string> sections;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(':') && !line.starts_with(' '))
      sections.push_back(line);
    else if (!line.empty())
      sections.back() += line.substr(1, line.find('=') - 1);
  }
  return sections;
}

// gflow 0.4.18 prints of a job, in this order: ID State Priority SubmittedBy GroupID MaxRetries and Command,
// Script or Command(template) and Command(actual); Parameters: a line each; Resources: GPUs GPUSharing
// GPUMemoryLimit GPUIDs MemoryLimit CondaEnv; Execution: WorkingDir TmuxSession NotifyEmail NotifyOn;
// Dependencies: DependsOn Mode AutoCancel TaskID; Timing: TimeLimit Submitted Started Finished.
// docs/coming-from-gflow.md says what is not here.
TEST(GflowJob, HasTheKeysOfGflowInItsOrderAndItsOwnBetween) {
  auto job = RunningWithOptions();
  job.state = spec::JobState::kFailed;
  job.reason = "exit_status";
  job.log_path = "/var/lib/gpuman/7.log";
  job.exit_code = 1;
  job.signal = 9;
  job.ended_at = kNow;
  job.queue->asked.project = "p";
  job.queue->asked.begin = kNow;
  EXPECT_THAT(
      KeysOf(RenderJob(job, Gpus(), kNow)),
      ::testing::ElementsAre(
          "Job Details: ID Name State Reason Priority SubmittedBy Project GroupID MaxRetries Command",
          "Resources: GPUs GPUSharing GPUMemoryLimit GPUIDs MemoryLimit CondaEnv",
          "Execution: WorkingDir Log ExitCode Signal", "Dependencies: DependsOn Mode AutoCancel TaskID",
          "Timing: TimeLimit Begin Submitted Started Finished"));
}

TEST(GflowJob, LeavesOutWhatAJobDoesNotHave) {
  auto job = Running();
  job.state = spec::JobState::kQueued;
  job.gpus.clear();
  job.started_at.reset();
  job.reason_detail = "no GPU is free";
  const auto text = RenderJob(job, Gpus(), kNow);
  EXPECT_THAT(text,
              AllOf(HasSubstr("  State=Queued (PD)\n  Reason=no GPU is free\n"), HasSubstr("  GPUs=1\n"),
                    Not(HasSubstr("GPUIDs")), Not(HasSubstr("Dependencies")), Not(HasSubstr("Started"))));
  job.state = spec::JobState::kFinished;
  job.started_at = kNow - std::chrono::seconds(62);
  job.ended_at = kNow;
  job.exit_code = 0;
  EXPECT_THAT(RenderJob(job, Gpus(), kNow),
              AllOf(HasSubstr("(runtime 00:01:02)\n"), HasSubstr("  ExitCode=0\n")));
}

TEST(GflowJob, PassesNothingOnThatATerminalWouldObey) {
  auto job = Running();
  job.directory = "/tmp/\x1b[2J";
  EXPECT_THAT(RenderJob(job, Gpus(), kNow), Not(HasSubstr("\x1b")));
}

TEST(GflowStats, AreReadable) {
  api::StatsRow row;
  row.jobs = 8;
  row.finished = 4;
  row.failed = 1;
  row.killed = 1;
  row.running = 1;
  row.queued = 1;
  row.wait_mean = base::Millis(61'000);
  row.run_mean = base::Millis(3'661'000);
  row.gpu_hours = 1.25;
  row.success = 0.667;
  row.running = 9;
  const auto text = RenderStats(row, "ada", "7d", {});
  EXPECT_THAT(text, StartsWith("Usage Statistics  user: ada  since: 7d  active: 10\n"));
  for (const char* line :
       {"\nJob Status\n  Total Jobs:      8\n", "  Completed:       4 (50%)\n",
        "  Failed:          2 (25%)\n", "  Cancelled:       0\n", "  Running:         9\n",
        "  Queued:          1\n", "\nEfficiency\n  Avg Wait Time:   00:01:01\n",
        "  Avg Runtime:     01:01:01\n", "  Total GPU-Hours: 1.2h\n", "  Success Rate:    66.7%\n"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(RenderStats({}, "ada", "all time", {}), HasSubstr("  Success Rate:    -\n"));
  EXPECT_THAT(RenderStatsCsv(row), HasSubstr("\ntotal_jobs,8\ncompleted_jobs,4\nfailed_jobs,2\n"));
}

}  // namespace
}  // namespace gpuman::cli::gflow
