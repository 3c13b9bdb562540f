#include "mps/rivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

namespace gpuman::mps {
namespace {

using ::testing::SizeIs;

constexpr const char* kRivalUuid = "GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6";

// A process table that the test fills.
class Table final : public base::ProcessTable {
 public:
  struct Process {
    std::string name;
    std::vector<std::string> command;
    std::map<std::string, std::string, std::less<>> environment;
    char state = 'S';
    uid_t owner = ::geteuid();
  };
  std::map<pid_t, Process> processes;

  std::optional<base::ProcessInfo> Find(pid_t pid) const override {
    const auto it = processes.find(pid);
    if (it == processes.end()) return std::nullopt;
    return base::ProcessInfo{{pid, 7}, 1, pid, pid, it->second.state, it->second.name};
  }
  std::vector<base::ProcessInfo> List() const override {
    std::vector<base::ProcessInfo> list;
    for (const auto& [pid, process] : processes) list.push_back(*Find(pid));
    return list;
  }
  std::optional<uid_t> Owner(pid_t pid) const override { return processes.at(pid).owner; }
  std::vector<std::string> CommandLine(pid_t pid) const override { return processes.at(pid).command; }
  std::optional<std::string> Environment(pid_t pid, std::string_view name) const override {
    const auto& environment = processes.at(pid).environment;
    const auto it = environment.find(name);
    return it == environment.end() ? std::nullopt : std::optional(it->second);
  }
};

Table::Process Daemon(std::map<std::string, std::string, std::less<>> environment) {
  return {"nvidia-cuda-mps", {"/usr/bin/nvidia-cuda-mps-control", "-d"}, std::move(environment)};
}

TEST(MpsRivals, DaemonsAreFoundAndServersAndQuestionsAreNot) {
  Table table;
  table.processes[1] = Daemon({});
  table.processes[2] = {"nvidia-cuda-mps", {"nvidia-cuda-mps-control"}, {}};
  table.processes[3] = {"nvidia-cuda-mps", {"nvidia-cuda-mps-server"}, {}};
  table.processes[4] = {"bash", {"nvidia-cuda-mps-control", "-d"}, {}};
  table.processes[5] = {"nvidia-cuda-mps", {"nvidia-cuda-mps-control", "-f"}, {}};
  table.processes[6] = Daemon({});
  table.processes[6].state = 'Z';
  const auto found = FindControls(table);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].id.pid, 1);
  EXPECT_EQ(found[1].id.pid, 5);
}

TEST(MpsRivals, ADaemonsProtocolIsInItsCommandLine) {
  Table table;
  table.processes[1] = Daemon({});
  table.processes[2] = Daemon({});
  table.processes[2].command = {"nvidia-cuda-mps-control", "-d", "-p", "3"};
  table.processes[3] = Daemon({});
  table.processes[3].command = {"nvidia-cuda-mps-control", "-d", "-p"};
  std::vector<int> protocols;
  for (const auto& found : FindControls(table)) protocols.push_back(found.protocol);
  EXPECT_EQ(protocols, (std::vector{2, 3, 2}));
}

TEST(MpsRivals, OursIsKnownByItsDirectory) {
  Table table;
  table.processes[1] = Daemon({{"CUDA_MPS_PIPE_DIRECTORY", "/run/gpuman/mps/GPU-1/pipe"}});
  const auto found = FindControls(table);
  EXPECT_EQ(ControlAt(found, "/run/gpuman/mps/GPU-1/pipe")->id.pid, 1);
  EXPECT_FALSE(ControlAt(found, "/run/gpuman/mps/GPU-2/pipe"));
  EXPECT_FALSE(RivalFor(found, "/run/gpuman/mps", kRivalUuid));
  EXPECT_TRUE(RivalFor(found, "/run/user/1000/gpuman/mps", kRivalUuid));
}

TEST(MpsRivals, AProgramOfAnotherUserIsNotOurs) {
  Table table;
  table.processes[1] = Daemon({{"CUDA_MPS_PIPE_DIRECTORY", "/run/gpuman/mps/GPU-1/pipe"}});
  table.processes[1].owner = ::geteuid() + 1;
  EXPECT_FALSE(ControlAt(FindControls(table), "/run/gpuman/mps/GPU-1/pipe"));
}

TEST(MpsRivals, AnotherDaemonIsARivalUnlessItNamesOtherGpus) {
  const auto rival = [](std::map<std::string, std::string, std::less<>> environment) {
    Table table;
    table.processes[1] = Daemon(std::move(environment));
    return RivalFor(FindControls(table), "/run/gpuman/mps", kRivalUuid).has_value();
  };
  EXPECT_TRUE(rival({}));
  EXPECT_TRUE(rival({{"CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"}}));
  EXPECT_TRUE(rival({{"CUDA_VISIBLE_DEVICES", "0"}}));
  EXPECT_TRUE(rival({{"CUDA_VISIBLE_DEVICES", kRivalUuid}}));
  EXPECT_TRUE(rival({{"CUDA_VISIBLE_DEVICES", "GPU-0000,GPU-93f6e897"}}));
  EXPECT_FALSE(rival({{"CUDA_VISIBLE_DEVICES", "GPU-0000"}}));
  EXPECT_TRUE(rival({{"CUDA_MPS_PIPE_DIRECTORY", "/run/gpuman/mps-of-mine"}}));
}

}  // namespace
}  // namespace gpuman::mps
