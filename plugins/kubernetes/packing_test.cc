#include "plugins/kubernetes/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/kubernetes/test_pools.h"

namespace gpuman::kubernetes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

ResourcePool PoolOf(ResourceKind kind, int gpus, std::uint64_t gib, unsigned replicas = 0) {
  auto resource = ResourceOf(kind, "r");
  resource.replicas = replicas;
  return MakePools(ConfigOf({resource}), Machine(gpus, gib)).pools[0];
}

std::vector<std::string> Join(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(PackingTest, TheFullestGpuThatHasRoomIsTheBest) {
  const std::vector<unsigned> free = {10, 3, 5, 5, 2};
  EXPECT_EQ(BestFit(free, 4), 2u);
  EXPECT_EQ(BestFit(free, 2), 4u);
  EXPECT_EQ(BestFit(free, 10), 0u);
  EXPECT_EQ(BestFit(free, 11), std::nullopt);
}

TEST(PackingTest, PartsComeFromTheFullestGpuInTheOrderOfTheirNumbers) {
  const auto pool = PoolOf(ResourceKind::kMemory, 2, 20);
  auto available = Join(Parts("GPU-0", 0, 19), Parts("GPU-1", 8, 11));
  std::reverse(available.begin(), available.end());
  EXPECT_THAT(Prefer(pool, available, {}, 3), ElementsAre("GPU-1::8", "GPU-1::9", "GPU-1::10"));
  EXPECT_THAT(Prefer(pool, available, {}, 5),
              ElementsAre("GPU-0::0", "GPU-0::1", "GPU-0::2", "GPU-0::3", "GPU-0::4"));
  EXPECT_THAT(Prefer(pool, available, {}, 21), IsEmpty()) << "nothing fits: no wish";
}

TEST(PackingTest, PartsFollowThoseThatHaveToBeThere) {
  const auto pool = PoolOf(ResourceKind::kMemory, 2, 4);
  const auto available = Join(Parts("GPU-0", 0, 3), Parts("GPU-1", 2, 3));
  const std::vector<std::string> must = {"GPU-0::3"};
  EXPECT_THAT(Prefer(pool, available, must, 2), ElementsAre("GPU-0::3", "GPU-0::0"));
  EXPECT_THAT(Prefer(pool, available, must, 1), ElementsAre("GPU-0::3"));
}

TEST(PackingTest, ATurnIsTakenWhereMostAreFree) {
  const auto pool = PoolOf(ResourceKind::kShared, 2, 80, 3);
  EXPECT_THAT(Prefer(pool, Join(Parts("GPU-0", 2, 2), Parts("GPU-1", 0, 2)), {}, 1), ElementsAre("GPU-1::0"));
}

TEST(PackingTest, WholeGpusComeFromOneNumaNodeWhereThatIsEnough) {
  const auto pool = PoolOf(ResourceKind::kWhole, 8, 80);  // 0 to 3 on node 0, 4 to 7 on node 1
  const std::vector<std::string> available = {"GPU-0", "GPU-1", "GPU-2", "GPU-5", "GPU-6"};
  EXPECT_THAT(Prefer(pool, available, {}, 2), ElementsAre("GPU-5", "GPU-6"))
      << "the smaller node that is enough";
  EXPECT_THAT(Prefer(pool, available, {}, 3), ElementsAre("GPU-0", "GPU-1", "GPU-2"));
  EXPECT_THAT(Prefer(pool, available, {}, 4), UnorderedElementsAre("GPU-0", "GPU-1", "GPU-2", "GPU-5"));
}

TEST(PackingTest, UnknownIdsAreNotChosen) {
  const auto pool = PoolOf(ResourceKind::kMemory, 1, 4);
  const std::vector<std::string> available = {"GPU-9::0", "nonsense", "GPU-0::1"};
  EXPECT_THAT(Prefer(pool, available, {}, 1), ElementsAre("GPU-0::1"));
}

}  // namespace
}  // namespace gpuman::kubernetes
