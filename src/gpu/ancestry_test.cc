#include "gpu/ancestry.h"

#include <gtest/gtest.h>

#include <functional>

namespace gpuman::gpu {
namespace {

using base::JobId;
using base::ProcessId;

// An artificial process table that counts how often it is asked.
class CountedTable final : public base::ProcessTable {
 public:
  void Put(pid_t pid, std::uint64_t start, pid_t parent) {
    entries[pid] = {{pid, start}, parent, pid, pid, 'S', "p"};
  }
  std::optional<base::ProcessInfo> Find(pid_t pid) const override {
    ++finds;
    if (on_find) on_find(pid);
    const auto it = entries.find(pid);
    return it == entries.end() ? std::nullopt : std::optional(it->second);
  }
  std::vector<base::ProcessInfo> List() const override { return {}; }
  std::optional<uid_t> Owner(pid_t) const override { return std::nullopt; }
  std::vector<std::string> CommandLine(pid_t) const override { return {}; }
  std::optional<std::string> Environment(pid_t, std::string_view) const override { return std::nullopt; }

  std::map<pid_t, base::ProcessInfo> entries;
  mutable std::size_t finds = 0;
  std::function<void(pid_t)> on_find;
};

constexpr JobId kOuterJob{7}, kInnerJob{8};
constexpr ProcessId kOuterKeeper{100, 10};
constexpr std::size_t kMaxReads = 50;

class AncestryTest : public testing::Test {
 protected:
  // A keeper, and below it a chain of processes from pid 101 on.
  void Chain(pid_t length) {
    table_.Put(100, 10, 1);
    for (pid_t pid = 101; pid <= 100 + length; ++pid)
      table_.Put(pid, static_cast<std::uint64_t>(pid), pid - 1);
  }
  Ancestry::Found Ask(pid_t pid) { return ancestry_.JobAbove(table_.entries.at(pid), kMaxReads); }

  CountedTable table_;
  Ancestry ancestry_{table_};
};

TEST_F(AncestryTest, ALongWayIsGoneInStepsThatAreBounded) {
  Chain(1000);
  ancestry_.Add(kOuterJob, kOuterKeeper);
  int calls = 0;
  for (Ancestry::Found found{std::nullopt, false}; !found.complete; ++calls) {
    const auto before = table_.finds;
    found = Ask(1100);
    EXPECT_LE(table_.finds - before, kMaxReads + 1);
    EXPECT_EQ(found.job.has_value(), found.complete);
    ASSERT_LT(calls, 40) << "each call gets further";
  }
  EXPECT_GT(calls, 10);
  EXPECT_EQ(Ask(1100).job, kOuterJob);
}

TEST_F(AncestryTest, ASharedAncestorIsReadOnce) {
  Chain(1000);
  table_.Put(100, 99'999, 1);  // not a keeper any more: the path goes to the top, and nothing is found
  table_.Put(99, 9, 1);
  table_.entries[101].parent = 99;
  ancestry_.Add(kOuterJob, kOuterKeeper);
  while (!Ask(1100).complete) {
  }
  for (pid_t pid = 2000; pid < 2100; ++pid) {
    table_.Put(pid, 3000, 1100);
    const auto before = table_.finds;
    const auto found = Ask(pid);
    EXPECT_TRUE(found.complete);
    EXPECT_EQ(found.job, std::nullopt);
    EXPECT_LE(table_.finds - before, 1u);
  }
}

TEST_F(AncestryTest, AnAncestorThatEndsMeanwhileCostsNoSecondWay) {
  Chain(30);
  ancestry_.Add(kOuterJob, kOuterKeeper);
  // At each read an ancestor ends, and its child moves to the keeper, which is its subreaper.
  table_.on_find = [&](pid_t pid) {
    if (pid <= 101 || pid >= 130 || pid % 2 == 0) return;
    table_.entries.erase(pid);
    table_.entries.at(pid + 1).parent = 100;
  };
  const auto found = Ask(130);
  EXPECT_EQ(found.job, kOuterJob);
  EXPECT_LE(table_.finds, 10u);
}

TEST_F(AncestryTest, APlaceThatWasReachedAndHasEndedIsPassedStepByStep) {
  Chain(120);
  ancestry_.Add(kOuterJob, kOuterKeeper);
  EXPECT_FALSE(Ask(220).complete);
  // All processes between this one and its keeper end.
  for (pid_t pid = 101; pid < 220; ++pid) table_.entries.erase(pid);
  table_.entries.at(220).parent = 100;
  EXPECT_EQ(Ask(220).job, kOuterJob);
}

TEST_F(AncestryTest, AKeeperThatComesIsFoundByThoseBelowIt) {
  Chain(20);
  EXPECT_EQ(Ask(120).job, std::nullopt);
  ancestry_.Add(kOuterJob, kOuterKeeper);
  EXPECT_EQ(Ask(120).job, kOuterJob);
  ancestry_.Add(kInnerJob, {110, 110});
  EXPECT_EQ(Ask(120).job, kInnerJob);
  EXPECT_EQ(Ask(109).job, kOuterJob);
  ancestry_.Remove(kInnerJob, {110, 110});
  EXPECT_EQ(Ask(120).job, kOuterJob);
  ancestry_.Remove(kOuterJob, kOuterKeeper);
  EXPECT_EQ(Ask(120).job, std::nullopt);
}

TEST_F(AncestryTest, AParentThatCannotBeSeenIsTheEndOfTheWay) {
  table_.Put(101, 20, 100);
  const auto found = Ask(101);
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.job, std::nullopt);
}

}  // namespace
}  // namespace gpuman::gpu
