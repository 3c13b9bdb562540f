#include "keeper/host_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/file.h"
#include "base/test_temp_dir.h"

namespace gpuman::keeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Path = std::filesystem::path;

// Files as in a cgroup v2 tree. They do not act as the kernel does on what is written into them: a directory
// has the controllers that the test gives it.
class Tree {
 public:
  explicit Tree(const Path& root) : root_(root) {}

  // `controllers`: those that the cgroup has.
  Path Add(const std::string& name, const std::string& controllers, const std::string& handed_down) {
    Path cgroup = root_ / name;
    std::filesystem::create_directories(cgroup);
    Write(cgroup / "cgroup.controllers", controllers);
    Write(cgroup / "cgroup.subtree_control", handed_down);
    return cgroup;
  }
  static void Write(const Path& file, const std::string& text) { std::ofstream(file) << text; }
  static std::string Read(const Path& file) { return base::ReadFile(file).value_or("absent"); }

 private:
  Path root_;
};

class HostLimitsTest : public ::testing::Test {
 protected:
  base::TempDir dir_;
  Tree tree_{dir_.path()};
  const HostLimits both_{base::GiB(8), 4};
};

TEST_F(HostLimitsTest, TakesTheNearestThatHandsTheControllersDown) {
  tree_.Add(".", "cpu memory", "cpu memory");
  tree_.Add("system.slice", "cpu memory", "cpu memory pids");
  // A service that holds processes cannot hand controllers down, and it is not marked as delegated.
  const Path own = tree_.Add("system.slice/gpumand.service", "pids", "");
  const Path parent = tree_.Add("system.slice/gpuman", "cpu memory", "");
  EXPECT_EQ(FindLimitingParent(own, dir_.path(), {"memory", "cpu"}).value(), parent);
  EXPECT_EQ(Tree::Read(parent / "cgroup.subtree_control"), "+memory +cpu");
  EXPECT_EQ(Tree::Read(own / "cgroup.subtree_control"), "");
}

TEST_F(HostLimitsTest, TellsItsOwnCgroupToHandThemDown) {
  const Path own = tree_.Add("root", "cpu memory", "");
  tree_.Add("root/gpuman", "cpu memory", "");
  EXPECT_EQ(FindLimitingParent(own, own, {"memory"}).value(), own / "gpuman");
  EXPECT_EQ(Tree::Read(own / "cgroup.subtree_control"), "+memory");
}

TEST_F(HostLimitsTest, LeavesCgroupsOfOthersAsTheyAre) {
  tree_.Add(".", "cpu memory", "");
  const Path slice = tree_.Add("system.slice", "cpu memory", "");
  const Path own = tree_.Add("system.slice/x.service", "", "");
  const auto found = FindLimitingParent(own, dir_.path(), {"memory"});
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("x.service has no memory controller"));
  EXPECT_EQ(Tree::Read(slice / "cgroup.subtree_control"), "");
}

TEST_F(HostLimitsTest, LooksNoFurtherThanTheTopOfTheTree) {
  const Path top = tree_.Add("top", "memory", "");
  const Path own = tree_.Add("top/own", "", "");
  tree_.Add(".", "memory", "memory");
  tree_.Add("gpuman", "memory", "");
  EXPECT_FALSE(FindLimitingParent(own, top, {"memory"}));
}

TEST_F(HostLimitsTest, HoldsMemoryWhereOnlyThatCanBeHeld) {
  const Path own = tree_.Add("own", "memory", "memory");
  tree_.Add("own/gpuman", "memory", "");
  const auto hold = PlanHostLimits(both_, own, own);
  EXPECT_EQ(hold.parent, own / "gpuman");
  EXPECT_TRUE(hold.memory);
  EXPECT_FALSE(hold.processors);
  EXPECT_THAT(hold.notes, IsEmpty()) << "processors are held by affinity";
}

TEST_F(HostLimitsTest, HoldsProcessorsWhereOnlyThoseCanBeHeldAndSaysSo) {
  const Path own = tree_.Add("own", "cpu", "cpu");
  tree_.Add("own/gpuman", "cpu", "");
  const auto hold = PlanHostLimits(both_, own, own);
  EXPECT_EQ(hold.parent, own / "gpuman");
  EXPECT_FALSE(hold.memory);
  EXPECT_TRUE(hold.processors);
  EXPECT_THAT(hold.notes, ElementsAre(HasSubstr("not limited to 8GiB: ")));
}

// cgroup v1 alone, a hybrid tree whose controllers belong to v1, a tree that vanished.
TEST_F(HostLimitsTest, SaysWhyMemoryCannotBeLimited) {
  const HostLimits memory{base::GiB(8), 0};
  const base::Result<Path> none = base::Fail(base::ErrorCode::kNotSupported, "no cgroup v2 tree");
  const auto without = PlanHostLimits(memory, none, {});
  EXPECT_TRUE(without.parent.empty());
  EXPECT_THAT(without.notes, ElementsAre("its host memory is not limited to 8GiB: no cgroup v2 tree"));

  const Path hybrid = tree_.Add("hybrid", "hugetlb", "");
  EXPECT_THAT(PlanHostLimits(memory, hybrid, hybrid).notes,
              ElementsAre(HasSubstr("hybrid has no memory controller")));

  const Path gone = dir_.path() / "gone";
  EXPECT_THAT(PlanHostLimits(memory, gone, gone).notes, ElementsAre(HasSubstr("gone")));
  EXPECT_FALSE(std::filesystem::exists(gone));
}

