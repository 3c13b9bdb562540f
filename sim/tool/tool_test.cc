// gpuman-sim as a user of a shell sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/tool/bus_speeds.h"
#include "sim/tool/library_dir.h"

namespace gpuman::sim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Outcome {
  int status = -1;     // of the shell's last command
  std::string output;  // both streams
};

// Runs a line of shell in which `sim` is the program under test.
Outcome Shell(const std::string& line) {
  const std::string command = "sim() { '" GPUMAN_SIM_PROGRAM "' \"$@\"; }\nexec 2>&1\n" + line;
  Outcome outcome;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) outcome.output += buffer.data();
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

TEST(SimExec, EndsAsTheCommandDoes) {
  EXPECT_EQ(Shell("sim exec -- true").status, 0);
  EXPECT_EQ(Shell("sim exec -- sh -c 'exit 37'").status, 37);
  EXPECT_EQ(Shell("sim exec -- sh -c 'kill -KILL $$'").status, 128 + 9);
  EXPECT_EQ(Shell("sim exec -- no-such-command").status, 127);
  EXPECT_EQ(Shell("sim exec -- /etc/passwd").status, 126);
}

TEST(SimExec, PassesSignalsOnToTheCommand) {
  const Outcome outcome = Shell(
      "d=$(mktemp -d); mkfifo $d/ready\n"
      "'" GPUMAN_SIM_PROGRAM
      "' exec -- sh -c 'trap \"echo asked; exit 5\" TERM; echo up >'$d'/ready; "
      "while :; do sleep 0.05; done' &\n"
      "read up <$d/ready; kill -TERM $!; wait $!; s=$?; rm -r $d; exit $s");
  EXPECT_EQ(outcome.status, 5) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("asked"));
}

TEST(SimExec, GivesTheCommandAMachineAndTakesItAwayAfterwards) {
  const Outcome outcome = Shell("sim exec -- sh -c 'ls $GPUMAN_SIM_DIR; echo dir $GPUMAN_SIM_DIR'");
  EXPECT_THAT(outcome.output, HasSubstr("state\n"));
  const std::string directory = outcome.output.substr(outcome.output.find("dir ") + 4);
  EXPECT_FALSE(std::filesystem::exists(directory.substr(0, directory.find('\n'))));
}

TEST(SimExec, KeepsAMachineInADirectoryOfTheUsers) {
  std::string directory = std::filesystem::temp_directory_path() / "sim-tool-test.XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string at = " --dir " + directory;
  EXPECT_EQ(Shell("sim exec --profile a100" + at + " -- sim inject temperature 77").status, 127)
      << "sim is no command of the child";
  EXPECT_EQ(
      Shell("sim exec --profile a100" + at + " -- '" GPUMAN_SIM_PROGRAM "' inject temperature 77").status, 0);
  const Outcome shown = Shell("sim exec" + at + " -- '" GPUMAN_SIM_PROGRAM "' show --json");
  EXPECT_THAT(shown.output, AllOf(HasSubstr("A100"), HasSubstr("77")));
  std::filesystem::remove_all(directory);
}

TEST(SimExec, InvalidOptionsAreRefused) {
  EXPECT_EQ(Shell("sim exec").status, 2);
  EXPECT_EQ(Shell("sim exec --gpus 17 -- true").status, 2);
  EXPECT_EQ(Shell("sim exec --memory 1XB -- true").status, 2);
  EXPECT_EQ(Shell("sim exec --nonsense -- true").status, 2);
  const Outcome outcome = Shell("sim exec --profile v100 -- true");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("rtx4050, a100, h200"));
  EXPECT_NE(Shell("sim exec --driver new -- true").status, 0);
  EXPECT_NE(Shell("sim exec --memory 64MiB -- true").status, 0);
}

