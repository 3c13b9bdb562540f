#include "base/container.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/test_temp_dir.h"

namespace gpuman::base {
namespace {

const std::string kId = "4d8a1f0c9b7e6d5c4b3a29180716253443526170819a0b1c2d3e4f5061728394";
const std::string kOther = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const std::string kUid = "2c48913c-b29f-11e7-9350-020968147796";
const std::string kUnderscored = "2c48913c_b29f_11e7_9350_020968147796";

struct Case {
  std::string what, text, pod_uid;
  std::optional<PodClass> pod_class;
  std::string controllers, path;
};

TEST(ContainerCgroup, IsReadFromWhatRuntimesWrite) {
  const std::string burstable = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" +
                                kUnderscored + ".slice/cri-containerd-" + kId + ".scope";
  const std::string guaranteed =
      "/kubepods.slice/kubepods-pod" + kUnderscored + ".slice/crio-" + kId + ".scope";
  const std::string plain = "/kubepods/besteffort/pod" + kUid + "/" + kId;
  const std::string nested =
      "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-"
      "besteffort-pod" +
      kUnderscored + ".slice/docker-" + kId + ".scope";
  const std::string fixed = "/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" + kId;
  const std::vector<Case> cases = {
      {"containerd, systemd", "0::" + burstable + "\n", kUid, PodClass::kBurstable, "", burstable},
      {"CRI-O with crun's cgroup inside", "0::" + guaranteed + "/container\n", kUid, PodClass::kGuaranteed,
       "", guaranteed},
      {"cgroupfs", "0::" + plain + "\n", kUid, PodClass::kBestEffort, "", plain},
      {"Docker below a root of kubelet's own", "0::" + nested, kUid, PodClass::kBestEffort, "", nested},
      {"a static pod", "0::" + fixed, "0123456789abcdef0123456789abcdef", PodClass::kBurstable, "", fixed},
      {"v1", "12:cpu,cpuacct:" + plain + "\n5:memory:" + plain + "\n1:name=systemd:" + plain, kUid,
       PodClass::kBestEffort, "cpu,cpuacct", plain},
      {"hybrid", "9:name=systemd:/\n4:memory:" + plain + "\n0::/\n", kUid, PodClass::kBestEffort, "memory",
       plain},
      {"v2 goes before v1", "4:memory:" + plain + "\n0::" + burstable + "\n", kUid, PodClass::kBurstable, "",
       burstable},
      {"without cgroups of pods", "0::/k8s.io/" + kId + "\n", "", std::nullopt, "", "/k8s.io/" + kId},
      {"a runtime in the container", "0::" + plain + "/docker/" + kOther + "\n", kUid, PodClass::kBestEffort,
       "", plain},
      {"what a container calls its own", "0::" + plain + "/kubepods/pod" + kUid + "/" + kOther, kUid,
       PodClass::kBestEffort, "", plain},
      {"Kubernetes in a container", "0::/docker/" + kOther + plain, kUid, PodClass::kBestEffort, "",
       "/docker/" + kOther + plain},
  };
  for (const auto& c : cases) {
    const auto found = ParseContainerCgroup(c.text);
    ASSERT_TRUE(found) << c.what;
    EXPECT_EQ(*found, (ContainerCgroup{kId, c.pod_uid, c.pod_class, c.controllers, c.path})) << c.what;
  }
}

TEST(ContainerCgroup, UnknownCgroupPathsAreNoContainer) {
  for (const std::string& text :
       {std::string(), std::string("0::/\n"), std::string("0::/user.slice/user-1000.slice/session-2.scope\n"),
        std::string("0::/system.slice/gpumand.service\n"),
        fmt::format("0::/kubepods.slice/kubepods-pod{}.slice/crio-conmon-{}.scope\n", kUnderscored, kId),
        "0::/kubepods/pod" + kUid + "\n", "0::/kubepods/burstable/pod" + kUid + "/init.scope\n",
        "0::/machine.slice/libpod-" + kId + ".scope/container\n", "0::/docker/" + kId.substr(1) + "\n",
        "0::/docker/" + std::string(64, 'G') + "\n", "0:" + kId, "::::\n\n:" + kId + "\n"})
    EXPECT_FALSE(ParseContainerCgroup(text)) << text;
}

TEST(CgroupMountPoint, MountOfWholeTreeIsChosenNotOfPart) {
  const std::string mounts =
      "24 1 0:23 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n"
      "25 24 0:24 / /sys/fs/cgroup/unified rw,relatime shared:5 - cgroup2 cgroup2 rw,nsdelegate\n"
      "26 24 0:25 /docker/x /mnt/part rw - cgroup cgroup rw,memory\n"
      "27 24 0:25 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
      "28 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
      "29 24 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";
  EXPECT_EQ(CgroupMountPoint(mounts, ""), "/sys/fs/cgroup/unified");
  EXPECT_EQ(CgroupMountPoint(mounts, "memory"), "/sys/fs/cgroup/memory");
  EXPECT_EQ(CgroupMountPoint(mounts, "cpu,cpuacct"), "/sys/fs/cgroup/cpu");
  EXPECT_EQ(CgroupMountPoint(mounts, "name=systemd"), "/sys/fs/cgroup/systemd");
  EXPECT_FALSE(CgroupMountPoint(mounts, "pids"));
  EXPECT_FALSE(CgroupMountPoint("nonsense - cgroup2", ""));
}

TEST(ReadContainer, BelievesCgroupsThatRootMade) {
  const TempDir dir;
  const auto proc = dir.path() / "proc", tree = dir.path() / "cgroup";
  const auto pod = tree / "kubepods" / ("pod" + kUid);
  std::filesystem::create_directories(pod / kId);
  std::filesystem::create_directories(proc / "7");
  std::filesystem::create_directories(proc / "self");
  std::ofstream(proc / "7" / "cgroup") << "0::/kubepods/pod" << kUid << "/" << kId << "/below\n";
  std::ofstream(proc / "self" / "mountinfo") << "1 0 0:1 / " << tree.string() << " rw - cgroup2 cgroup2 rw\n";
  const auto found = ReadContainer(7, proc);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->group.id, kId);
  EXPECT_EQ(found->directory, pod / kId);
  EXPECT_FALSE(ReadContainer(8, proc));
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives directories away";
  ASSERT_EQ(::chown((pod / kId).c_str(), 1000, 1000), 0);
  EXPECT_TRUE(ReadContainer(7, proc));
  ASSERT_EQ(::chown(pod.c_str(), 1000, 1000), 0);
  EXPECT_FALSE(ReadContainer(7, proc));
}

}  // namespace
}  // namespace gpuman::base
