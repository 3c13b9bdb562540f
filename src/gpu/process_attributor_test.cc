#include "gpu/process_attributor.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace gpuman::gpu {
namespace {

// An artificial process table that counts how often it is asked.
class Table final : public base::ProcessTable {
 public:
  struct Entry {
    base::ProcessInfo info;
    uid_t uid = 1000;
    std::map<std::string, std::string> environment{};
    std::filesystem::path cgroup{};
  };
  void Put(pid_t pid, std::uint64_t start, pid_t parent, uid_t uid = 1000) {
    Entry entry;
    entry.info = {{pid, start}, parent, pid, pid, 'S', "p" + std::to_string(pid)};
    entry.uid = uid;
    entries[pid] = entry;
  }
  std::optional<base::ProcessInfo> Find(pid_t pid) const override {
    ++finds;
    if (on_find) on_find(pid);
    const auto it = entries.find(pid);
    return it == entries.end() ? std::nullopt : std::optional(it->second.info);
  }
  std::vector<base::ProcessInfo> List() const override { return {}; }
  std::optional<uid_t> Owner(pid_t pid) const override {
    const auto it = entries.find(pid);
    return it == entries.end() ? std::nullopt : std::optional(it->second.uid);
  }
  std::vector<std::string> CommandLine(pid_t) const override { return {}; }
  std::optional<std::string> Environment(pid_t pid, std::string_view name) const override {
    const auto it = entries.find(pid);
    if (it == entries.end()) return std::nullopt;
    const auto value = it->second.environment.find(std::string(name));
    return value == it->second.environment.end() ? std::nullopt : std::optional(value->second);
  }
  base::Result<std::optional<std::string>> ReadEnvironment(pid_t pid, std::string_view name) const override {
    if (held_up.contains(pid)) return base::Fail(base::ErrorCode::kUnavailable, "not yet");
    return Environment(pid, name);
  }
  std::optional<std::filesystem::path> Cgroup(pid_t pid) const override {
    const auto it = entries.find(pid);
    if (it == entries.end() || it->second.cgroup.empty()) return std::nullopt;
    return it->second.cgroup;
  }

