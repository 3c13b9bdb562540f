#include "base/time_limited_process_table.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/test_temp_dir.h"

namespace gpuman::base {
namespace {

// Processes of users, as files. A pipe without a writer holds its reader up forever.
class TimeLimitedProcessTableTest : public testing::Test {
 protected:
  void Write(pid_t pid, const char* file, const char* text) {
    std::ofstream(dir_.path() / std::to_string(pid) / file) << text << '\0';
  }
  void WriteStat(pid_t pid, int start_time) {
    std::ofstream(dir_.path() / std::to_string(pid) / "stat")
        << pid << " (x) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 " << start_time << " 0\n";
  }
  void Add(pid_t pid, uid_t user, bool holds) {
    const auto directory = dir_.path() / std::to_string(pid);
    std::filesystem::create_directory(directory);
    std::ofstream(directory / "status") << "Name:\tx\nUid:\t" << user << "\t" << user << "\n";
    WriteStat(pid, pid);
    for (const char* const file : {"cmdline", "environ"}) {
      if (holds) {
        ASSERT_EQ(::mkfifo((directory / file).c_str(), 0600), 0);
      } else {
        std::ofstream(directory / file) << "A=" << pid << '\0' << "B=2" << '\0';
      }
    }
  }
  // Writes to the pipe, so that its reader goes on.
  void LetGo(pid_t pid, const char* file) {
    std::ofstream(dir_.path() / std::to_string(pid) / file) << "late" << '\0';
  }

  TempDir dir_;
  TimeLimitedProcessTable table_{dir_.path(), std::chrono::milliseconds(20)};
  // For reads that nothing holds up, however slow the machine is.
  TimeLimitedProcessTable calm_{dir_.path(), std::chrono::hours(1)};
};

TEST_F(TimeLimitedProcessTableTest, ReadsWhatCanBeRead) {
  Add(1, 1001, false);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(calm_.CommandLine(1), (std::vector<std::string>{"A=1", "B=2"}));
    EXPECT_EQ(calm_.Environment(1, "B"), "2");
  }
  EXPECT_EQ(calm_.Environment(1, "C"), std::nullopt);
  EXPECT_TRUE(calm_.CommandLine(2).empty()) << "there is none";
}

TEST_F(TimeLimitedProcessTableTest, AProcessThatBlocksTheReaderIsReadAgainLater) {
  Add(1, 1001, true);
  EXPECT_TRUE(table_.CommandLine(1).empty());
  EXPECT_EQ(table_.Environment(1, "A"), std::nullopt);
  EXPECT_EQ(table_.ReadEnvironment(1, "A").error().code, ErrorCode::kUnavailable);
  LetGo(1, "cmdline");
  std::filesystem::remove(dir_.path() / "1" / "cmdline");
  std::ofstream(dir_.path() / "1" / "cmdline") << "now" << '\0';
  while (table_.CommandLine(1) != std::vector<std::string>{"now"}) {
  }
}

// A clock that advances by a step at each call: a read takes one step.
class SteppingClock final : public Clock {
 public:
  MonoTime Mono() const override { return now += step; }
  WallTime Wall() const override { return {}; }
  mutable MonoTime now{std::chrono::hours(1)};
  std::chrono::milliseconds step{0};
};

TEST_F(TimeLimitedProcessTableTest, ASlowProcessGetsOnlyItsShareOfTheTime) {
  using Command = std::vector<std::string>;
  SteppingClock clock;
  const TimeLimitedProcessTable table(dir_.path(), std::chrono::hours(1), TimeLimitedProcessTable::For::kLoop,
                                      clock);
  Add(1, 1001, false);
  Add(2, 1001, false);
  Add(3, 1002, false);
  Write(1, "cmdline", "first");
  clock.step = std::chrono::hours(100);  // the read is still in time
  EXPECT_EQ(table.CommandLine(1), Command{"first"});
  EXPECT_EQ(*table.ReadEnvironment(1, "B"), "2") << "one says nothing about the other";
  clock.step = {};
  Write(1, "cmdline", "second");
  EXPECT_EQ(table.CommandLine(1), Command{"first"}) << "as it was known last";
  EXPECT_TRUE(table.CommandLine(2).empty()) << "another process of the same owner";
  EXPECT_EQ(table.ReadEnvironment(2, "B").error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(table.Environment(2, "B"), std::nullopt);
  EXPECT_EQ(table.CommandLine(3), (Command{"A=3", "B=2"})) << "another owner";
  EXPECT_EQ(*table.ReadEnvironment(3, "B"), "2");
  clock.now += std::chrono::hours(20 * 100);
  EXPECT_EQ(table.CommandLine(1), Command{"second"});
  EXPECT_EQ(*table.ReadEnvironment(2, "B"), "2");
  EXPECT_EQ(*table.ReadEnvironment(2, "C"), std::nullopt);
}

// The thread that ends processes which a job has left reads all processes and delays no other thread.
TEST_F(TimeLimitedProcessTableTest, WorkerThreadsWaitUpToTheLimitForEveryProcess) {
  SteppingClock clock;
  const TimeLimitedProcessTable table(dir_.path(), std::chrono::hours(1),
                                      TimeLimitedProcessTable::For::kThreads, clock);
  Add(1, 1001, false);
  clock.step = std::chrono::hours(100);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(table.Environment(1, "B"), "2");
}

TEST_F(TimeLimitedProcessTableTest, AReusedPidDoesNotGetTheOldFacts) {
  SteppingClock clock;
  const TimeLimitedProcessTable table(dir_.path(), std::chrono::hours(1), TimeLimitedProcessTable::For::kLoop,
                                      clock);
  Add(1, 1001, false);
  clock.step = std::chrono::minutes(61);
  EXPECT_FALSE(table.CommandLine(1).empty());
  clock.step = {};
  EXPECT_FALSE(table.CommandLine(1).empty());
  WriteStat(1, 77);
  EXPECT_TRUE(table.CommandLine(1).empty());
}

TEST_F(TimeLimitedProcessTableTest, ManyBlockingProcessesTakeBoundedNumberOfThreads) {
  for (pid_t pid = 1; pid <= 40; ++pid) Add(pid, 1000 + static_cast<uid_t>(pid), true);
  for (pid_t pid = 1; pid <= 40; ++pid) EXPECT_TRUE(table_.CommandLine(pid).empty());
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                                     std::filesystem::directory_iterator());
  EXPECT_LT(threads, 20);
  for (pid_t pid = 1; pid <= 8; ++pid) LetGo(pid, "cmdline");
}

}  // namespace
}  // namespace gpuman::base
