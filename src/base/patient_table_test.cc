#include "base/patient_table.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/temp_dir.h"

namespace gpuman::base {
namespace {

// Processes of users, as files. A pipe that nobody writes to holds its reader up for ever.
class PatientTableTest : public testing::Test {
 protected:
  void Add(pid_t pid, uid_t user, bool holds) {
    const auto directory = dir_.path() / std::to_string(pid);
    std::filesystem::create_directory(directory);
    std::ofstream(directory / "status") << "Name:\tx\nUid:\t" << user << "\t" << user << "\n";
    for (const char* const file : {"cmdline", "environ"}) {
      if (holds) {
        ASSERT_EQ(::mkfifo((directory / file).c_str(), 0600), 0);
      } else {
        std::ofstream(directory / file) << "A=" << pid << '\0' << "B=2" << '\0';
      }
    }
  }
  // Somebody writes to the pipe at last.
  void LetGo(pid_t pid, const char* file) {
    std::ofstream(dir_.path() / std::to_string(pid) / file) << "late" << '\0';
  }

  TempDir dir_;
  PatientTable table_{dir_.path(), std::chrono::milliseconds(20)};
  // Where nothing is held, however slow the machine is.
  PatientTable calm_{dir_.path(), std::chrono::hours(1)};
};

TEST_F(PatientTableTest, ReadsWhatCanBeRead) {
  Add(1, 1001, false);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(calm_.CommandLine(1), (std::vector<std::string>{"A=1", "B=2"}));
    EXPECT_EQ(calm_.Environment(1, "B"), "2");
  }
  EXPECT_EQ(calm_.Environment(1, "C"), std::nullopt);
  EXPECT_TRUE(calm_.CommandLine(2).empty()) << "there is none";
}

TEST_F(PatientTableTest, WhoHoldsTheReaderUpIsGivenUpAndReadAgainLater) {
  Add(1, 1001, true);
  EXPECT_TRUE(table_.CommandLine(1).empty());
  EXPECT_EQ(table_.Environment(1, "A"), std::nullopt);
  LetGo(1, "cmdline");
  std::filesystem::remove(dir_.path() / "1" / "cmdline");
  std::ofstream(dir_.path() / "1" / "cmdline") << "now" << '\0';
  while (table_.CommandLine(1) != std::vector<std::string>{"now"}) {
  }
}

TEST_F(PatientTableTest, ManyWhoHoldItUpTakeABoundedNumberOfThreads) {
  for (pid_t pid = 1; pid <= 40; ++pid) Add(pid, 1000 + static_cast<uid_t>(pid), true);
  for (pid_t pid = 1; pid <= 40; ++pid) EXPECT_TRUE(table_.CommandLine(pid).empty());
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                                     std::filesystem::directory_iterator());
  EXPECT_LT(threads, 20);
  for (pid_t pid = 1; pid <= 8; ++pid) LetGo(pid, "cmdline");
}

}  // namespace
}  // namespace gpuman::base