  std::map<pid_t, Entry> entries;
  std::set<pid_t> held_up;
  mutable int finds = 0;
  std::function<void(pid_t)> on_find;
};

constexpr JobId kSeven{7};
constexpr JobId kEight{8};

std::optional<JobId> JobOf(ProcessAttributor& attribution, pid_t pid, const std::string& gpu = "GPU-a") {
  const std::vector<GpuProcess> list = {{pid, base::MiB(1), ProcessKind::kCompute}};
  return attribution.Attribute(gpu, list).at(0).job;
}

TEST(ProcessAttributor, FollowsAncestorsUpToTheKeeper) {
  Table table;
  table.Put(1, 1, 0, 0);
  table.Put(100, 10, 1);    // keeper of 7
  table.Put(101, 20, 100);  // its command
  table.Put(102, 30, 101);  // a grandchild
  table.Put(103, 40, 100);  // daemonised: the keeper is its subreaper
  table.Put(200, 15, 1);    // a stranger
  ProcessAttributor attribution(table);
  attribution.SetJob({.job = kSeven, .keeper = {100, 10}, .owner = 1000});
  EXPECT_EQ(JobOf(attribution, 101), kSeven);
  EXPECT_EQ(JobOf(attribution, 102), kSeven);
  EXPECT_EQ(JobOf(attribution, 103), kSeven);
  EXPECT_EQ(JobOf(attribution, 200), std::nullopt);
}

TEST(ProcessAttributor, KnowsGpumansOwn) {
  Table table;
  table.Put(20, 1, 1);
  table.Put(21, 1, 1);
  ProcessAttributor attribution(table);
  attribution.SetOurs({20});
  const auto ours = [&](pid_t pid) {
    const std::vector<GpuProcess> list = {{pid, base::MiB(1), ProcessKind::kCompute}};
    return attribution.Attribute("GPU-a", list).at(0).ours;
  };
  EXPECT_TRUE(ours(20));
  EXPECT_FALSE(ours(21));
  attribution.SetOurs({});
  EXPECT_FALSE(ours(20));
}

TEST(ProcessAttributor, GivesAJobStartedWithinAJobItsOwnProcesses) {
  Table table;
  table.Put(100, 10, 1);
  table.Put(101, 20, 100);
  table.Put(300, 30, 101);  // keeper of 8, below job 7
  table.Put(301, 40, 300);
  ProcessAttributor attribution(table);
  attribution.SetJob({.job = kSeven, .keeper = {100, 10}, .owner = 1000});
  attribution.SetJob({.job = kEight, .keeper = {300, 30}, .owner = 1000});
  EXPECT_EQ(JobOf(attribution, 301), kEight);
  EXPECT_EQ(JobOf(attribution, 101), kSeven);
}

TEST(ProcessAttributor, DoesNotTakeAReusedPidForTheKeeper) {
  Table table;
  table.Put(100, 99, 1);  // not the keeper: it started later
  table.Put(101, 120, 100);
  ProcessAttributor attribution(table);
  attribution.SetJob({.job = kSeven, .keeper = {100, 10}, .owner = 1000});
  EXPECT_EQ(JobOf(attribution, 101), std::nullopt);
}

TEST(ProcessAttributor, WalksAgainWhenAnAncestorEndsMeanwhile) {
  Table table;
  table.Put(100, 10, 1);
  table.Put(101, 20, 100);
  table.Put(102, 30, 101);
  table.on_find = [&](pid_t pid) {
    if (pid != 101) return;
    table.entries.erase(101);
    table.entries[102].info.parent = 100;
  };
  ProcessAttributor attribution(table);
  attribution.SetJob({.job = kSeven, .keeper = {100, 10}, .owner = 1000});
  EXPECT_EQ(JobOf(attribution, 102), kSeven);
}

TEST(ProcessAttributor, GivesAContainerWhatRunsInItAndNobodyElse) {
  Table table;
  for (const pid_t pid : {201, 202, 203, 204}) table.Put(pid, 20, 1, 0);
  table.entries[202].environment["GPUMAN_JOB_KEY"] = "secret";
  table.entries[204].environment["GPUMAN_JOB_KEY"] = "secret";
  const std::map<pid_t, std::string> containers{{201, "one"}, {202, "two"}, {203, "one"}};
  ProcessAttributor attribution(table, [&](pid_t pid) -> std::optional<base::ProcessContainer> {
    const auto found = containers.find(pid);
    if (found == containers.end()) return std::nullopt;
    return base::ProcessContainer{{found->second, "pod", {}, {}, {}}, {}};
  });
  attribution.SetJob({.job = kEight, .keeper = {300, 1}, .owner = 0, .key = "secret"});
  EXPECT_EQ(JobOf(attribution, 201), std::nullopt);
  attribution.SetJob({.job = kSeven, .keeper = {}, .owner = 0, .container = "one"});
  EXPECT_EQ(JobOf(attribution, 201), kSeven) << "seen before it was a job";
  EXPECT_EQ(JobOf(attribution, 203), kSeven);
  EXPECT_EQ(JobOf(attribution, 202), std::nullopt) << "a key that it learned";
  EXPECT_EQ(JobOf(attribution, 204), kEight);
  attribution.RemoveJob(kSeven);
  EXPECT_EQ(JobOf(attribution, 201), std::nullopt);
}

TEST(ProcessAttributor, FindsOrphansOfAKilledKeeperByCgroup) {
  Table table;
  table.Put(101, 20, 1);
  table.Put(102, 20, 1);
  table.Put(103, 20, 1);
  table.entries[101].cgroup = "/sys/fs/cgroup/gpuman/job-7/inner";
  table.entries[102].cgroup = "/sys/fs/cgroup/gpuman/job-70";
  ProcessAttributor attribution(table);
  attribution.SetJob(
      {.job = kSeven, .keeper = {100, 10}, .cgroup = "/sys/fs/cgroup/gpuman/job-7", .owner = 1000});
  EXPECT_EQ(JobOf(attribution, 101), kSeven);
  EXPECT_EQ(JobOf(attribution, 102), std::nullopt);
  EXPECT_EQ(JobOf(attribution, 103), std::nullopt);
}

TEST(ProcessAttributor, BelievesTheEnvironmentOfTheOwnersProcessesAlone) {
  const struct {
    const char* what;
    uid_t uid;
    std::uint64_t start;
    const char* name;
    const char* value;
    bool keyed;
    bool belongs;
  } table[] = {
      {"the job's id", 1000, 20, "GPUMAN_JOB_ID", "7", false, true},
      {"another id", 1000, 20, "GPUMAN_JOB_ID", "70", false, false},
      {"somebody else's process", 1001, 20, "GPUMAN_JOB_ID", "7", false, false},
      {"even root's", 0, 20, "GPUMAN_JOB_ID", "7", false, false},
      {"older than the job", 1000, 9, "GPUMAN_JOB_ID", "7", false, false},
      {"the job's key", 1000, 20, "GPUMAN_JOB_KEY", "secret", true, true},
      {"a wrong key", 1000, 20, "GPUMAN_JOB_KEY", "guess", true, false},
      {"somebody else with the key", 1001, 20, "GPUMAN_JOB_KEY", "secret", true, false},
      {"the id where there is a key", 1000, 20, "GPUMAN_JOB_ID", "7", true, false},
  };
  for (const auto& row : table) {
    Table processes;
    processes.Put(101, row.start, 1, row.uid);
    processes.entries[101].environment[row.name] = row.value;
    ProcessAttributor attribution(processes);
    attribution.SetJob({.job = kSeven, .keeper = {100, 10}, .owner = 1000, .key = row.keyed ? "secret" : ""});
    EXPECT_EQ(JobOf(attribution, 101).has_value(), row.belongs) << row.what;
  }
}

TEST(ProcessAttributor, AnEnvironmentThatCannotBeReadYetIsAskedForAgain) {
  Table table;
  table.Put(101, 20, 1);
  table.entries[101].environment["GPUMAN_JOB_KEY"] = "secret";
  table.held_up.insert(101);
  ProcessAttributor attribution(table);
  attribution.SetJob({.job = kSeven, .keeper = {100, 10}, .owner = 1000, .key = "secret"});
  EXPECT_FALSE(attribution.JobOf(101).complete) << "it is not known that it is nobody's";
  EXPECT_EQ(JobOf(attribution, 101), std::nullopt);
  table.held_up.clear();
  EXPECT_EQ(attribution.JobOf(101).job, kSeven);
  EXPECT_EQ(JobOf(attribution, 101), kSeven);
}

// A caller that asks for a process in a chain of thousands waits for a limited number of reads.
TEST(ProcessAttributor, AsksForABoundedNumberOfAncestors) {
  Table table;
  table.Put(100, 10, 1);
  for (pid_t pid = 101; pid < 4000; ++pid) table.Put(pid, static_cast<std::uint64_t>(pid), pid - 1);
  ProcessAttributor attribution(table);
  attribution.SetJob({.job = kSeven, .keeper = {100, 10}, .owner = 1000});
  const auto found = attribution.JobOf(3999);
  EXPECT_FALSE(found.complete);
  EXPECT_LT(table.finds, 300);
  EXPECT_EQ(JobOf(attribution, 3999), kSeven) << "on a GPU it is worth looking at all of them";
  EXPECT_EQ(attribution.JobOf(3999).job, kSeven);
}

TEST(ProcessAttributor, LooksAtAKnownProcessNoMore) {
  Table table;
  table.Put(100, 10, 1);
  table.Put(101, 20, 100);
  ProcessAttributor attribution(table);
  attribution.SetJob({.job = kSeven, .keeper = {100, 10}, .owner = 1000});
  EXPECT_EQ(JobOf(attribution, 101), kSeven);
  const int before = table.finds;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(JobOf(attribution, 101), kSeven);
  EXPECT_EQ(table.finds, before);
}

TEST(ProcessAttributor, KeepsAJobsProcessWhenItsKeeperIsKilled) {
  Table table;
  table.Put(100, 10, 1);
  table.Put(101, 20, 100);
  ProcessAttributor attribution(table);
  attribution.SetJob({.job = kSeven, .keeper = {100, 10}, .owner = 1000});
  EXPECT_EQ(JobOf(attribution, 101), kSeven);
  table.entries.erase(100);
  table.entries[101].info.parent = 1;
  EXPECT_EQ(JobOf(attribution, 101), kSeven);
  EXPECT_EQ(JobOf(attribution, 101, "GPU-b"), kSeven);
}

TEST(ProcessAttributor, ChecksThePidAgainWhenItComesBack) {
  Table table;
  table.Put(100, 10, 1);
  table.Put(101, 20, 100);
  ProcessAttributor attribution(table);
  attribution.SetJob({.job = kSeven, .keeper = {100, 10}, .owner = 1000});
  EXPECT_EQ(JobOf(attribution, 101), kSeven);
  table.Put(101, 50, 1);  // a stranger has the pid now, on another GPU
  EXPECT_EQ(JobOf(attribution, 101, "GPU-b"), std::nullopt);
  EXPECT_EQ(JobOf(attribution, 101), std::nullopt);
}

TEST(ProcessAttributor, AsksAgainAboutStrangersWhenAJobIsAdded) {
  Table table;
  table.Put(100, 10, 1);
  table.Put(101, 20, 100);
  ProcessAttributor attribution(table);
  EXPECT_EQ(JobOf(attribution, 101), std::nullopt);
  attribution.SetJob({.job = kSeven, .keeper = {100, 10}, .owner = 1000});
  EXPECT_EQ(JobOf(attribution, 101), kSeven);
  attribution.RemoveJob(kSeven);
  EXPECT_EQ(JobOf(attribution, 101), std::nullopt);
}

TEST(ProcessAttributor, GivesAProcessThatHasEndedToNobody) {
  Table table;
  ProcessAttributor attribution(table);
  attribution.SetJob({.job = kSeven, .keeper = {100, 10}, .owner = 1000});
  const std::vector<GpuProcess> list = {{101, std::nullopt, ProcessKind::kCompute}};
  const auto owned = attribution.Attribute("GPU-a", list);
  EXPECT_EQ(owned, (std::vector<AttributedProcess>{{.id = {101, 0}}}));
}

// For any tree, a process belongs to the nearest keeper above it and to nothing else.
TEST(ProcessAttributor, AgreesWithTheTreeItself) {
  EXPECT_TRUE(rc::check("nearest keeper above", [] {
    Table table;
    const int count = *rc::gen::inRange(2, 40);
    std::map<pid_t, std::optional<JobId>> truth{{1, std::nullopt}};
    std::vector<JobRoot> roots;
    table.Put(1, 1, 0, 0);
    for (int i = 0; i < count; ++i) {
      const pid_t pid = 2 + i;
      const pid_t parent = *rc::gen::inRange(1, pid);
      table.Put(pid, static_cast<std::uint64_t>(10 + i), parent);
      truth[pid] = truth[parent];
      for (const auto& root : roots)
        if (root.keeper.pid == parent) truth[pid] = root.job;
      if (*rc::gen::inRange(0, 5) == 0)
        roots.push_back({.job = {pid}, .keeper = {pid, static_cast<std::uint64_t>(10 + i)}, .owner = 1000});
    }
    ProcessAttributor attribution(table);
    for (const auto& root : roots) attribution.SetJob(root);
    std::vector<GpuProcess> list;
    list.reserve(truth.size());
    for (const auto& [pid, job] : truth) list.push_back({pid, base::MiB(1), ProcessKind::kCompute});
    for (const auto& process : attribution.Attribute("GPU-a", list))
      RC_ASSERT(process.job == truth[process.id.pid]);
  }));
}

}  // namespace
}  // namespace gpuman::gpu
