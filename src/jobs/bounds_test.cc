#include "jobs/bounds.h"

#include <gtest/gtest.h>

namespace gpuman::jobs {
namespace {

constexpr std::size_t kPage = 4096;

std::string Refused(const base::Result<>& result) { return result ? "" : result.error().message; }

TEST(CheckExecutable, TakesWhatAKernelExecutes) {
  EXPECT_TRUE(CheckExecutable({"true"}, {}, kPage));
  EXPECT_TRUE(CheckExecutable({"sh", std::string(131071, 'x')}, {{"A", std::string(131069, 'x')}}, kPage));
  EXPECT_TRUE(CheckExecutable({std::string((2 << 20) - 1, 'x')}, {}, 1u << 16)) << "pages of 64 KiB";
  Variables many;
  for (int i = 0; i < 40; ++i) many["V" + std::to_string(i)] = std::string(100'000, 'x');
  EXPECT_TRUE(CheckExecutable({"true"}, many, kPage)) << "4 MB, with a stack of 16 MiB or more";
}

TEST(CheckExecutable, RefusesWordsThatNoKernelTakes) {
  EXPECT_EQ(Refused(CheckExecutable({"sh", std::string(131072, 'x')}, {}, kPage)),
            "a word of the command has 131072 bytes; the system executes nothing with more than 131071");
  EXPECT_EQ(Refused(CheckExecutable({"sh"}, {{"LONG", std::string(131067, 'x')}}, kPage)),
            "the variable LONG of the environment has 131072 bytes; the system executes nothing with more "
            "than 131071");
}

TEST(CheckExecutable, RefusesMoreInSumThanAnyStackAllows) {
  const std::vector<std::string> command(64, std::string(100'000, 'x'));
  EXPECT_EQ(Refused(CheckExecutable(command, {}, kPage)),
            "the command with its environment has 6400064 bytes; the system executes nothing with more than "
            "6291456");
}

TEST(CheckText, TellsTheNumbers) {
  EXPECT_TRUE(CheckText("ann", base::MiB(200), base::MiB(56), base::MiB(256)));
  EXPECT_TRUE(CheckText("ann", base::GiB(200), base::MiB(56), {})) << "there is no bound";
  EXPECT_EQ(Refused(CheckText("ann", base::MiB(200), base::MiB(57), base::MiB(256))),
            "the commands, scripts and environments of user ann's jobs take 200MiB; with 57MiB more that "
            "passes the bound of 256MiB");
}

TEST(CheckRunning, TellsTheNumbers) {
  EXPECT_TRUE(CheckRunning("ann", 999, 1000));
  EXPECT_TRUE(CheckRunning("ann", 5000, 0)) << "there is no bound";
  EXPECT_EQ(Refused(CheckRunning("ann", 1000, 1000)),
            "user ann has 1000 running jobs; with 1 more that passes the bound of 1000");
}

}  // namespace
}  // namespace gpuman::jobs
