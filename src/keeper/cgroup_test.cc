#include "keeper/cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/test_temp_dir.h"

namespace gpuman::keeper {
namespace {

using ::testing::UnorderedElementsAre;

TEST(CgroupPids, ListsTheGroupsBelowToo) {
  const base::TempDir dir;
  std::filesystem::create_directories(dir.path() / "a/b");
  std::ofstream(dir.path() / "cgroup.procs") << "1\n20\n";
  std::ofstream(dir.path() / "a/b/cgroup.procs") << "300\n0\nx\n";
  EXPECT_THAT(CgroupPids(dir.path()), UnorderedElementsAre(1, 20, 300));
  EXPECT_TRUE(CgroupPids(dir.path() / "gone").empty());
}

TEST(MakeCgroup, RefusesADirectoryThatIsNoCgroup) {
  const base::TempDir dir;
  EXPECT_FALSE(MakeCgroup(dir.path(), "job"));
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "job"));
}

}  // namespace
}  // namespace gpuman::keeper
