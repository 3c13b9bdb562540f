#include "jobs/record.h"

#include <gtest/gtest.h>

namespace gpuman::jobs {
namespace {

Job Full() {
  Job job;
  job.id = {42};
  job.tag = "train";
  job.owner = {1000, 1001, {4, 27}, "lab1"};
  job.command = {"python", "a b", "\"quoted\""};
  job.directory = "/home/lab1";
  job.environment = Environment{{"PATH", "/bin"}, {"EMPTY", ""}, {"UTF", "\u00e4"}};
  job.umask = 077;
  job.resource_limits = {{7, {1024, UINT64_MAX}}};
  job.memory = base::SizeSpec{base::MiB(512), 0};
  job.soft = base::SizeSpec{{}, 12.5};
  job.gpus = {"GPU-1", "GPU-2"};
  job.priority = 3;
  job.restart = RestartMode::kOnFailure;
  job.grace = base::Millis(1500);
  job.preload = false;
  job.share = true;
  job.weight = 2.5;
  job.oversubscribe = true;
  job.suspension = "{}";
  job.state = JobState::kStopping;
  job.reason = "memory_limit";
  job.reason_detail = "used 3 of 2";
  job.process = base::ProcessId{77, 88};
  job.keeper = base::ProcessId{76, 87};
  job.cgroup = "/sys/fs/cgroup/x";
  job.boot_id = "b";
  job.exit_code = 0;
  job.signal = 9;
  job.verdict = JobState::kKilled;
  job.peak = base::MiB(600);
  job.submitted_at = base::WallTime(base::Millis(1));
  job.started_at = base::WallTime(base::Millis(2));
  job.ended_at = base::WallTime(base::Millis(3));
  job.runs = 4;
  job.restarts = 3;
  job.incarnation = 2;
  job.journal_seq = 9;
  job.remove_when_ended = true;
  return job;
}

TEST(JobRecord, ComesBackAsItWasWritten) {
  for (const Job& job : {Full(), Job{}}) {
    const std::string text = SerializeJob(job);
    const auto back = ParseJob(text);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(SerializeJob(*back), text);
    EXPECT_EQ(back->owner, job.owner);
    EXPECT_EQ(back->memory, job.memory);
    EXPECT_EQ(back->soft, job.soft);
    EXPECT_EQ(back->resource_limits, job.resource_limits);
    EXPECT_EQ(back->process, job.process);
    EXPECT_EQ(back->grace, job.grace);
    EXPECT_EQ(back->verdict, job.verdict);
    EXPECT_EQ(back->ended_at, job.ended_at);
    EXPECT_EQ(back->environment, job.environment);
  }
}

TEST(JobRecord, IsCorruptWithoutWhatCannotBeGuessed) {
  for (const char* text : {"", "{", "[]", "{}", R"({"id":1})", R"({"id":1,"state":"dancing"})",
                           R"({"id":"x","state":"running"})"})
    EXPECT_FALSE(ParseJob(text)) << text;
}

TEST(JobRecord, TakesDefaultsForFieldsOfLaterVersionsAndIgnoresUnknownOnes) {
  const auto job = ParseJob(R"({"id":1,"state":"running","from_the_future":[1]})");
  ASSERT_TRUE(job);
  EXPECT_EQ(job->priority, 128);
  EXPECT_EQ(job->incarnation, 1);
}

}  // namespace
}  // namespace gpuman::jobs
