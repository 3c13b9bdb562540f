#include "doctor/gather.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/test_temp_dir.h"

namespace gpuman::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DoctorGather, TheKernelModulesVersionIsFoundInItsText) {
  EXPECT_EQ(
      KernelVersionIn(
          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\nGCC 12.2.0\n"),
      "580.159.04");
  EXPECT_EQ(KernelVersionIn("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2\n"),
            "470.256.02");
  EXPECT_EQ(KernelVersionIn(""), std::nullopt);
  EXPECT_EQ(KernelVersionIn("no such thing\n580.1\n"), std::nullopt);
}

TEST(DoctorGather, TheChosenWordStandsInBrackets) {
  EXPECT_EQ(ChosenIn("always [madvise] never\n"), "madvise");
  EXPECT_EQ(ChosenIn("always"), std::nullopt);
  EXPECT_EQ(ChosenIn("]["), std::nullopt);
}

class Root : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((dir_.path() / path).parent_path());
    std::ofstream(dir_.path() / path) << text;
  }
  base::TempDir dir_;
};

TEST_F(Root, TheHostIsReadFromItsFiles) {
  Write("proc/meminfo", "MemTotal:       131072 kB\nMemFree: 1 kB\n");
  Write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  Write("proc/self/mountinfo",
        "1 0 0:1 / / rw - ext4 /dev/vda rw\n30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  Write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory\n");
  Facts facts;
  GatherHost(facts, dir_.path(), dir_.path());
  EXPECT_EQ(facts.host.memory, base::MiB(128));
  EXPECT_EQ(facts.host.huge_pages, "never");
  EXPECT_EQ(facts.host.cgroup2, true);
  EXPECT_THAT(facts.host.controllers, ElementsAre("cpuset", "cpu", "io", "memory"));
  EXPECT_TRUE(facts.host.state_free);
  EXPECT_FALSE(facts.host.shm);
}

TEST_F(Root, AMissingFileLeavesItsFactUnknown) {
  Facts facts;
  GatherHost(facts, dir_.path() / "nowhere", dir_.path());
  EXPECT_FALSE(facts.host.memory);
  EXPECT_FALSE(facts.host.huge_pages);
  EXPECT_FALSE(facts.host.cgroup2);
  EXPECT_FALSE(facts.host.state_free);
}

TEST_F(Root, ALibraryThatTheLinkerRefusesIsFoundOut) {
  Write("lib/libgpuman.so", "this is no library");
  Write("etc/ld.so.preload", "/usr/lib/other.so\n");
  Facts facts;
  GatherShim(facts, {dir_.path() / "nowhere.so", dir_.path() / "lib/libgpuman.so"}, dir_.path());
  EXPECT_EQ(facts.shim.path, dir_.path() / "lib/libgpuman.so");
  EXPECT_THAT(facts.shim.problem, HasSubstr("preload"));
  EXPECT_EQ(facts.shim.system_preload, "/usr/lib/other.so");
}

TEST_F(Root, WithoutALibraryThereIsNoPath) {
  Facts facts;
  GatherShim(facts, {dir_.path() / "nowhere.so"}, dir_.path());
  EXPECT_EQ(facts.shim.path, "");
  EXPECT_EQ(facts.shim.problem, "");
}

}  // namespace
}  // namespace gpuman::doctor
