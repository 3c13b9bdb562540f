#include "base/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "base/file.h"
#include "base/test_temp_dir.h"

namespace gpuman::base {
namespace {

TEST(ParseStat, ReadsANameWithSpacesAndParentheses) {
  const auto info = ParseStat(
      "12 (a) b (c) S 7 12 11 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 18446744073709551615 1 "
      "18446744073709551615");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->name, "a) b (c");
  EXPECT_EQ(info->id, (ProcessId{12, 4711}));
  EXPECT_EQ(info->parent, 7);
  EXPECT_EQ(info->session, 11);
  EXPECT_EQ(info->state, 'S');
}

TEST(ParseStat, RefusesTruncatedText) {
  for (const char* text : {"", "12", "12 (x", "12 (x)", "12 (x) S 1 2", ")(", "x (y) S 1 1 1"})
    EXPECT_FALSE(ParseStat(text)) << text;
}

TEST(ProcFs, ReadsAMadeUpTree) {
  const TempDir dir;
  ASSERT_TRUE(MakeDirectories(dir.path() / "42"));
  ASSERT_TRUE(MakeDirectories(dir.path() / "self"));
  ASSERT_TRUE(
      ReplaceFile(dir.path() / "42/stat", "42 (train) R 1 42 42 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0"));
  ASSERT_TRUE(ReplaceFile(dir.path() / "42/status", "Name:\ttrain\nUid:\t1000\t0\t0\t0\n"));
  ASSERT_TRUE(ReplaceFile(dir.path() / "42/cmdline", std::string("python\0train.py\0", 16)));
  ASSERT_TRUE(ReplaceFile(dir.path() / "42/environ", std::string("A=1\0GPUMAN_JOB_ID=7\0", 20)));
  const ProcFs table(dir.path());
  ASSERT_EQ(table.List().size(), 1u);
  EXPECT_EQ(table.Find(42)->id.start_time, 99u);
  EXPECT_EQ(table.Owner(42), 1000u);
  EXPECT_EQ(table.CommandLine(42), (std::vector<std::string>{"python", "train.py"}));
  EXPECT_EQ(table.Environment(42, "GPUMAN_JOB_ID"), "7");
  EXPECT_EQ(table.Environment(42, "GPUMAN_JOB"), std::nullopt);
  EXPECT_FALSE(table.Find(43));
}

TEST(ProcFs, ReadsTheWholeOfALongCommandLine) {
  const TempDir dir;
  ASSERT_TRUE(MakeDirectories(dir.path() / "42"));
  const std::string word(300'000, 'x');
  ASSERT_TRUE(ReplaceFile(dir.path() / "42/cmdline", word + '\0' + word + '\0'));
  EXPECT_EQ(ProcFs(dir.path()).CommandLine(42), (std::vector<std::string>{word, word}));
}

TEST(ProcFs, NeverMixesTheCommandLinesOfTwoPrograms) {
  const TempDir dir;
  const std::string script = (dir.path() / "turn").string();
  const std::string word(100'000, 'y');
  ASSERT_TRUE(ReplaceFile(script, "test $1 = a && exec /bin/sh $0 b " + word + "\nexec /bin/sh $0 a\n"));
  const std::vector<std::string> first{"/bin/sh", script, "a"};
  const std::vector<std::string> second{"/bin/sh", script, "b", word};
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    ::execl("/bin/sh", "/bin/sh", script.c_str(), "a", nullptr);
    ::_exit(127);
  }
  std::set<std::vector<std::string>> seen;
  // Until it executes the script the child has the command line of this test; in between it has none.
  const ProcFs processes;
  while (processes.CommandLine(pid) != second) std::this_thread::yield();
  for (int i = 0; i < 5'000 || !seen.contains(first); ++i) seen.insert(processes.CommandLine(pid));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  seen.erase(std::vector<std::string>{});
  EXPECT_EQ(seen, (std::set{first, second}));
}

TEST(ProcFs, FindsTheCgroupWhereverTheTreeIsMounted) {
  const TempDir dir;
  ASSERT_TRUE(MakeDirectories(dir.path() / "42"));
  ASSERT_TRUE(MakeDirectories(dir.path() / "self"));
  ASSERT_TRUE(ReplaceFile(dir.path() / "42/cgroup", "4:memory:/m\n0::/gpuman/job-7\n"));
  const ProcFs table(dir.path());
  EXPECT_EQ(table.Cgroup(42), std::nullopt);
  ASSERT_TRUE(ReplaceFile(dir.path() / "self/mountinfo",
                          "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
                          "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"));
  EXPECT_EQ(table.Cgroup(42), "/sys/fs/cgroup/unified/gpuman/job-7");
  ASSERT_TRUE(ReplaceFile(dir.path() / "42/cgroup", "4:memory:/m\n"));
  EXPECT_EQ(table.Cgroup(42), std::nullopt);
}

TEST(SendSignal, NeverHitsAProcessThatReusedThePid) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const auto id = IdentityOf(child);
  ASSERT_TRUE(id);
  EXPECT_EQ(SendSignal({child, id->start_time + 1}, SIGKILL).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(IsAlive(*id));
  EXPECT_TRUE(SendSignal(*id, SIGKILL));
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(IsAlive(*id)) << "a zombie counts as ended";
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(SendSignal(*id, SIGKILL).error().code, ErrorCode::kNotFound);
}

TEST(IsAlive, CountsAProcessAsAliveWhereItCannotLook) {
  const ProcessId self = SelfId();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool alive = IsAlive(self);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(alive);
  EXPECT_FALSE(IsAlive({self.pid, self.start_time + 1}));
  EXPECT_FALSE(IsAlive({1 << 22, 1})) << "there is no such process";
}

TEST(Descendants, FollowsEveryGenerationAndNothingElse) {
  const auto process = [](pid_t pid, pid_t parent) { return ProcessInfo{{pid, 1}, parent, 0, 0, 'S', ""}; };
  const auto tree =
      Descendants({process(1, 0), process(10, 1), process(11, 10), process(12, 11), process(20, 1)}, 10);
  ASSERT_EQ(tree.size(), 3u);
  EXPECT_EQ(tree[0].id.pid, 10);
}

}  // namespace
}  // namespace gpuman::base
