#include "daemon/core/kernel_kills.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/boot.h"
#include "base/test_temp_dir.h"

namespace gpuman::daemon {
namespace {

const char* const kSeven =
    "4,1,60000000,-;Out of memory: Killed process 7 (x) total-vm:1kB, anon-rss:8kB, file-rss:0kB, "
    "shmem-rss:0kB\n SUBSYSTEM=x\n";
const char* const kEight = "4,2,70000000,-;Memory cgroup out of memory: Killed process 8 (y) total-vm:1kB\n";

jobs::Job JobOf(pid_t pid) {
  jobs::Job job;
  job.process = base::ProcessId{pid, 1};
  job.boot_id = base::BootId();
  return job;
}

// A run from 20 s to 100 s after boot.
const keeper::JournalRecord kEnded{.seq = 3,
                                   .wall = {},
                                   .mono = base::Millis(100'000),
                                   .body = keeper::RunEnded{.run = 1,
                                                            .kind = keeper::EndKind::kSignalled,
                                                            .code = 9,
                                                            .lasted = base::Millis(80'000),
                                                            .usage = {},
                                                            .ordered = {}}};

class KernelKillsTest : public testing::Test {
 protected:
  base::TempDir directory;
  std::filesystem::path log = directory.path() / "kmsg";
};

TEST_F(KernelKillsTest, AreFoundByTheirProcessAlsoLater) {
  std::ofstream(log) << kSeven;
  KernelKills kills(log);
  EXPECT_EQ(kills.Find(JobOf(8), kEnded), std::nullopt);
  std::ofstream(log, std::ios::app) << kEight;
  EXPECT_EQ(kills.Find(JobOf(8), kEnded)->name, "y");
  EXPECT_EQ(kills.Find(JobOf(7), kEnded)->memory, base::KiB(8));
  EXPECT_EQ(kills.Find(JobOf(9), kEnded), std::nullopt);
}

TEST_F(KernelKillsTest, OfAWorkerAreFoundByTheCgroupOfItsJob) {
  std::ofstream(log)
      << "6,1,69999999,-;oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/g/job-7-aa,task=w,pid=8,uid=1\n"
      << kEight << "4,3,70000001,-;Out of memory: Killed process 9 (z) total-vm:1kB\n";
  KernelKills kills(log);
  auto job = JobOf(7);
  EXPECT_EQ(kills.Find(job, kEnded), std::nullopt) << "a job without a cgroup";
  job.cgroup = "/sys/fs/cgroup/g/job-7-aa";
  ASSERT_TRUE(kills.Find(job, kEnded));
  EXPECT_EQ(kills.Find(job, kEnded)->name, "y");
  job.cgroup = "/sys/fs/cgroup/g/job-8-bb";
  EXPECT_EQ(kills.Find(job, kEnded), std::nullopt);
}

TEST_F(KernelKillsTest, OfAnotherBootAreOfOtherProcesses) {
  std::ofstream(log) << kSeven;
  KernelKills kills(log);
  auto job = JobOf(7);
  job.boot_id = "another";
  EXPECT_EQ(kills.Find(job, kEnded), std::nullopt);
  job.boot_id.clear();
  EXPECT_EQ(kills.Find(job, kEnded), std::nullopt);
}

TEST_F(KernelKillsTest, AreNotKnownWithoutALog) {
  EXPECT_EQ(KernelKills("").Find(JobOf(7), kEnded), std::nullopt);
  EXPECT_EQ(KernelKills(directory.path()).Find(JobOf(7), kEnded), std::nullopt);
  KernelKills kills(log);
  EXPECT_EQ(kills.Find(JobOf(7), kEnded), std::nullopt);
  std::ofstream(log) << kSeven;
  EXPECT_TRUE(kills.Find(JobOf(7), kEnded)) << "the log is there now";
}

TEST_F(KernelKillsTest, AreFoundAmongManyOthers) {
  std::ofstream file(log);
  file << kEight;
  for (int i = 0; i < 5'000; ++i) file << "4,3,80000000,-;Out of memory: Killed process 9 (z) total-vm:1kB\n";
  file << kSeven;
  file.close();
  KernelKills kills(log);
  EXPECT_TRUE(kills.Find(JobOf(7), kEnded));
  EXPECT_EQ(kills.Find(JobOf(8), kEnded), std::nullopt) << "the oldest are forgotten";
}

}  // namespace
}  // namespace gpuman::daemon
