#include "sim/state/limits.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <filesystem>

#include "sim/state/test_state.h"

namespace gpuman::sim {
namespace {

constexpr std::uint64_t kLimitGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

class SimGroupLimits : public ::testing::Test {
 protected:
  std::string Directory(const char* name) {
    std::string path = test_.directory() + "/" + name;
    std::filesystem::create_directory(path);
    return path;
  }
  bool Set(const std::string& path, std::uint64_t hard, unsigned gpu = 0) {
    return SetGroupLimit(test_.shared(), gpu, *InodeOf(path.c_str()), path.c_str(), 0, hard);
  }
  // A limit for the cgroup that this process is in. The path is only looked at for whether it is still there.
  bool LimitOwn(std::uint64_t hard, unsigned gpu = 0) {
    const std::uint64_t own = client_.Slot()->groups[0].load();
    return own != 0 && SetGroupLimit(test_.shared(), gpu, own, "/", 0, hard);
  }

  TestState test_{{.gpus = 2}};
  Client client_{test_.state()};
};

TEST_F(SimGroupLimits, HoldForAllProcessesOfTheCgroupTogether) {
  if (!LimitOwn(3 * kLimitGiB)) GTEST_SKIP() << "there is no cgroup v2";
  EXPECT_FALSE(client_.ReserveDeviceBytes(0, 3 * kLimitGiB + 1));
  EXPECT_TRUE(client_.ReserveDeviceBytes(1, 4 * kLimitGiB)) << "the other GPU has no limit";
  EXPECT_TRUE(client_.ReserveDeviceBytes(0, kLimitGiB));
  Child child([&] {
    static Client client(test_.state());
    return client.ReserveDeviceBytes(0, kLimitGiB);
  });
  ASSERT_TRUE(child.succeeded());
  EXPECT_TRUE(client_.ReserveDeviceBytes(0, kLimitGiB));
  EXPECT_FALSE(client_.ReserveDeviceBytes(0, kAccountingUnit));
  child.Kill(SIGKILL);
  EXPECT_TRUE(client_.ReserveDeviceBytes(0, kLimitGiB)) << "the child's part is free again";
  EXPECT_FALSE(client_.ReserveDeviceBytes(0, kAccountingUnit));
  ASSERT_TRUE(LimitOwn(kNoLimit));
  EXPECT_TRUE(client_.ReserveDeviceBytes(0, kAccountingUnit));
}

TEST_F(SimGroupLimits, DoNotCountManagedMemory) {
  if (!LimitOwn(kLimitGiB)) GTEST_SKIP() << "there is no cgroup v2";
  client_.ManagedMoved(0, 2 * kLimitGiB);
  EXPECT_TRUE(client_.ReserveDeviceBytes(0, kLimitGiB));
}

TEST_F(SimGroupLimits, OfOtherCgroupsDoNotHoldHere) {
  ASSERT_TRUE(Set(Directory("other"), kLimitGiB));
  EXPECT_TRUE(client_.ReserveDeviceBytes(0, 2 * kLimitGiB));
}

TEST_F(SimGroupLimits, AreGoneWithTheCgroup) {
  const auto stays = Directory("stays"), goes = Directory("goes");
  ASSERT_TRUE(Set(stays, 2 * kLimitGiB) && Set(goes, kLimitGiB) && Set(goes, kLimitGiB, 1));
  EXPECT_EQ(GroupLimitsOn(test_.shared(), 0).size(), 2u);
  std::filesystem::remove(goes);
  const auto left = GroupLimitsOn(test_.shared(), 0);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].path, stays);
  EXPECT_EQ(left[0].hard, 2 * kLimitGiB);
  EXPECT_TRUE(GroupLimitsOn(test_.shared(), 1).empty());
  for (unsigned i = 0; i < 2 * kMaxGroupLimits; ++i) {
    ASSERT_TRUE(Set(Directory("goes"), kLimitGiB)) << "its entry is used again";
    std::filesystem::remove(goes);
  }
}

TEST_F(SimGroupLimits, AreWholeAfterAProcessWasKilledThatSetThem) {
  const auto group = Directory("group");
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0)
      for (bool done = true; done;) done = Set(group, kLimitGiB) && Set(group, 2 * kLimitGiB);
    while (!GroupLimitOf(test_.shared(), 0, *InodeOf(group.c_str()))) usleep(10);
    usleep(static_cast<useconds_t>(100 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const auto limit = GroupLimitOf(test_.shared(), 0, *InodeOf(group.c_str()));
    ASSERT_TRUE(limit);
    EXPECT_TRUE(limit->hard == kLimitGiB || limit->hard == 2 * kLimitGiB || limit->times == 0) << limit->hard;
  }
}

TEST_F(SimGroupLimits, AreForgottenWithTheDriver) {
  ASSERT_TRUE(Set(Directory("group"), kLimitGiB) && Set(Directory("group"), kLimitGiB, 1));
  ForgetGroupLimits(test_.shared(), 0);
  EXPECT_TRUE(GroupLimitsOn(test_.shared(), 0).empty());
  EXPECT_EQ(GroupLimitsOn(test_.shared(), 1).size(), 1u);
}

}  // namespace
}  // namespace gpuman::sim