TEST(SimExec, TakesOneSpeedOfTheBusForAllGpusOrOneForEach) {
  BusSpeeds all{}, two{};
  all.fill(std::uint64_t{55} << 30);
  two[0] = std::uint64_t{55} << 30;
  two[1] = std::uint64_t{25} << 30;
  EXPECT_EQ(ParseBusSpeeds("", 2).value(), BusSpeeds{});
  EXPECT_EQ(ParseBusSpeeds("55G", 2).value(), all);
  EXPECT_EQ(ParseBusSpeeds("0=55G,1=25G", 2).value(), two);
  for (const char* wrong :
       {"fast", "0=", "=1G", "x=1G", "-1=1G", "0=1G,0=2G", "0=1G,1G", "2=1G", "0=1G,,1=1G"})
    EXPECT_FALSE(ParseBusSpeeds(wrong, 2)) << wrong;

  EXPECT_EQ(Shell("sim exec --gpus 2 --bus-to-device 0=55G,1=25G --bus-to-host 55G -- true").status, 0);
  EXPECT_EQ(Shell("sim exec --bus-to-device 0=fast -- true").status, 2);
  const Outcome outcome = Shell("sim exec --gpus 2 --bus-to-host 2=1G -- true");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("no GPU 2"));
}

TEST(SimShow, TellsWhatWasInjected) {
  const Outcome outcome = Shell(
      "sim exec --gpus 2 -- sh -c '\n"
      "s=\"" GPUMAN_SIM_PROGRAM
      "\"; $s inject temperature 95 --gpu 1 && "
      "$s inject ecc --uncorrected --gpu 1 && $s inject xid 79 && $s show --json'");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto shown = nlohmann::json::parse(outcome.output, nullptr, false);
  ASSERT_FALSE(shown.is_discarded()) << outcome.output;
  ASSERT_EQ(shown["gpus"].size(), 2u);
  EXPECT_EQ(shown["gpus"][1]["injected"]["temperature_c"], 95);
  EXPECT_TRUE(shown["gpus"][0]["injected"]["temperature_c"].is_null());
}

TEST(SimInject, WrongArgumentsAreRefusedWithTheReason) {
  const Outcome outside = Shell("unset GPUMAN_SIM_DIR; sim inject xid 79");
  EXPECT_EQ(outside.status, 1);
  EXPECT_THAT(outside.output, HasSubstr("gpuman-sim exec"));
  const std::string inside = "sim exec --profile rtx4050 -- '" GPUMAN_SIM_PROGRAM "' inject ";
  EXPECT_EQ(Shell(inside + "xid").status, 2);
  EXPECT_EQ(Shell(inside + "xid 79 --gpu 4").status, 1);
  EXPECT_EQ(Shell(inside + "ecc").status, 1) << "this device has none";
  EXPECT_EQ(Shell(inside + "nvml-slow --delay soon").status, 1);
  EXPECT_EQ(Shell(inside + "alloc-fail --nth 0").status, 2);
  EXPECT_EQ(Shell(inside + "clear").status, 0);
}

TEST(SearchPath, PrefersTheFolderOfTheDriversVersion) {
  std::string directory = std::filesystem::temp_directory_path() / "sim-tool-test.XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  EXPECT_EQ(SearchPath(directory, 580), directory) << "nothing but the common folder";
  for (const char* name : {"driver-470", "driver-535", "driver-570", "driver-x"}) {
    std::filesystem::create_directory(std::filesystem::path(directory) / name);
  }
  EXPECT_EQ(SearchPath(directory, 580), directory + "/driver-570:" + directory);
  EXPECT_EQ(SearchPath(directory, 550), directory + "/driver-535:" + directory);
  EXPECT_EQ(SearchPath(directory, 390), directory + "/driver-470:" + directory);
  EXPECT_EQ(WithFirst("/a:/b", "/c"), "/a:/b:/c");
  EXPECT_EQ(WithFirst("/a:/b", nullptr), "/a:/b");
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace gpuman::sim
