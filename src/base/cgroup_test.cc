#include "base/cgroup.h"

#include <gtest/gtest.h>

namespace gpuman::base {
namespace {

TEST(FindCgroup2Mount, FindsThePureAndTheHybridLayout) {
  EXPECT_EQ(
      FindCgroup2Mount("22 1 0:20 / /proc rw - proc proc rw\n"
                       "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"),
      (CgroupMount{"/sys/fs/cgroup", "/"}));
  EXPECT_EQ(FindCgroup2Mount("32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
                             "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"),
            (CgroupMount{"/sys/fs/cgroup/unified", "/"}));
}

TEST(FindCgroup2Mount, ReadsContainerRootsAndEscapedNames) {
  EXPECT_EQ(FindCgroup2Mount("30 22 0:26 /docker/abc /mnt/my\\040groups ro - cgroup2 none rw"),
            (CgroupMount{"/mnt/my groups", "/docker/abc"}));
}

TEST(FindCgroup2Mount, PassesOverAMountFromOutsideTheCgroupNamespace) {
  EXPECT_EQ(FindCgroup2Mount("30 22 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
                             "31 30 0:26 / /sys/fs/cgroup rw - cgroup2 none rw\n"),
            (CgroupMount{"/sys/fs/cgroup", "/"}));
}

TEST(FindCgroup2Mount, PrefersTheWholeTreeToAPartOfIt) {
  EXPECT_EQ(FindCgroup2Mount("30 22 0:26 /user.slice /mnt/part rw - cgroup2 cgroup2 rw\n"
                             "31 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            (CgroupMount{"/sys/fs/cgroup", "/"}));
}

TEST(FindCgroup2Mount, FindsNothingWhereNothingIs) {
  for (const char* text : {"", "\n\n", "nonsense", "1 2 3 - ", " - cgroup",
                           "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"})
    EXPECT_FALSE(FindCgroup2Mount(text)) << text;
}

TEST(Cgroup2Path, TakesTheLineOfTheUnifiedTree) {
  EXPECT_EQ(Cgroup2Path("9:name=systemd:/\n4:memory:/x\n0::/system.slice/gpumand.service\n"),
            "/system.slice/gpumand.service");
  EXPECT_FALSE(Cgroup2Path("4:memory:/x\n"));
  EXPECT_FALSE(Cgroup2Path(""));
}

TEST(CgroupDirectory, GoesFromTheMountedRoot) {
  EXPECT_EQ(CgroupDirectory({"/sys/fs/cgroup", "/"}, "/a/b"), "/sys/fs/cgroup/a/b");
  EXPECT_EQ(CgroupDirectory({"/cg", "/docker/abc"}, "/docker/abc/x"), "/cg/x");
  EXPECT_EQ(CgroupDirectory({"/cg", "/docker/abc"}, "/elsewhere"), std::nullopt);
}

}  // namespace
}  // namespace gpuman::base