TEST_F(HostLimitsTest, AsksForNothingWhereNothingIsLimited) {
  const auto hold = PlanHostLimits({}, tree_.Add("own", "memory", "memory"), dir_.path());
  EXPECT_TRUE(hold.parent.empty());
  EXPECT_THAT(hold.notes, IsEmpty());
}

TEST_F(HostLimitsTest, WritesTheFilesOfACgroup) {
  const Path job = tree_.Add("job", "", "");
  for (const char* file : {"memory.max", "memory.swap.max", "memory.oom.group", "cpu.max"})
    Tree::Write(job / file, "");
  ASSERT_TRUE(LimitMemory(job, base::MiB(64)));
  ASSERT_TRUE(LimitProcessors(job, 3));
  EXPECT_EQ(Tree::Read(job / "memory.max"), "67108864");
  EXPECT_EQ(Tree::Read(job / "memory.swap.max"), "0");
  EXPECT_EQ(Tree::Read(job / "memory.oom.group"), "1");
  EXPECT_EQ(Tree::Read(job / "cpu.max"), "300000 100000");
}

TEST_F(HostLimitsTest, LiftsALimit) {
  const Path job = tree_.Add("job", "", "");
  for (const char* file : {"memory.max", "memory.swap.max"}) Tree::Write(job / file, "");
  ASSERT_TRUE(LimitMemory(job, std::nullopt));
  EXPECT_EQ(Tree::Read(job / "memory.max"), "max");
  EXPECT_EQ(Tree::Read(job / "memory.swap.max"), "max");
}

TEST_F(HostLimitsTest, DoesNotNeedWhatOldKernelsLack) {
  const Path job = tree_.Add("job", "", "");
  EXPECT_FALSE(LimitMemory(job, base::MiB(64))) << "but memory.max it needs";
  Tree::Write(job / "memory.max", "");
  EXPECT_TRUE(LimitMemory(job, base::MiB(64)));
  EXPECT_FALSE(PeakMemory(job));
  EXPECT_FALSE(OutOfMemoryKills(job));
}

TEST_F(HostLimitsTest, ReadsWhatTheKernelCounts) {
  const Path job = tree_.Add("job", "", "");
  Tree::Write(job / "memory.events", "low 0\nhigh 0\nmax 12\noom 2\noom_kill 3\noom_group_kill 1\n");
  Tree::Write(job / "memory.peak", "67108864\n");
  EXPECT_EQ(OutOfMemoryKills(job), 3u);
  EXPECT_EQ(PeakMemory(job), base::MiB(64));
  EXPECT_EQ(HostMemoryReason(base::MiB(64), PeakMemory(job)).detail,
            "its processes wanted more than the 64MiB of host memory that it asked for (they had 64MiB)");
}

TEST(ChooseProcessors, TakesThoseThatTheFewestArePinnedTo) {
  EXPECT_THAT(ChooseProcessors({0, 1, 2, 3}, {{0, 2}, {1, 1}}, 2, 0), ElementsAre(2, 3));
  EXPECT_THAT(ChooseProcessors({0, 1, 2, 3}, {{0, 2}, {1, 1}}, 3, 0), ElementsAre(1, 2, 3));
}

TEST(ChooseProcessors, SpreadsJobsThatComeAtTheSameTime) {
  EXPECT_THAT(ChooseProcessors({0, 1, 2, 3}, {}, 2, 0), ElementsAre(0, 1));
  EXPECT_THAT(ChooseProcessors({0, 1, 2, 3}, {}, 2, 2), ElementsAre(2, 3));
  EXPECT_THAT(ChooseProcessors({0, 1, 2, 3}, {}, 2, 7), ElementsAre(0, 3));
}

TEST(ChooseProcessors, GivesNoMoreThanThereAre) {
  EXPECT_THAT(ChooseProcessors({4, 5}, {{4, 9}}, 8, 1), ElementsAre(4, 5));
  EXPECT_THAT(ChooseProcessors({}, {}, 2, 1), IsEmpty());
}

TEST(ParseProcessors, ReadsTheKernelsLists) {
  EXPECT_THAT(ParseProcessors("0-3,8,10-11"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(ParseProcessors("5"), ElementsAre(5));
  for (const char* bad : {"", "x", "3-1", "-2", "0-99999999999", "1,,x"})
    EXPECT_THAT(ParseProcessors(bad), IsEmpty()) << bad;
}

TEST(FreestProcessors, AreAmongTheProcessorsOfThisProcess) { EXPECT_EQ(FreestProcessors(1, 7).size(), 1u); }

}  // namespace
}  // namespace gpuman::keeper
