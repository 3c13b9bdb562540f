#include "jobs/kernel_kill.h"

#include <gtest/gtest.h>

namespace gpuman::jobs {
namespace {

using base::Millis;

const std::string kSizes =
    " total-vm:99999999kB, anon-rss:64172851kB, file-rss:1024kB, shmem-rss:0kB, UID:1000 pgtables:131072kB "
    "oom_score_adj:0";
const std::string kRecord = "4,1234,98765432,-;Out of memory: Killed process 1234 (python3)" + kSizes;

TEST(KernelKill, TellsWhoWasEndedAndWhatItHad) {
  const auto kill = ParseKernelKill(kRecord);
  ASSERT_TRUE(kill);
  EXPECT_EQ(*kill, (KernelKill{1234, "python3", base::KiB(64'173'875), false,
                               std::chrono::microseconds(98'765'432)}));
  EXPECT_EQ(ReasonOf(*kill),
            (keeper::EndReason{
                "host_memory",
                "the kernel ended process 1234 (python3), which had 61.2GiB, because the machine had "
                "no memory left; let it use less, or run fewer jobs at once"}));
}

TEST(KernelKill, OfACgroupSaysSo) {
  const auto kill =
      ParseKernelKill("4,1,5,-,caller=T9;Memory cgroup out of memory: Killed process 7 (x)" + kSizes);
  ASSERT_TRUE(kill);
  EXPECT_TRUE(kill->in_cgroup);
  EXPECT_NE(ReasonOf(*kill).detail.find("because its cgroup had no memory left; "), std::string::npos);
}

const std::string kSummary =
    "6,1233,98765431,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/"
    ",mems_allowed=0,global_oom,";

TEST(KernelVictim, IsReadWithItsCgroup) {
  EXPECT_EQ(ParseKernelVictim(kSummary + "task_memcg=/gpuman/job-7-1f2e3d4c,task=python3,pid=1234,uid=1000"),
            (KernelVictim{1234, "/gpuman/job-7-1f2e3d4c"}));
}

TEST(KernelVictim, ANameMayHoldAnything) {
  for (const char* name : {"a,pid=9", ",task=", "a,task_memcg=/b", ""})
    EXPECT_EQ(ParseKernelVictim(kSummary + "task_memcg=/g,task=" + name + ",pid=7,uid=0"),
              (KernelVictim{7, "/g"}))
        << name;
}

TEST(KernelVictim, LinesThatAreNoSummaryAreLeftOut) {
  const std::string rest = "task_memcg=/g,task=x,pid=7,uid=0";
  for (const std::string& line :
       {std::string(), kRecord, kSummary, kSummary + "task_memcg=/g,task=x", kSummary + "task=x,pid=7",
        kSummary + "task_memcg=/g,task=x,pid=0", kSummary + "task_memcg=/g,task=x,pid=99999999999",
        "12,1,5,-;oom-kill:" + rest, "4,1,5,-;something:" + rest})
    EXPECT_FALSE(ParseKernelVictim(line)) << line;
}

TEST(KernelKill, OfAWorkerExplainsTheEndThatFollows) {
  const std::string cgroup = "/sys/fs/cgroup/gpuman/job-7-1f2e3d4c";
  KernelKill kill{.pid = 9, .since_boot = std::chrono::seconds(1000)};
  const auto explains = [&](const std::string& of, Millis ended, Millis lasted) {
    kill.cgroup = of;
    return IsWithinEndOf(kill, cgroup, ended, lasted);
  };
  constexpr Millis kSoon{1'020'000}, kHour{3'600'000};
  EXPECT_TRUE(explains("/gpuman/job-7-1f2e3d4c", kSoon, kHour));
  EXPECT_TRUE(explains("/outside/gpuman/job-7-1f2e3d4c/inside", kSoon, kHour))
      << "namespaces and its own groups";
  EXPECT_FALSE(explains("/gpuman/job-7-00000000", kSoon, kHour)) << "another job's";
  EXPECT_FALSE(explains("/gpuman/job-7-1f2e3d4cx", kSoon, kHour));
  EXPECT_FALSE(explains("", kSoon, kHour)) << "not known";
  EXPECT_FALSE(explains("/gpuman/job-7-1f2e3d4c", Millis(1'070'000), kHour))
      << "it went on without the worker";
  EXPECT_FALSE(explains("/gpuman/job-7-1f2e3d4c", Millis(990'000), kHour)) << "it had ended before";
  EXPECT_FALSE(explains("/gpuman/job-7-1f2e3d4c", kSoon, Millis(10'000))) << "the run before it";
  EXPECT_FALSE(IsWithinEndOf(kill, "", kSoon, kHour)) << "a job without a cgroup";
}

TEST(KernelKill, OfOtherKernelsIsReadToo) {
  for (const char* before : {"", "Out of memory (oom_kill_allocating_task): "})
    EXPECT_TRUE(ParseKernelKill("3,1,5,-;" + std::string(before) + "Killed process 7 (x)" + kSizes))
        << before;
}

TEST(KernelKill, ANameMayHoldAnything) {
  struct Row {
    const char* written;
    const char* name;
  };
  for (const Row& row : {Row{"a (b) c", "a (b) c"}, Row{"x) total-vm:9kB", "x) total-vm:9kB"}, Row{")", ")"},
                         Row{"", ""}, Row{R"(a\x0ab)", R"(a\x0ab)"}, Row{"a\x1b\xff", "a??"}}) {
    const auto kill = ParseKernelKill("4,1,5,-;Out of memory: Killed process 7 (" + std::string(row.written) +
                                      ")" + kSizes);
    ASSERT_TRUE(kill) << row.written;
    EXPECT_EQ(kill->name, row.name);
    EXPECT_EQ(kill->memory, base::KiB(64'173'875)) << row.written;
  }
}

TEST(KernelKill, UnknownMemoryIsLeftOut) {
  const std::string begin = "4,1,5,-;Out of memory: Killed process 7 (x) total-vm:1kB";
  for (const char* sizes :
       {"", ", anon-rss:8kB", ", anon-rss:8kB, file-rss:1kB", ", anon-rss:8kB, file-rss:1kB, shmem-rss:",
        ", anon-rss:8kB, file-rss:1kB, shmem-rss:1", ", anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
        ", anon-rss:18446744073709551615kB, file-rss:1kB, shmem-rss:1kB",
        ", anon-rss:-8kB, file-rss:1kB, shmem-rss:1kB",
        ", anon-rss:99999999999999999999kB, file-rss:1kB, shmem-rss:1kB"}) {
    const auto kill = ParseKernelKill(begin + sizes);
    ASSERT_TRUE(kill) << sizes;
    EXPECT_EQ(kill->memory, std::nullopt) << sizes;
  }
  EXPECT_EQ(ReasonOf({.pid = 7}).detail,
            "the kernel ended process 7 because the machine had no memory left; let it use less, or run "
            "fewer jobs at once");
}

TEST(KernelKill, OtherLinesAreNoKernelKill) {
  for (const char* line :
       {"", "4,1,5,-;", "Out of memory: Killed process 7 (x) total-vm:1kB",
        "12,1,5,-;Out of memory: Killed process 7 (x) total-vm:1kB",  // a program wrote it
        "4,1,soon,-;Out of memory: Killed process 7 (x) total-vm:1kB",
        " 4,1,5,-;Out of memory: Killed process 7 (x) total-vm:1kB",
        "4,1,5,-;x: Out of memory: Killed process 7 (x) total-vm:1kB",
        "4,1,5,-;Out of memory: Killed process 99999999999 (x) total-vm:1kB",
        "4,1,5,-;Out of memory: Killed process -7 (x) total-vm:1kB",
        "4,1,5,-;Out of memory: Killed process 0 (x) total-vm:1kB",
        "4,1,5,-;Out of memory: Killed process (x) total-vm:1kB", "4,1,5,-;Out of memory: Killed process 7",
        "4,1,5,-;Out of memory: Killed process 7 (x", "4,1,5,-;Out of memory: Killed process 7 (x)",
        "4,1,5,-;Killed process [7]: segfault at 0",
        "4,1,5,-;oom_reaper: reaped process 7 (x), now anon-rss:0kB"})
    EXPECT_FALSE(ParseKernelKill(line)) << line;
}

TEST(KernelKill, EndsTheRunOfItsProcessAndTimeAlone) {
  struct Row {
    const char* what;
    pid_t pid;
    std::int64_t at_ms;
    bool is;
  };
  // The run was from 20 s to 100 s. The clocks may differ by 50 ms, and the keeper may know of the start
  // late.
  for (const Row& row : {Row{"during", 7, 60'000, true}, Row{"another process", 8, 60'000, false},
                         Row{"at the start", 7, 19'000, true}, Row{"before the start", 7, 18'900, false},
                         Row{"told late", 7, 101'000, true}, Row{"after the end", 7, 101'100, false},
                         Row{"at the end of time", 7, INT64_MAX / 1000, false}}) {
    const KernelKill kill{.pid = row.pid, .since_boot = Millis(row.at_ms)};
    EXPECT_EQ(IsEndOf(kill, 7, Millis(100'000), Millis(80'000)), row.is) << row.what;
  }
  const KernelKill after_a_month{.pid = 7, .since_boot = Millis(2'592'060'000)};
  EXPECT_TRUE(IsEndOf(after_a_month, 7, Millis(2'592'000'000), Millis(10))) << "the clocks drift apart";
  const KernelKill long_before{.pid = 7, .since_boot = Millis(31'535'000'000)};
  EXPECT_FALSE(IsEndOf(long_before, 7, Millis(31'536'000'000), Millis(10))) << "after a year, by 16 minutes";
}

}  // namespace
}  // namespace gpuman::jobs
